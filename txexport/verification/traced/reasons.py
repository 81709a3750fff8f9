"""Why a class does not run, in words: the input that is missing, if that is the cause."""

import linecache
import re
from collections.abc import Collection
from pathlib import Path
from traceback import walk_tb

import transformers

from txexport.errors import first_line, shown
from txexport.verification.traced.originals import Original

REQUIRED = re.compile(r"missing \d+ required positional arguments?: '(\w+)'")
IN_WORDS = {
    r"Non-zero status code returned while running (\w+) node": r"ONNX Runtime fails in its \1",
    r"Load model from .* Op \((\w+)\) \[\w+\] (.*)": r"ONNX Runtime does not take its \1: \2",
    r"Could not guard on data-dependent": "a shape or a branch depends on values that the model computes",
    r"No ONNX function found for <OpOverload\(op='([\w.]+)'": r"no ONNX operator is known for \1",
}
LIBRARY = str(Path(transformers.__file__).parent)


def plain(text: str) -> str:
    """An error of torch.export or ONNX Runtime in words; other lines as they are."""
    for pattern, plain_text in IN_WORDS.items():
        if (line := re.search(pattern, text)) is not None:
            return line.expand(plain_text)
    return text


def reason_of(original: Original, error: Exception, filled: Collection[str] = ()) -> str:
    """The first line of an error of the class, or the name of the argument without which it fails.

    `filled` are the arguments that it had.
    """
    name = lacking(original, error)
    if name is None or name in filled:
        return first_line(error)
    return f"it needs {shown(name)}, which cannot be filled"


def lacking(original: Original, error: Exception) -> str | None:
    """The missing argument of the class's forward that caused an error; None for another cause.

    A function requires it, or it is None in the line of the library that failed.
    """
    if (required := REQUIRED.search(str(error))) is not None:
        return _of_forward(original, required[1])
    if not re.search(r"\bNone(Type)?\b", str(error)):
        return None
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        code = frame.f_code
        if not code.co_filename.startswith(LIBRARY):
            continue
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for name in re.findall(r"\w+", linecache.getline(code.co_filename, line)):
            if name in arguments and frame.f_locals.get(name, name) is None:
                return _of_forward(original, name)
    return None


def _of_forward(original: Original, name: str) -> str:
    """The forward's name of an argument that a part of the model calls `name`: the same, or a longer one."""
    longer = [one for one in original.arguments if one.endswith(f"_{name}")]
    return name if name in original.arguments or not longer else longer[0]
