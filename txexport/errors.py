"""Errors that a user of txexport can meet. Each message is one line: given, expected, what to do."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from itertools import islice

LONGEST_MESSAGE = 10_000  # characters; names and values from outside may be of any length
LONGEST_VALUE = 60

EXTRAS = {  # of what is imported, the extra that brings it; see CONTRIBUTING.md
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
    "llguidance": "constrained",
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

WITHIN = {"verify": ("export",)}  # of an extra, those that it brings too


def install(extra: str) -> str:
    """The command that installs an extra, from a package index or in a checkout."""
    return f"pip install 'txexport[{extra}]' (in a checkout: pip install '.[{extra}]')"


class TxexportError(Exception):
    """Base of every error that txexport raises on purpose. The command line prints it and exits 2.

    Whatever it is told, the message is one line that a terminal can show.
    """

    def __init__(self, message: object = ""):
        text = str(message)
        text = text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."
        super().__init__("".join(letter if letter.isprintable() else escaped(letter) for letter in text))


def escaped(character: str) -> str:
    """A character that a terminal does not show as Python writes it: \\n for a line's end."""
    return character.encode("unicode_escape").decode("ascii")


def shown(value: object) -> str:
    """A value from outside as a message quotes it, in a line of bounded length."""
    try:
        text = " ".join(repr(_start(value)).split())
    except Exception:  # a number of more digits than Python writes, or whatever an object's own repr raises
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _start(value: object, depth: int = 4) -> object:
    """As much of a value from JSON as a message may quote, since writing all of a large one takes long."""
    if type(value) is str:
        return value[: 64 * LONGEST_VALUE]
    if type(value) is list and depth:
        return [_start(one, depth - 1) for one in value[:LONGEST_VALUE]]
    if type(value) is dict and depth:
        return {_start(key): _start(value[key], depth - 1) for key in islice(value, LONGEST_VALUE)}
    return value


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or else its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def reason(error: OSError) -> str:
    """Why the system refused, in its words; or the error's own, where it has no number."""
    return error.strerror or first_line(error)


def is_failure(error: BaseException) -> bool:
    """Tell whether something failed, and nobody stopped the program; a panic in Rust is no Exception."""
    # Its type is of pyo3_runtime, which cannot be imported.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def warn(message: str) -> None:
    """Warn at the line that called txexport, however deep within it this is called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "txexport":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


class SpecError(TxexportError):
    """A description of an architecture that contradicts itself."""


def positive(owner: object, *names: str) -> None:
    """Raise SpecError unless each of the owner's `names` is more than 0."""
    for name in names:
        value = getattr(owner, name)
        if not value > 0:  # NaN included
            raise SpecError(f"{type(owner).__name__}: {name} is {value}, expected more than 0")


class CheckpointError(TxexportError):
    """A checkpoint that is missing, damaged, or not what its config.json says."""


class UnsupportedError(TxexportError):
    """A valid checkpoint that asks for mathematics txexport has not proved."""


class GraphError(TxexportError):
    """Graphs that do not balance with what is stored: a parameter is not used, or not there."""


class BundleError(TxexportError):
    """An export folder that is missing, incomplete, or cannot be written."""


class InputError(TxexportError):
    """Input to a loaded model that it cannot take."""


class EngineError(InputError):
    """A run that the engine gave up, of inputs that fit the graph: memory, or the engine's own fault."""


class MissingLibraryError(TxexportError, ImportError):
    """A library that an extra of txexport brings, and that is not installed, or too old."""


@contextlib.contextmanager
def needed_for(purpose: str, extra: str | None = None) -> Iterator[None]:
    """Raise MissingLibraryError for an import of what an extra brings, where it is missing or too old.

    `extra` is one of WITHIN that the purpose needs whole.
    """
    try:
        yield
    except ImportError as error:
        library = (error.name or "").split(".")[0]
        if library not in EXTRAS:
            raise
        other = ", or gpu in place of cpu" if library == "onnxruntime" else ""
        own = EXTRAS[library]
        advice = f"{install(extra if extra is not None and own in WITHIN[extra] else own)}{other}"
        missing = isinstance(error, ModuleNotFoundError)
        state = "which is not installed" if missing else f"of another version ({first_line(error)})"
        raise MissingLibraryError(f"{purpose} needs {library}, {state}; {advice}") from None


class LibraryError(TxexportError):
    """A library that crashed instead of answering."""


@contextlib.contextmanager
def crashes() -> Iterator[None]:
    """Raise LibraryError for a panic of a library written in Rust, which no `except Exception` sees."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or not is_failure(error):
            raise
        message = " ".join(str(error).split()) or "it does not say why"
        raise LibraryError(f"a library crashed on this input: {message[:200]}") from None


def counted(number: int, word: str) -> str:
    """A number with its noun: "1 token", "1,024 tokens"."""
    return f"{number:,} {word}" + "s" * (number != 1)
