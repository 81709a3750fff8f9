"""Training data from the documentation of scientific libraries: sentences of docstrings.

The libraries are those that txexport[train] installs; files and contents depend on their versions
(constraints.txt pins them). Markup is removed from sentences; the spans it marked as code are returned too.
"""

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import _loop
import click

LIBRARIES = ["networkx", "numpy", "scipy", "sklearn", "sympy", "torch", "transformers"]
CODE_ROLES = {"attr", "class", "const", "data", "exc", "func", "meth", "mod", "obj"}
MARKUP = re.compile(
    r"``(?P<literal>[^`]+)``(?!`)"
    r"|\[`(?P<reference>[^`]+)`\](?:\([^)]*\))?"
    r"|:(?:py:)?(?P<role>\w+):`(?P<content>[^`]+)`"
    r"|`(?P<link>[^`<]+?)\s*<[^`]*>`_{1,2}|`(?P<target>[^`]+)`_{1,2}(?!\w)"
    r"|(?<!`)`(?P<plain>[^`]+)`(?!`)"
    r"|\[(?P<page>[^\]]+)\]\([^)]*\)"
    r"|\*\*(?P<strong>[^*\s][^*]*)\*\*|(?<![\w*])\*(?P<emphasis>[^*\s][^*]*)\*(?![\w*])"
)


class Sentence(NamedTuple):
    """A sentence without its markup, and the start and end of each span marked as code."""

    text: str
    code: tuple[tuple[int, int], ...]


def sources(wanted: Callable[[str], bool] = lambda name: True) -> dict[str, str]:
    """The libraries' files by path, in order of path; tests and excluded paths are left out."""
    files = {}
    for library in LIBRARIES:
        spec = find_spec(library)
        if spec is None or spec.origin is None:
            raise click.ClickException(f"{library} is not installed; pip install '.[train]' in a checkout")
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent)
            if "tests" not in name.parts and wanted(name.as_posix()):
                files[name.as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    return files


def about(what: str) -> str:
    """The description of this data for a model card."""
    owners = packages_distributions()
    named = [f"{owners[name][0]} {version(owners[name][0]).split('+')[0]}" for name in LIBRARIES]
    text = f"""Data: {what} from the docstrings of {", ".join(named[:-1])} and {named[-1]}, under these
libraries' licences (BSD, Apache 2.0); one file in twenty is held out."""
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)


def by_file() -> tuple[list[list[Sentence]], list[list[Sentence]]]:
    """The sentences of each file, and of each held-out file, without duplicates."""
    files = sources()
    train: list[list[Sentence]] = []
    heldout: list[list[Sentence]] = []
    seen: set[str] = set()
    for name in sorted(files, key=_loop.held_out):  # sentences of both are not held out
        by_text = {one.text: one for text in docstrings(files[name]) for one in sentences(text)}
        new = [one for text, one in by_text.items() if text not in seen]
        (heldout if _loop.held_out(name) else train).append(new)
        seen.update(by_text)
    return train, heldout


def split() -> tuple[list[Sentence], list[Sentence]]:
    """`by_file`, flattened into training and held-out sentences."""
    train, heldout = by_file()
    return list(chain.from_iterable(train)), list(chain.from_iterable(heldout))


def docstrings(source: str) -> list[str]:
    """The docstrings of a file's module, classes and functions."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # templates with a .py ending
        return []
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [text for node in ast.walk(tree) if isinstance(node, kinds) and (text := ast.get_docstring(node))]


def sentences(docstring: str) -> list[Sentence]:
    """The sentences of a docstring's prose, without code, tables, lists and formulas."""
    result = []
    for block in _blocks(docstring):
        if re.match(r"[>*\-+=|#@.\\]|\d+[.)]", block):
            continue
        for raw in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'`:])", block):
            if re.fullmatch(r"[A-Z\"'`:\[].*[a-z].*[.!?]", raw) and (sentence := unmark(raw)):
                alphabetic = re.findall(r"[A-Za-z]{2,}", sentence.text)
                if 4 <= len(alphabetic) <= 50 and sum(map(len, alphabetic)) > 0.6 * len(sentence.text):
                    result.append(sentence)
    return result


def _blocks(docstring: str) -> Iterator[str]:
    """Adjacent lines of one indentation, joined."""
    block: list[str] = []
    margin = 0
    for line in [*docstring.splitlines(), ""]:
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if re.fullmatch(r"(\W)\1{2,}", stripped):  # the text that it underlines is a heading
            block, stripped = [], ""
        if block and (not stripped or indent != margin):
            yield " ".join(block)
            block = []
        if stripped:
            block.append(stripped)
            margin = indent


def unmark(raw: str) -> Sentence | None:
    """A sentence of reStructuredText or Markdown without markup; None for formulas or unmatched marks."""
    text, code, end = "", [], 0
    for match in MARKUP.finditer(raw):
        kind = match.lastgroup
        role = match["role"]
        if role in ("math", "doi", "arxiv", "arXiv"):
            return None
        content = match[kind].strip() if kind else ""
        if role or kind == "reference":
            content = re.sub(r"\s*<[^>]*>$", "", content)
            if content.startswith("~"):
                content = content.rsplit(".", 1)[-1].lstrip("~")
        text += raw[end : match.start()]
        if kind in ("literal", "reference", "plain") or role in CODE_ROLES:
            code.append((len(text), len(text) + len(content)))
        text += content
        end = match.end()
    text += raw[end:]
    if re.search(r"`|\$|\\|\*\*|::|\]_|[|]\w+[|]|[^\x20-\x7e]", text):
        return None
    return Sentence(text, tuple(code))
