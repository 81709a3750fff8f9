"""The two sides of a comparison, with named inputs and outputs: an ONNX file, or a PyTorch module."""

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx

from txexport.checkpoints.transformers_loading import cache_parameter
from txexport.contracts import Port, cache_names
from txexport.contracts.cache_names import PAST
from txexport.errors import InputError, UnsupportedError, first_line
from txexport.runtime.engines.onnxruntime import open_session

Arrays = dict[str, np.ndarray]
LAYER = re.compile(r"\.\d+\.")
TYPES = {
    "double": "float64",
    "float": "float32",
    **{kind: kind for kind in ("bool", "float16", "int8", "int16", "int32", "int64")},
    **{kind: kind for kind in ("uint8", "uint16", "uint32", "uint64")},
}


def dtype_of(port: Port) -> np.dtype:
    """The numpy type of an input or output."""
    return np.dtype(TYPES[port.dtype])


def declared(port: Port) -> str:
    """Type and shape of an input or output, as numpy writes them."""
    return f"{dtype_of(port)} {tuple(None if dim == '' else dim for dim in port.shape)}"


class Side(Protocol):
    """One of the two sides."""

    name: str

    @property
    def inputs(self) -> dict[str, Port | None]:
        """The required inputs; None for undeclared types and shapes."""
        ...

    @property
    def outputs(self) -> dict[str, Port]:
        """The declared outputs, possibly none."""
        ...

    def takes(self, name: str) -> bool:
        """True if there is an input of that name, required or not."""
        ...

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """The outputs by name, or by position as "0" if they have no names."""
        ...


class Graph:
    """An ONNX file; its weights may lie in other files.

    Raises BundleError for a file that ONNX Runtime cannot load, UnsupportedError for a type that numpy lacks.
    """

    def __init__(self, path: str | Path, device: str = "cpu"):
        self.name, self.path = str(path), Path(path)
        if not self.path.is_file():
            raise InputError(f"{path} is not a file; expected an ONNX file")
        self.session = open_session(self.path, device, None)
        self.inputs: dict[str, Port | None] = dict(self.session.inputs)
        self.outputs = self.session.outputs
        for name, port in {**self.session.inputs, **self.outputs}.items():
            if port.dtype not in TYPES:
                raise UnsupportedError(f"{self.name}: '{name}' is a {port.dtype}, which is not compared")

    @cached_property
    def parameters(self) -> int:
        """The number of its weights."""
        proto = onnx.load(self.path, load_external_data=False)
        return sum(int(np.prod(tensor.dims)) for tensor in proto.graph.initializer)

    def takes(self, name: str) -> bool:
        """See Side."""
        return name in self.inputs

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """See Side. Integers and floats may have any width."""
        missing = self.inputs.keys() - feeds.keys()
        if missing:
            raise InputError(f"{self.name} needs {', '.join(sorted(missing))}")
        fitting = {}
        for name, port in self.inputs.items():
            assert port is not None
            fitting[name] = _cast(feeds[name], port)
        try:
            return self.session.engine.run(fitting)
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            raise InputError(f"{self.name}: ONNX Runtime refused: {first_line(error)}") from None


def _cast(array: np.ndarray, port: Port) -> np.ndarray:
    """An array in the type of an input of the same kind; a mask may be of any kind."""
    dtype = dtype_of(port)
    if array.dtype.kind == "f" and dtype.kind in "iu":
        raise InputError(f"input '{port.name}' is {array.dtype}, expected {dtype}")
    return np.ascontiguousarray(array.astype(dtype, copy=False))


