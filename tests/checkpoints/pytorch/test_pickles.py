"""Pickles other than state dicts: one line, before time or memory is used, and nothing is called."""

import io
import pickle
import struct
import time
import tracemalloc
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

from txexport.checkpoints.pytorch import pickles
from txexport.checkpoints.pytorch.pickles import Storage, Tensor
from txexport.errors import UnsupportedError

SECONDS, BYTES = 20, 256 << 20  # of processor, and of memory


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def storage(kind: str = "FloatStorage", key: str = "0", numel: bytes = b"K\x06", view: bytes = b"") -> bytes:
    """("storage", torch.KIND, KEY, "cpu", NUMEL), as the reference to external data."""
    name = f"ctorch\n{kind}\n".encode()
    return b"(" + text("storage") + name + text(key) + text("cpu") + numel + view + b"tQ"


REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def tensor(*arguments: bytes) -> bytes:
    return REBUILD + b"(" + b"".join(arguments) + b"tR"


VIEW = b"K\x00", b"K\x02K\x03\x86", b"K\x03K\x01\x86"  # offset 0, (2, 3), strides (3, 1)


def load(body: bytes) -> object:
    return pickles.load(io.BytesIO(b"\x80\x02" + body + b"."))[0]


def test_values_are_those_of_pickle():
    value = OrderedDict(
        a=[1, -300, 2**31 - 1, 2**70, 0.5], b=(1, 2, 3, 4), c={"é": None, 3: (True, False)}, d=()
    )
    assert load(pickle.dumps(value, 2)[2:-1]) == value
    again = ["a", {"b": "a"}]
    assert load(pickle.dumps([again, again], 2)[2:-1]) == [again, again]


def test_a_tensor():
    expected = Tensor(Storage("F32", "0", 6), 0, (2, 3), (3, 1))
    assert load(tensor(storage(), *VIEW, b"\x89", b"ccollections\nOrderedDict\n)R")) == expected
    assert load(tensor(storage(), *VIEW)) == expected
    parameter = b"ctorch._utils\n_rebuild_parameter\n(" + tensor(storage(), *VIEW) + b"\x88}tR"
    assert load(parameter) == expected


def test_a_view_of_a_storage():
    """In PyTorch's form of before 0.4: two numbers from the third on; the storage has six."""
    seen, storages = pickles.load(
        io.BytesIO(b"\x80\x02" + storage(view=b"(" + text("1") + b"K\x03K\x02t") + b".")
    )
    assert seen == Storage("F32", "0", 2, start=3)
    assert storages == {"0": Storage("F32", "0", 6)}


def test_an_ordered_dict_of_python_2():
    made = b"ccollections\nOrderedDict\n(](](U\x01aK\x01e](U\x01bK\x02eetR"
    assert load(made) == pickle.loads(b"\x80\x02" + made + b".") == {"a": 1, "b": 2}


NAMES = ("os\nsystem", "builtins\neval", "torch\nnn.Module", "torch._utils\n_rebuild_sparse_tensor")


@pytest.mark.parametrize("name", NAMES)
def test_names_are_refused_by_name(name):
    with pytest.raises(UnsupportedError, match=f"it holds {name.replace(chr(10), '.')}, which is no tensor"):
        load(f"c{name}\n".encode())


