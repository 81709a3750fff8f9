"""Pickles of state dicts as plain values. A name in a pickle is never imported, and nothing is called.

It has an interpreter of its own instead of a pickle.Unpickler with a narrower `find_class`: it implements
only the operations of state dicts, refuses every other one by name, and bounds the memory that a pickle can
take. Source: Python's Lib/pickletools.py, which also splits the bytes into operations here.
"""

import io
import pickletools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from txexport.errors import UnsupportedError, shown

MOST_BYTES = 16 << 20  # bytes of one pickle; a tensor takes about 200
MOST_OPERATIONS = 500_000  # a tensor takes about 30
MOST_SIZES = 8
LARGEST = 2**63 - 1
PROTOCOL = 2

# PyTorch's name of a storage's type, and safetensors' name of its number type.
STORAGES = {
    **{"torch.DoubleStorage": "F64", "torch.FloatStorage": "F32", "torch.HalfStorage": "F16"},
    **{"torch.BFloat16Storage": "BF16", "torch.LongStorage": "I64", "torch.IntStorage": "I32"},
    **{"torch.ShortStorage": "I16", "torch.CharStorage": "I8", "torch.ByteStorage": "U8"},
    **{"torch.BoolStorage": "BOOL"},
}


@dataclass(frozen=True)
class Name:
    """A global that a pickle would have imported, by its full name."""

    path: str


@dataclass(frozen=True)
class Storage:
    """Contiguous numbers, by the key under which the file has them.

    A view, as in files before PyTorch 0.4, is `numel` of these numbers from `start` on.
    """

    dtype: str
    key: str
    numel: int
    start: int = 0