class Module:
    """A PyTorch module, called with its inputs by name.

    Inputs past_key_values.{i}.key and .value become one cache of transformers, if `forward` has a parameter
    for it: cache, or past_key_values.
    """

    def __init__(self, module: Any, name: str):
        self.module, self.name = module.eval(), name
        self.outputs: dict[str, Port] = {}
        signature = inspect.signature(module.forward).parameters.values()
        by_name = [p for p in signature if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.inputs: dict[str, Port | None] = {p.name: None for p in by_name if p.default is p.empty}
        self.known = {p.name for p in by_name}
        self.open = any(p.kind is p.VAR_KEYWORD for p in signature)
        self.cache = cache_parameter(self.known)

    def takes(self, name: str) -> bool:
        """See Side."""
        return self.open or name in self.known or (cache_names.is_past(name) and self.cache is not None)

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """See Side."""
        import torch

        tensors = {name: torch.from_numpy(np.array(array)) for name, array in feeds.items()}
        past = {name: tensors.pop(name) for name in list(tensors) if cache_names.is_past(name)}
        cache = {self.cache or PAST: _cache(past)} if past else {}
        with torch.no_grad():  # inference tensors, which modules may keep, could not be trained on
            result = self.module(**tensors, **cache)
        named = dict(_flatten(result, ""))
        return {name: tensor.detach().cpu().numpy() for name, tensor in named.items()}


def _cache(past: Mapping[str, Any]) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer in range(len(past) // 2):
        cache.update(*(past[name] for name in cache_names.past(layer)), layer)
    return cache


def _flatten(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The tensors that a module returned, by name; those of a cache as present.{i}.key and .value."""
    import torch

    if isinstance(value, torch.Tensor):
        yield name or "0", value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flatten(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, tuple | list):
        for i, part in enumerate(value):
            yield from _flatten(part, f"{name}.{i}" if name else str(i))
    elif hasattr(value, "layers"):
        for layer, pair in enumerate(value.layers):
            yield from zip(cache_names.present(layer), (pair.keys, pair.values), strict=True)
    elif value is not None:
        raise UnsupportedError(f"the module returned a {type(value).__name__}, expected tensors")


def module_of(place: str) -> Module:
    """The module that a function returns, named as package.module:function.

    The current folder is searched too. Raises InputError if there is no such function, if it fails, or if it
    returns something else.
    """
    home, _, function = place.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = getattr(importlib.import_module(home), function)()
    except Exception as error:  # of the user's code
        raise InputError(f"{place} cannot be called: {type(error).__name__}: {first_line(error)}") from error
    if not hasattr(module, "forward") or not hasattr(module, "eval"):
        raise InputError(f"{place} returned a {type(module).__name__}, expected a torch.nn.Module")
    return Module(module, place)


class Renamed:
    """A side with other names of inputs and outputs; `names` map its own names to them."""

    def __init__(self, side: Side, names: Mapping[str, str]):
        self.side, self.names, self.name = side, dict(names), side.name
        self.own_names = {other: own for own, other in names.items()}

    @property
    def inputs(self) -> dict[str, Port | None]:
        """See Side."""
        return {self.names.get(name, name): port for name, port in self.side.inputs.items()}

    @property
    def outputs(self) -> dict[str, Port]:
        """See Side."""
        return {self.names.get(name, name): port for name, port in self.side.outputs.items()}

    def takes(self, name: str) -> bool:
        """See Side."""
        return self.side.takes(self.own_names.get(name, name))

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """See Side."""
        result = self.side.run({self.own_names.get(name, name): array for name, array in feeds.items()})
        return {self.names.get(name, name): array for name, array in result.items()}


def one_sided_outputs(a: str, ours: Iterable[str], b: str, theirs: Iterable[str]) -> str:
    """`one_sided` for outputs, with the options that compare the common ones."""
    message, both = one_sided(a, ours, b, theirs), sorted(set(ours) & set(theirs))
    advice = " ".join(f"--output {name}" for name in both if not LAYER.search(name))
    return f"{message}; to compare what both have: {advice}" if message and advice else message


def one_sided(a: str, ours: Iterable[str], b: str, theirs: Iterable[str], verb: str = "has") -> str:
    """The names that only one side has, in words, one name for all layers; empty if both have the same."""
    sides = (a, set(ours), set(theirs)), (b, set(theirs), set(ours))
    return "; ".join(
        f"only {side} {verb} {', '.join(sorted({LAYER.sub('.{i}.', name) for name in names - other}))}"
        for side, names, other in sides
        if names - other
    )
