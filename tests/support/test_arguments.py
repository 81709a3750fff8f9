"""Wrong arguments of public functions: one line with the expected type, and no traceback."""

from dataclasses import KW_ONLY, dataclass
from inspect import signature
from pathlib import Path
from pydoc import plain, render_doc

import numpy as np
import pytest

import txexport
from txexport import TxexportError, compare, export, inspect, load, verify
from txexport.errors import LONGEST_MESSAGE, BundleError, InputError, first_line, reason
from txexport.support.arguments import arguments_from

WRONG = {
    "source is {}, expected a text or a path or PreTrainedModel": lambda: export({}, "out"),
    "out is False": lambda: export("checkpoint", False),
    "opset is array([[0., 0.], [0., 0.]]), expected a whole number": lambda: export(
        "checkpoint", "out", opset=np.zeros((2, 2))
    ),
    "opset is True": lambda: export("checkpoint", "out", opset=True),
    "task is ['a'], expected a text or None": lambda: export("checkpoint", "out", task=["a"]),
    "progress is 3, expected a function or true or false or None": lambda: export(
        "checkpoint", "out", progress=3
    ),
    "folder is 'xxxxx": lambda: load("x" * 5000),
    "source is 'a/xxxxx": lambda: export("a/" + "x" * 300, "out"),
    "path is 3": lambda: inspect(3),
    "folder is empty, expected a path": lambda: load(""),
    "out is empty, expected a path": lambda: export("checkpoint", ""),
    "batch is 'x', expected a whole number": lambda: inspect("x", batch="x"),
    "length is [[1180591620717411303424]]": lambda: inspect("x", length=[[2**70]]),
    "threads is [-1]": lambda: load("x", threads=[-1]),
    "device is b'x'": lambda: load("x", device=b"x"),
    "ranges is [[5, 1.0]]": lambda: compare("a", "b", ranges=[[5, 1.0]]),
    "ranges is {'a': (1, 'b')}": lambda: compare("a", "b", ranges={"a": (1, "b")}),
    "lengths is 9223372036854775808": lambda: compare("a", "b", lengths=2**63),
    "outputs is [-1], expected a list of texts": lambda: compare("a", "b", outputs=[-1]),
    "tolerance is '', expected a number or None": lambda: compare("a", "b", tolerance=""),
    "cases is <function <lambda>": lambda: verify("x", cases=lambda: None),
    "reference is {1}": lambda: verify("x", reference={1}),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_type_is_told(message):
    with pytest.raises(InputError) as caught:
        WRONG[message]()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("value", [np.int64(17), np.float32(0.5), 3])
def test_numbers_of_numpy_are_numbers(value):
    with pytest.raises(InputError, match="neither a file nor a folder"):
        compare("no file", "no file", tolerance=value)


def test_first_line_of_an_error_has_what_follows_its_colon():
    assert first_line(ValueError("\none\ntwo")) == "one"
    assert first_line(ValueError("one of: \n (1) a file,\n(2) two")) == "one of: (1) a file,"
    assert first_line(ValueError("one:\n\ntwo\nthree")) == "one: two"
    assert first_line(ValueError("nothing follows:")) == "nothing follows:"
    assert first_line(KeyError()) == "KeyError"
    assert "a.wav" in first_line(OSError(2, "No such file", "a.wav"))
    assert reason(OSError(2, "No such file", "a.wav")) == "No such file"  # for messages that name the file
    assert reason(OSError("odd")) == reason(ValueError("odd")) == "odd"


def test_message_is_one_line_of_what_a_terminal_shows():
    with pytest.raises(BundleError) as caught:
        load("a\nb\u2028\x1b[31mc\x00")
    assert str(caught.value).startswith(r"a\nb\u2028\x1b[31mc\x00 is not a bundle")
    assert len(str(TxexportError("x" * 10**6))) == LONGEST_MESSAGE + 3
    with pytest.raises(InputError, match=r"^length is a set, expected a whole number or None$"):
        inspect("x", length={10**5000})  # which Python does not write out


def test_signatures_stay_those_of_the_functions():
    assert txexport.export.__doc__.startswith("Write the checkpoint")
    with pytest.raises(TypeError, match="missing a required argument: 'out'"):
        export("x")


@dataclass(frozen=True)
class CopyArguments:
    source: str | Path
    out: str = "copy"
    _: KW_ONLY
    count: int = 1
    keep: tuple[str, ...] = ()


@arguments_from(CopyArguments, renamed={"times": "count"})
def copy(arguments: CopyArguments) -> CopyArguments:
    """Copy `source` to `out`."""
    return arguments


def test_fields_are_the_arguments_of_a_function():
    assert copy("a", count=np.int64(2)) == CopyArguments("a", count=2)
    assert type(copy("a", count=np.int64(2)).count) is int
    assert copy(source="a", out="b") == CopyArguments("a", "b")
    shown = "(source: str | pathlib.Path, out: str = 'copy', *, count: int = 1, keep: tuple[str, ...] = ())"
    assert str(signature(copy)).startswith(shown + " -> ")
    assert shown in plain(render_doc(copy))
    assert "Copy `source` to `out`." in plain(render_doc(copy))


def test_wrong_arguments_of_fields():
    with pytest.raises(InputError, match=r"^count is '1', expected a whole number$"):
        copy("a", count="1")
    with pytest.raises(TypeError, match=r"^got an unexpected keyword argument 'counts'$"):
        copy("a", counts=1)
    with pytest.raises(TypeError, match=r"^missing a required argument: 'source'$"):
        copy()
    with pytest.raises(TypeError, match=r"^too many positional arguments$"):
        copy("a", "b", 3)


def test_former_names_of_arguments_work_and_warn():
    with pytest.warns(DeprecationWarning, match=r"^times= is now count=$") as caught:
        assert copy("a", times=3).count == 3
    assert Path(caught[0].filename) == Path(__file__)
    with (
        pytest.raises(InputError, match=r"^count is '3', expected"),
        pytest.warns(DeprecationWarning, match="times"),
    ):
        copy("a", times="3")
    with pytest.raises(TypeError, match="times is the former name of count; pass only count"):
        copy("a", times=3, count=3)