@dataclass(frozen=True)
class Tensor:
    """A view of a storage; `offset` and `strides` count numbers."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def load(stream: io.BytesIO) -> tuple[Any, dict[str, Storage]]:
    """The value of the next pickle in `stream`, and the storages that it refers to, by key.

    Dicts, also ordered ones, are plain ones. Raises UnsupportedError for values that no state dict has,
    ValueError for a damaged pickle.
    """
    machine = _Machine()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if count > MOST_OPERATIONS:
            raise ValueError(f"its pickle has more than {MOST_OPERATIONS:,} operations")
        machine.step(opcode.name, argument)
    return machine.pop(), machine.storages


LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINSTRING"}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
DONE = {"PROTO", "STOP"}


class _Machine:
    """The stack and the memo of a pickle being read."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, Storage] = {}

    def pop(self) -> Any:
        """The last value after the last mark."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise ValueError("its pickle pops from an empty stack")
        return self.stack.pop()

    def _since_mark(self) -> list[Any]:
        if not self.marks:
            raise ValueError("its pickle has no mark where one is needed")
        first = self.marks.pop()
        values = self.stack[first:]
        del self.stack[first:]
        return values

    def step(self, operation: str, argument: Any) -> None:
        """Do one operation."""
        if operation in LITERALS:
            self.stack.append(argument)
        elif operation in CONSTANTS:
            self.stack.append(CONSTANTS[operation])
        elif operation in EMPTY:
            self.stack.append(EMPTY[operation]())
        elif operation in TUPLES:
            self.stack.append(tuple(self.pop() for _ in range(TUPLES[operation]))[::-1])
        elif operation == "MARK":
            self.marks.append(len(self.stack))
        elif operation == "TUPLE":
            self.stack.append(tuple(self._since_mark()))
        elif operation in ("BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT"):
            self._remember(operation, argument)
        elif operation in ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "BUILD"):
            self._fill(operation)
        elif operation == "GLOBAL":
            self.stack.append(_known(argument.replace(" ", ".")))
        elif operation == "REDUCE":
            arguments, function = self.pop(), self.pop()
            self.stack.append(_called(function, arguments))
        elif operation == "BINPERSID":
            whole, view = _storage(self.pop())
            if self.storages.setdefault(whole.key, whole) != whole:
                raise ValueError(f"its pickle has storage {shown(whole.key)} in two ways")
            self.stack.append(view)
        elif operation == "PROTO" and argument != PROTOCOL:
            raise UnsupportedError(f"its pickle is of protocol {argument}, and torch.save writes {PROTOCOL}")
        elif operation not in DONE:
            raise UnsupportedError(
                f"its pickle has the operation {operation}, which no state dict needs; save the model's "
                "state_dict()"
            )

    def _remember(self, operation: str, place: int) -> None:
        if operation.endswith("PUT"):
            self.memo[place] = self.pop()
            self.stack.append(self.memo[place])
        elif place in self.memo:
            self.stack.append(self.memo[place])
        else:
            raise ValueError(f"its pickle reads value {place} of the memo before it is set")

    def _fill(self, operation: str) -> None:
        """Put values into the list or dict before them; attributes of objects are ignored."""
        match operation:
            case "APPEND" | "APPENDS":
                values = [self.pop()] if operation == "APPEND" else self._since_mark()
                _expect(self._last(), list).extend(values)
            case "SETITEM" | "SETITEMS":
                values = [self.pop(), self.pop()][::-1] if operation == "SETITEM" else self._since_mark()
                if len(values) % 2:
                    raise ValueError("its pickle has a key without a value")
                _put(_expect(self._last(), dict), zip(values[::2], values[1::2], strict=True))
            case "BUILD":  # a state dict has _metadata, the versions of modules
                _expect(self.pop(), dict)
                _expect(self._last(), dict)

    def _last(self) -> Any:
        value = self.pop()
        self.stack.append(value)
        return value


def _known(path: str) -> Name:
    if path not in STORAGES and path not in CALLED:
        raise UnsupportedError(
            f"it holds {shown(path)[1:-1]}, which is no tensor, and nothing in it is run; save the model's "
            "state_dict()"
        )
    return Name(path)


def _called(function: Any, arguments: Any) -> Any:
    if not isinstance(function, Name) or function.path not in CALLED:
        raise ValueError(f"its pickle calls {_kind(function)}")
    return CALLED[function.path](*_expect(arguments, tuple))


def _put(target: dict[Any, Any], items: Iterable[tuple[Any, Any]]) -> None:
    for key, value in items:
        if not (
            type(key) is str or (type(key) is int and abs(key) < 2**32)
        ):  # few of which have equal hashes
            raise UnsupportedError(f"it holds a dict with {_kind(key)} for a key")
        target[key] = value


def _ordered(*arguments: Any) -> dict[Any, Any]:
    """OrderedDict(), or one of a list of [key, value], as Python 2 wrote it."""
    result: dict[Any, Any] = {}
    for items in arguments[:1]:
        _put(result, (_pair(item) for item in _expect(items, list)))
    return result


def _pair(item: Any) -> tuple[Any, Any]:
    if type(item) not in (list, tuple) or len(item) != 2:
        raise ValueError("its pickle makes an OrderedDict of values that are not pairs")
    return item[0], item[1]


def _tensor(*arguments: Any) -> Tensor:
    """_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks, metadata)."""
    if not 4 <= len(arguments) <= 7:
        raise ValueError(f"its pickle makes a tensor of {len(arguments)} arguments")
    storage, offset, shape, strides, *_ = arguments
    if len(arguments) == 7 and arguments[6]:
        raise UnsupportedError("it holds a tensor with the conjugate or the negative bit")
    if not (isinstance(storage, Storage) and _are_sizes((offset,))):
        raise ValueError("its pickle makes a tensor without a storage and an offset")
    if not (_are_sizes(shape) and _are_sizes(strides) and len(shape) == len(strides) <= MOST_SIZES):
        raise ValueError(f"its pickle makes a tensor without up to {MOST_SIZES} sizes and as many strides")
    return Tensor(storage, offset, shape, strides)


def _parameter(*arguments: Any) -> Tensor:
    """_rebuild_parameter(data, requires_grad, backward_hooks)."""
    if len(arguments) != 3:
        raise ValueError(f"its pickle makes a parameter of {len(arguments)} arguments")
    return _expect(arguments[0], Tensor)


CALLED: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
}


def _storage(identity: Any) -> tuple[Storage, Storage]:
    """The storage that ("storage", type, key, location, numel) names; in older files its view, or itself.

    The view is None, or (key, offset, size), after the other values.
    """
    if not (isinstance(identity, tuple) and len(identity) in (5, 6) and identity[0] == "storage"):
        kind = identity[0] if isinstance(identity, tuple) and identity else identity
        kind = shown(kind) if type(kind) is str else _kind(kind)
        raise UnsupportedError(f"it refers to {kind} outside of its pickle, expected a storage")
    _, name, key, _, numel, *view = identity
    if not (isinstance(name, Name) and name.path in STORAGES and type(key) is str and _are_sizes((numel,))):
        raise ValueError("its pickle names a storage without type, key and size")
    whole = Storage(STORAGES[name.path], key, numel)
    if not view or view[0] is None:
        return whole, whole
    if not (isinstance(view[0], tuple) and len(view[0]) == 3 and _are_sizes(view[0][1:])):
        raise ValueError(f"its pickle has a view of storage {shown(key)} without key, offset and size")
    _, start, size = view[0]
    if start + size > numel:
        raise ValueError(f"its pickle has a view of storage {shown(key)} beyond its {numel} numbers")
    return whole, replace(whole, numel=size, start=start)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(one) is int and 0 <= one <= LARGEST for one in values)


def _expect(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"its pickle has {_kind(value)} in the place of a {kind.__name__}")
    return value


def _kind(value: object) -> str:
    """The type of a value for messages; its text may be of any length."""
    return value.path if isinstance(value, Name) else f"a {type(value).__name__}"
