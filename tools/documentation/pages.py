"""Pages of docs/ with their directives replaced.

A line {{ DIRECTIVE ARGUMENT ... }} by itself is replaced when pages are built: see DIRECTIVES.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from documentation import api, commands, figures, layout, task_table
from documentation.compatibility import compatibility
from documentation.sources import ROOT, DocumentError, snake, source, twin

DOCS = ROOT / "docs"
LINE = re.compile(r"^\{\{ (\w+)((?: [^}\s]+)*) \}\}$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
LANGUAGES = {".py": "python", ".mjs": "javascript", ".js": "javascript", ".yml": "yaml", ".json": "json"}


def _file(path: str) -> str:
    """{{ file PATH }}: a file of the repository as a block of code."""
    text = _read(path)
    return f'```{LANGUAGES.get(Path(path).suffix, "text")} title="{path}"\n{text.rstrip()}\n```'


def _include(path: str) -> str:
    """{{ include PATH }}: a Markdown file of the root, with links to other files of the repository."""
    text = _read(path)
    return LINK.sub(lambda link: f"]({_page_of(link.group(1))})", text)


def _page_of(target: str) -> str:
    """The page that shows a file that another one links to."""
    path, _, anchor = target.partition("#")
    shown = {
        "README.md": "index.md",
        "CONTRIBUTING.md": "contributing.md",
        "CHANGELOG.md": "changelog.md",
        "LICENSE": "index.md",
    }
    page = path.removeprefix("docs/") if path.startswith("docs/") else shown.get(path)
    if page is None:
        raise DocumentError(f"no page shows {path}, to which an included file links")
    return f"{page}#{anchor}" if anchor else page


def _source(path: str, *names: str) -> str:
    """{{ source PATH NAME ... }}: definitions of a file."""
    return f'```python title="{path}"\n{source(Path(path), *names)}\n```'


def _twin(file: str, *names: str) -> str:
    """{{ twin FILE NAME ... }}: both halves of components, as tabs.

    A name is the module's, and the graph's is the same in snake case; NAME=GRAPH_NAME where they differ, and
    NAME= or =GRAPH_NAME where the other half has none.
    """
    pairs = [name.partition("=")[::2] if "=" in name else (name, snake(name)) for name in names]
    return twin(file, [ours for ours, _ in pairs if ours], [graph for _, graph in pairs if graph])


def _read(path: str) -> str:
    if not (ROOT / path).is_file():
        raise DocumentError(f"there is no {path}")
    return (ROOT / path).read_text(encoding="utf-8")


DIRECTIVES: dict[str, Callable[..., str]] = {
    "aliases": task_table.other_names,
    "api": api.entry,
    "command": commands.section,
    "compatibility": compatibility,
    "errors": api.error_list,
    "figure": figures.figure,
    "file": _file,
    "include": _include,
    "layout": layout.diagram,
    "options": api.generation_options,
    "source": _source,
    "twin": _twin,
}


def filled(text: str, page: str) -> str:
    """A page's text with its directives replaced. Raises DocumentError, which names the page."""

    def made(match: re.Match[str]) -> str:
        name, arguments = match.group(1), match.group(2).split()
        if name not in DIRECTIVES:
            raise DocumentError(f"{page}: no directive '{name}'; there are {', '.join(DIRECTIVES)}")
        try:
            return DIRECTIVES[name](*arguments).rstrip("\n")
        except DocumentError as error:
            raise DocumentError(f"{page}: {error}") from None

    return LINE.sub(made, text)


def assemble(out: Path) -> None:
    """Write every page of docs/ to the empty folder `out`, and copy the other files."""
    for path in sorted(DOCS.rglob("*")):
        place = out / path.relative_to(DOCS)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif path.suffix == ".md":
            page = f"docs/{path.relative_to(DOCS)}"
            place.write_text(filled(path.read_text(encoding="utf-8"), page), encoding="utf-8")
        elif path.name != "zensical.toml":
            shutil.copyfile(path, place)
