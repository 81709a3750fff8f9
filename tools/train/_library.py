"""Python's own library as training data: its sources, and the prose that documents it.

There on any machine with Python; which files, and what they say, depends on its version.
"""

import ast
import re
import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path

# Tests are not installed everywhere, encodings and topics are tables, the rest was removed in 3.12 and 3.13.
LEFT_OUT = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idle_test",
    "encodings",
    "pydoc_data",
    "distutils",
    "lib2to3",
    "__pycache__",
}
PROSE = 10  # of the files, one in so many is held out from what learns from prose


def sources() -> dict[str, str]:
    """The library's files by path, in order of path."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if LEFT_OUT.isdisjoint(name.parts) and not name.name.startswith("_sysconfigdata"):
            found[name.as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    return found


def held_out(name: str, one_in: int) -> bool:
    """Whether a file is among the one in so many that are held out, by its name alone."""
    return zlib.crc32(name.encode()) % one_in == 0


def prose(source: str) -> Iterator[str]:
    """The docstrings of a source file, and its comments of several lines."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # templates with a .py ending
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text
    block: list[str] = []
    for line in [*source.splitlines(), ""]:
        stripped = line.strip()
        if stripped.startswith("# "):
            block.append(stripped[2:])
        else:
            if len(block) > 1:
                yield "\n".join(block)
            block = []


def documents() -> tuple[list[list[str]], list[list[str]]]:
    """The prose of each file as sentences; and of those held out, less what any other says too."""
    kept, out = [], []
    for name, source in sources().items():
        found = [sentence for text in prose(source) for sentence in sentences(text)]
        (out if held_out(name, PROSE) else kept).append(found)
    seen = {sentence for document in kept for sentence in document}
    unseen = [[sentence for sentence in document if sentence not in seen] for document in out]
    return [document for document in kept if len(document) > 1], [d for d in unseen if len(d) > 1]


def sentences(text: str) -> list[str]:
    """Sentences of paragraphs that stand at the margin, without code, tables and lists."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.strip("\n").splitlines()
        if any(line[:1] in " \t>*-+=|#@" for line in lines):
            continue
        joined = " ".join(line.strip() for line in lines)
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'`])", joined):
            if re.fullmatch(r"[A-Z\"'`].*[a-z].*[.!?]", sentence) and 4 <= len(sentence.split()) <= 40:
                found.append(sentence)
    return found
