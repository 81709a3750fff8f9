"""The errors that txexport raises. Each message is one line: the value, what was expected, what to do."""

import contextlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice

LONGEST_MESSAGE = 10_000  # characters; names and values from outside may be of any length
LONGEST_VALUE = 60

EXTRAS = {  # the extra that installs each imported library; see CONTRIBUTING.md
    "onnxruntime": "cpu",  # or gpu
    "google": "export",  # protobuf
    "onnx": "export",
    "onnx_ir": "export",
    "onnxscript": "export",
    "click": "cli",
    "rich": "cli",
    "huggingface_hub": "hub",
    "jinja2": "chat",
    "PIL": "image",
    "soundfile": "audio",
    "soxr": "audio",
    "llguidance": "constrained",
    "kenlm": "ctc-lm",
    "openvino": "openvino",
    "pyarrow": "spark",
    "pyspark": "spark",
    "ray": "ray",
    "sklearn": "train",
    "starlette": "serve",
    "uvicorn": "serve",
    "python_multipart": "serve",
    "prometheus_client": "serve",
    "safetensors": "verify",
    "torch": "verify",
    "transformers": "verify",
}

WITHIN = {"verify": ("export",)}  # the extras that an extra includes


def install(extra: str) -> str:
    """The command that installs an extra; no index has a txexport yet that is this one."""
    return f"pip install '.[{extra}]' in a checkout of txexport"


class TxexportError(Exception):
    """Base of every error that txexport raises on purpose. The command line prints it and exits.

    The message is always one line of printable characters.
    """

    exit_code = 2  # of the command line

    def __init__(self, message: object = ""):
        text = str(message)
        text = text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."
        super().__init__("".join(letter if letter.isprintable() else escaped(letter) for letter in text))


def escaped(character: str) -> str:
    """An unprintable character as Python escapes it, such as \\n."""
    return character.encode("unicode_escape").decode("ascii")


def shown(value: object, write: Callable[[object], str] = repr) -> str:
    """The repr of an untrusted value, or what `write` gives, for a message: one line of bounded length."""
    try:
        text = " ".join(write(_start(value)).split())
    except Exception:  # a number of more digits than Python writes, or whatever an object's own repr raises
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _start(value: object, depth: int = 4) -> object:
    """The start of a JSON value, since the repr of a large one takes long."""
    if type(value) is str:
        return value[: 64 * LONGEST_VALUE]
    if type(value) is list and depth:
        return [_start(one, depth - 1) for one in value[:LONGEST_VALUE]]
    if type(value) is dict and depth:
        return {_start(key): _start(value[key], depth - 1) for key in islice(value, LONGEST_VALUE)}
    return value


def first_line(error: BaseException) -> str:
    """The first line with text of an error's message, with the next after a colon, or else its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1])


def damage(error: Exception) -> str:
    """The fault in a file, from the exception raised when a class was made of its values."""
    message = first_line(error)
    if isinstance(error, KeyError):
        return f"it has no {message}"
    if unknown := re.search(r"unexpected keyword argument ('.*')", message):
        return f"it has {unknown[1]}, which is unknown"
    if missing := re.search(r"missing \d+ required .*arguments?: (.*)", message):
        return f"it has no {missing[1]}"
    return message


def reason(error: BaseException) -> str:
    """The system's message for an error, without its number and file, or else `first_line`."""
    return getattr(error, "strerror", None) or first_line(error)


def is_failure(error: BaseException) -> bool:
    """Return whether it is a failure, not a request to exit; a panic in Rust is no Exception."""
    # Its type is of pyo3_runtime, which cannot be imported.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def warn(message: str) -> None:
    """Warn at the line that called txexport, at any depth of the call stack."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "txexport":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


class SpecError(TxexportError):
    """A spec that contradicts itself."""


def positive(owner: object, *names: str) -> None:
    """Raise SpecError unless each of the owner's `names` is more than 0."""
    for name in names:
        value = getattr(owner, name)
        if not value > 0:  # NaN included
            raise SpecError(f"{type(owner).__name__}: {name} is {value}, expected more than 0")


class CheckpointError(TxexportError):
    """A checkpoint that is missing, damaged, or not what its config.json says."""


class UnsupportedError(TxexportError):
    """A valid checkpoint that needs mathematics that txexport does not support."""


class GraphError(TxexportError):
    """Graphs that do not match the stored parameters: one is unused or missing."""


class BundleError(TxexportError):
    """A bundle that is missing, damaged or incomplete, or cannot be written."""


class InputError(TxexportError):
    """An invalid argument, or an input that the model cannot read."""


class EngineError(InputError):
    """A failed run with inputs that fit the graph: not enough memory, or a fault of the engine."""


class MissingLibraryError(TxexportError, ImportError):
    """A library of an extra of txexport that is not installed, or too old."""


@contextlib.contextmanager
def needed_for(purpose: str, extra: str | None = None) -> Iterator[None]:
    """Raise MissingLibraryError if a library of an extra is missing or too old.

    `extra` is the one of WITHIN that includes the library's, if the purpose needs all of it.
    """
    try:
        yield
    except ImportError as error:
        library = (error.name or "").split(".")[0]
        if library not in EXTRAS:
            raise
        other = ", or gpu in place of cpu" if library == "onnxruntime" else ""
        extra_of_library = EXTRAS[library]
        if extra is None or extra_of_library not in WITHIN[extra]:
            extra = extra_of_library
        advice = f"{install(extra)}{other}"
        missing = isinstance(error, ModuleNotFoundError)
        state = "which is not installed" if missing else f"of another version ({first_line(error)})"
        raise MissingLibraryError(f"{purpose} needs {library}, {state}; {advice}") from None


class NotEqualError(TxexportError):
    """A bundle that is not served, since it does not compute what its original computes."""

    exit_code = 1


class LibraryError(TxexportError):
    """A library that crashed."""


@contextlib.contextmanager
def crashes() -> Iterator[None]:
    """Raise LibraryError for a panic of a Rust library, which `except Exception` does not catch."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or not is_failure(error):
            raise
        message = " ".join(str(error).split()) or "without a message"
        raise LibraryError(f"a library crashed on this input: {message[:200]}") from None


def counted(number: int, word: str) -> str:
    """A number with its noun: "1 token", "1,024 tokens"."""
    return f"{number:,} {word}" + "s" * (number != 1)
