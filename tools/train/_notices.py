"""NOTICE.txt: the licences of the sources that a checkpoint's held-out examples quote.

A library's own licence comes from its installed distribution, Python's from its own folder; `licences/` has
those of vendored sources that no distribution includes.
"""

import sysconfig
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import _documentation
import _loop
import click

TAKEN_OVER = {  # by path prefix; the longest match counts
    "numpy/ma": ("numpy.ma", "ma/LICENSE"),
    "scipy/cluster/hierarchy.py": ("scipy.cluster.hierarchy", "scipy-cluster.txt"),
    "scipy/_lib/array_api_extra": ("array-api-extra, which SciPy holds", "array-api-extra.txt"),
    "scipy/_lib/cobyqa": ("COBYQA, which SciPy holds", "cobyqa.txt"),
    "scipy/_lib/pyprima": ("PRIMA, which SciPy holds", "prima.txt"),
}
LICENCES = Path(__file__).parent / "licences"


def of_documentation(texts: Iterable[str]) -> str:
    """The notice for held-out sentences of docstrings, in any word order."""
    sections = {}
    for name in sorted(_files(texts)):
        start = max((path for path in TAKEN_OVER if name.startswith(path)), key=len, default=None)
        library = name.split("/")[0]
        if start is None:
            sections[library] = _of_library(library)
            continue
        title, file = TAKEN_OVER[start]
        path = LICENCES / file
        sections[title] = path.read_text(encoding="utf-8") if path.is_file() else _of_library(library, file)
    return _notice("sentences of docstrings, without their markup, of the following", sections)


def of_library() -> str:
    """The notice for held-out passages of Python's own library."""
    path = Path(sysconfig.get_paths()["stdlib"]) / "LICENSE.txt"
    if not path.is_file():
        raise click.ClickException(f"{path} is missing; use a Python that was installed with its licence")
    sections = {
        "Python": path.read_text(encoding="utf-8"),
        "uvloop, of which asyncio/sslproto.py has parts": (LICENCES / "uvloop.txt").read_text(
            encoding="utf-8"
        ),
    }
    return _notice(
        "passages of Python's library, cut to the model's longest input and else unchanged", sections
    )


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The installed distributions by importable name; computed once, since it takes a second."""
    return packages_distributions()


def _files(texts: Iterable[str]) -> set[str]:
    """The held-out files that contain these sentences; of several that contain one, the first."""
    wanted = {tuple(sorted(text.split())) for text in texts}
    files = set()
    for name, sentences in _held_out().items():
        present = sentences & wanted
        wanted -= present
        if present:
            files.add(name)
    return files


@cache
def _held_out() -> dict[str, set[tuple[str, ...]]]:
    """The held-out files with the sorted words of each of their sentences; cached, it takes seconds."""
    result = {}
    for name, source in _documentation.sources(_loop.held_out).items():
        docstrings = _documentation.docstrings(source)
        sentences = [sentence.text for text in docstrings for sentence in _documentation.sentences(text)]
        result[name] = {tuple(sorted(text.split())) for text in sentences}
    return result


def _of_library(library: str, end: str = "") -> str:
    """An installed library's licence file with that path suffix, its main one by default.

    The part on programs bundled in the wheel is omitted.
    """
    files = distribution(_distributions()[library][0]).files or []
    licences = [path for path in files if path.name.startswith(("LICENSE", "COPYING"))]
    path = min((path for path in licences if str(path).endswith(end)), key=lambda path: len(path.parts))
    return path.read_text(encoding="utf-8").split("\n----")[0]


def _notice(what: str, sections: dict[str, str]) -> str:
    """The text of NOTICE.txt."""
    parts = [f"heldout.jsonl quotes {what}.\n"]
    for title, licence in sections.items():
        text = "\n".join(line.rstrip() for line in licence.strip().splitlines())
        parts.append(f"{title}\n{'=' * len(title)}\n\n{text}\n")
    return "\n\n".join(parts)