UNSUPPORTED = {
    "another operation": (text("os") + text("system") + b"\x93", "operation STACK_GLOBAL"),
    "an object of a class": (b"ccollections\nOrderedDict\n)\x81", "operation NEWOBJ"),
    "an instance": (b"(ios\nsystem\n", "operation INST"),
    "an extension": (b"\x82\x01", "operation EXT1"),
    "a name outside": (b"Ptorch.FloatStorage\n", "operation PERSID"),
    "a module outside": (b"(" + text("module") + b"tQ", "refers to 'module' outside of its pickle"),
    "a number outside": (b"K\x01Q", "refers to a int outside of its pickle"),
    "a negative tensor": (
        tensor(storage(), *VIEW, b"\x89", b"}", b"}" + text("neg") + b"\x88s"),
        "conjugate or negative by a flag",
    ),
    "a tuple for a key": (b"}K\x01\x85K\x01s", "a dict with a tuple for a key"),
    "keys that hash alike": (b"}\x8a\x09" + (2**61 - 1).to_bytes(9, "little") + b"K\x01s", "a int for a key"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_no_state_dict_holds(name):
    body, said = UNSUPPORTED[name]
    with pytest.raises(UnsupportedError, match=said):
        load(body)


DAMAGED = {
    "nothing": (b"", "takes more values than there are"),
    "below a mark": (b"K\x01(\x85", "takes more values than there are"),
    "no mark": (b"t", "no mark where one is needed"),
    "no such value": (b"h\x07", "reads value 7 before it is written"),
    "no pair": (b"}(K\x01u", "a key without a value"),
    "items of a list": (b"](K\x01K\x02u", "a list in the place of a dict"),
    "a state for a list": (b"]}b", "a list in the place of a dict"),
    "a state that is none": (b"}]b", "a list in the place of a dict"),
    "a call of a dict": (b"})R", "calls a dict"),
    "a call of a storage's type": (b"ctorch\nFloatStorage\n)R", r"calls torch\.FloatStorage"),
    "a call with a list": (b"ccollections\nOrderedDict\n]R", "a list in the place of a tuple"),
    "a storage called a tensor": (tensor(storage()), "a tensor of 1 arguments"),
    "a tensor of nothing": (tensor(b"N", *VIEW), "no storage and offset"),
    "an offset before it": (tensor(storage(), b"J\xff\xff\xff\xff", *VIEW[1:]), "no storage and offset"),
    "a size of True": (tensor(storage(), b"K\x00", b"\x88\x85", b"K\x01\x85"), "up to 8 sizes"),
    "sizes without strides": (tensor(storage(), b"K\x00", b"K\x02\x85", b")"), "as many strides"),
    "nine sizes": (tensor(storage(), b"K\x00", *[b"(" + b"K\x01" * 9 + b"t"] * 2), "up to 8 sizes"),
    "a size beyond 64 bits": (
        tensor(storage(), b"K\x00", b"\x8a\x0a" + (2**70).to_bytes(10, "little") + b"\x85", b"K\x01\x85"),
        "up to 8 sizes",
    ),
    "a storage of less than nothing": (storage(numel=b"J\xff\xff\xff\xff"), "without type, key and size"),
    "a storage of two types": (b"(" + storage() + storage("HalfStorage") + b"t", "storage '0' in two ways"),
    "a view of no size": (storage(view=b"(" + text("1") + b"K\x00t"), "without key, offset and size"),
    "a view before it": (storage(view=b"(" + text("1") + b"J\xff\xff\xff\xffK\x01t"), "without key, offset"),
    "a view beyond": (storage(view=b"(" + text("1") + b"K\x05K\x02t"), "beyond its 6 numbers"),
    "a parameter of no tensor": (b"ctorch._utils\n_rebuild_parameter\n(NNNtR", "in the place of a Tensor"),
    "pairs of three": (b"ccollections\nOrderedDict\n(](](K\x01K\x01K\x01eetR", "of what are no pairs"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_pickles_that_contradict_themselves(name):
    body, said = DAMAGED[name]
    with pytest.raises(ValueError, match=said):
        load(body)


BOMBS = {
    "a text of 4 GB": b"X\xff\xff\xff\xfea",
    "a number of 2 GB": b"\x8b\xff\xff\xff\x7fa",
    "a place of the memo": b"K\x01r\xff\xff\xff\xff" + b"0" * 3,
    "operations": b"}" * (16 << 20),
    "depth": b"]" * 100_000 + b"a" * 100_000,
    "doubling": b"]q\x00" + b"(h\x00h\x00tq\x00" * 20_000 + b"K\x01s",
    "long names": b"c" + b"a" * (15 << 20) + b"\nb\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name):
    """Time and memory are bounded by the file's size, and the message is one line."""
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises((UnsupportedError, ValueError)) as caught:
            load(BOMBS[name])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 500
    assert time.process_time() - start < SECONDS
    assert peak < BYTES


def test_tensors_of_more_numbers_than_there_are(tmp_path: Path):
    """A stride of 0 declares a terabyte in four bytes."""
    from txexport.checkpoints.pytorch.files import read_index

    file = tmp_path / "pytorch_model.bin"
    for one in (torch.ones(1).expand(2**20, 2**18), torch.ones(4).as_strided((3, 2), (1, 1))):
        torch.save({"x": one}, file)
        with pytest.raises(Exception, match=r"tensor 'x' of \(.*\) does not fit its . numbers"):
            read_index(file)
