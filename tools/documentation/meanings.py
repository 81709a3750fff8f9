"""The meanings of arguments, for tables: sentences of docstrings that name them."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import txexport
from documentation.sources import DocumentError

SENTENCES = re.compile(r"(?<=[.])\s+(?=[A-Z`(])")
REFERENCES = re.compile(r"\bas(?: in)? `(\w+)`", re.IGNORECASE)
# Arguments that docstrings explain without naming them: of several functions, or as FUNCTION.ARGUMENT of one.
COMMON = {
    "batch": "The number of rows.",
    "bench.texts": "As in `compare_dtypes`.",
    "bundles": "Folders of bundles, or texts such as NAME=FOLDER.",
    "compare.a": "An ONNX file, a bundle, another tool's folder, or a module.",
    "compare.b": "The same, to compare with `a`.",
    "compare.cases": "As in `verify`, for two bundles.",
    "context": "The text in which the answer is.",
    "compare.device": "As in `load`.",
    "first_place": "The index of the first input, for a call that continues others.",
    "folder": "The folder of the bundle.",
    "host": "The address to listen on; 0.0.0.0 for all.",
    "images": "An image file, a Pillow image, an array, bytes, or a list of these.",
    "input_ids": "Rows of token ids, of any lengths.",
    "logits_processor": "As in `generate`.",
    "masks.prompts": "The points and boxes for each image.",
    "out": "The folder of the bundle.",
    "path": "The folder of a checkpoint or a bundle.",
    "port": "The port to listen on.",
    "prompt": "The text to continue.",
    "prompts": "A prompt, or a list of prompts.",
    "queries": "A query, or a list of queries.",
    "question": "A question, or a list of questions.",
    "sounds": "A sound file, an array of samples at the model's rate, or a list of these.",
    "tokenizer": "The tokenizer of a model in memory.",
    "text": "A text, or a pair of texts.",
    "texts": "A text, or a list of texts.",
}
COMMANDS = {
    "A": "An ONNX file, a bundle, another tool's folder, or `package.module:function`.",
    "B": "The same, to compare with A.",
    "BUNDLE": "The folder that `export` wrote.",
    "BUNDLE...": "Folders that `export` wrote, or NAME=FOLDER.",
    "FOLDER": "A checkpoint or a bundle.",
    "IMAGES": "Image files.",
    "OUT": "The folder to write.",
    "PAGES": "Words and boxes of a page each, as an object of JSON.",
    "PROMPTS": "Texts to continue, or to translate.",
    "QUERIES": "Texts to search for.",
    "QUESTION CHOICES": "A question, and its possible answers.",
    "QUESTIONS": "Questions; without a common context, each before its own.",
    "SOUNDS": "Sound files, or folders of them.",
    "SOURCE": "A folder, a GGUF file, or the name of a model on a hub.",
    "TEXT": "A text, or two for a pair.",
    "TEXTS": "Texts; - for the lines of standard input.",
}


def meaning(argument: str, function: Any) -> str:
    """The sentence that explains `argument`.

    The first of: a sentence of the function's docstring that begins with it; COMMON; such a sentence of a
    function that the docstring refers to, or of the class Model; any sentence that names it. Raises
    DocumentError if there is none.
    """
    docs = [*_docstrings(function, set()), inspect.getdoc(txexport.Model) or ""]
    first, *others = [[one for one in _sentences(doc) if f"`{argument}`" in one] for doc in docs]
    common = [COMMON[key] for key in (f"{function.__name__}.{argument}", argument) if key in COMMON]
    names = [*first, *(one for sentences in others for one in sentences)]
    candidates = [*_beginning(argument, first), *common, *_beginning(argument, names), *names]
    if not candidates:
        raise DocumentError(f"no docstring explains `{argument}` of {function.__qualname__}")
    return candidates[0]


def _beginning(argument: str, sentences: list[str]) -> list[str]:
    return [sentence for sentence in sentences if sentence.startswith(f"`{argument}`")]


def of_command(metavar: str) -> str:
    """The meaning of a command's argument. Raises DocumentError for an unknown one."""
    name = metavar if metavar in COMMANDS else metavar.removesuffix("...").strip("[]")
    if name not in COMMANDS:
        raise DocumentError(f"tools/documentation/meanings.py does not tell what the argument {metavar} is")
    return COMMANDS[name]


def _docstrings(function: Any, read: set[str]) -> Iterator[str]:
    """The docstring of a function, and of those that it refers to, each once."""
    doc = inspect.getdoc(function) or ""
    yield doc
    for name in REFERENCES.findall(doc):
        other = getattr(txexport.Model, name, None) or getattr(txexport, name, None)
        if callable(other) and name not in read:
            read.add(name)
            yield from _docstrings(other, read)


def _sentences(doc: str) -> list[str]:
    """The sentences of a docstring without its blocks of code."""
    paragraphs = (part for part in doc.split("\n\n") if not part.startswith("    "))
    return [one for part in paragraphs for one in SENTENCES.split(" ".join(part.split()))]
