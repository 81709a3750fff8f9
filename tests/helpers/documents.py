"""Runs the examples of the README and of docs/: console commands with their output, and Python.

Blocks of `console` and `python` are run in order; a `text` block after a `python` block is what it prints. A
block titled "not run by the tests: REASON" is skipped; one titled "needs PACKAGE" is run where that is
installed, and one titled "to the server" by tests/server/test_recipes.py. Blocks of other languages are
files.

tools/docs answers docs/quickstart.md ...    write today's output into pages
"""

import contextlib
import io
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from helpers.project import DATA, ROOT
from helpers.speaking_stand_ins import recordings
from helpers.stand_ins import STAND_INS, STREET
from txexport.cli.main import main

FENCE = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]*)\")?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
NOT_RUN = "not run by the tests"
SERVED = "to the server"
NEEDS = re.compile(r"needs ([\w-]+)")
PROGRAMS = {"pyspark": "java"}  # packages that every set-up has
INSTALLED = {
    one.name for one in distributions() if shutil.which(PROGRAMS.get(one.name, sys.executable)) is not None
}
SHOWN = {"json", "yaml", "toml", "javascript", "html", "text"}  # languages of files and of output

PICTURES = ROOT / "docs/pictures"
PICTURE = re.compile(r"!\[[^]]+\]\(\.\./pictures/(\w+\.png)\)")  # that a command of the page draws


@dataclass
class Block:
    """A fenced block of a page."""

    language: str
    title: str
    text: str
    start: int  # of `text`, in the page
    end: int

    @property
    def runs(self) -> bool:
        """Tell whether the tests run it."""
        return self.language in ("console", "python") and not self.title.startswith((NOT_RUN, SERVED))

    @property
    def missing(self) -> str | None:
        """The package that it needs and that is not installed."""
        needed = NEEDS.fullmatch(self.title)
        return needed[1] if needed is not None and needed[1] not in INSTALLED else None


def pages() -> list[Path]:
    """The README and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page in order."""
    return [
        Block(match["language"], match["title"] or "", match["text"], *match.span("text"))
        for match in FENCE.finditer(text)
    ]


def sessions(text: str) -> list[tuple[str, str]]:
    """Each command of a console block with its output."""
    found = []
    for part in f"\n{text}".split("\n$ ")[1:]:
        lines = part.splitlines()
        ends = next(n for n in range(1, len(lines) + 1) if "\n".join(lines[:n]).count('"') % 2 == 0)
        found.append(("\n".join(lines[:ends]), "\n".join(lines[ends:]).strip("\n")))
    return found


@dataclass
class Reader:
    """Runs the examples of pages, each page in a folder of its own under `root`.

    The folder contains models/, small checkpoints in place of the published ones that the page names, and the
    recordings of the page on speech, so a page creates what it uses. A command that an earlier page ran is
    not repeated: its output is the same, and what it exported is copied to this page's folder.
    """

    root: Path
    answers: dict[str, str] = field(default_factory=dict)
    exported: dict[str, Path] = field(default_factory=dict)
    folder: Path = Path()  # folder of the last page
    names: dict[str, Any] = field(default_factory=dict)  # its Python process

    def command(self, typed: str) -> str:
        """The output of a command."""
        # echo "a line" | txexport ... enters the line.
        before, piped, command = typed.rpartition(" | txexport ")
        words = shlex.split(f"txexport {command}" if piped else typed)
        entered = shlex.split(before)[1] if piped else None
        assert words[0] == "txexport", typed
        out = Path(words[3]) if words[1] == "export" else None
        if typed not in self.answers:
            # As on a terminal.
            result = CliRunner(env={"COLUMNS": "80"}).invoke(main, words[1:], entered)
            assert result.exit_code == 0, (typed, result.output)
            self.answers[typed] = trimmed(result.stdout)
            if out is not None:
                self.exported[typed] = out.resolve()
        elif out is not None:
            out.parent.mkdir(exist_ok=True)
            out.symlink_to(self.exported[typed])
        return self.answers[typed]

    def python(self, code: str, names: dict[str, Any]) -> str:
        """The output of a Python block, run with the names of the blocks before it."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings(
                "ignore", category=DeprecationWarning, module=r"ray\."
            )  # a namespace of its own
            exec(compile(code, "<page>", "exec"), names)
        return trimmed(printed.getvalue())

    def page(self, text: str) -> list[tuple[int, int, str, str]]:
        """For each block with output: its position, the output written on the page, and today's output.

        A `text` block after a `python` block is its output; a block that prints must have one.
        """
        self.folder = folder = self.root / str(len(list(self.root.iterdir())))
        folder.mkdir()
        for name in ("models", "tests"):
            (folder / name).symlink_to(ROOT / name)
        for name, save in STAND_INS.items():
            if f" export {name} " in text:
                save(folder / name)
        if "talk.wav" in text:
            recordings(folder)
        if "street.png" in text:
            shutil.copy(STREET / "street.png", folder)
        if " page.png" in text:
            shutil.copy(DATA / "pages/page.png", folder)
        for name in ("receipt.png", "bills.png"):
            if name in text:
                shutil.copy(DATA / "receipts" / name, folder)
        with contextlib.chdir(folder):
            return self._answered(blocks(text))

    def _answered(self, parts: list[Block]) -> list[tuple[int, int, str, str]]:
        found, self.names = [], {"__name__": "page"}
        for number, block in enumerate(parts):
            if not block.runs or block.missing:
                continue
            if block.language == "console":
                answers = [
                    f"$ {typed}\n{self.command(typed)}".strip("\n") for typed, _ in sessions(block.text)
                ]
                found.append((block.start, block.end, block.text, "\n".join(answers) + "\n"))
                continue
            printed = self.python(block.text, self.names)
            after = parts[number + 1] if number + 1 < len(parts) else None
            if printed:
                assert after is not None, (block.text, printed)
                assert after.language == "text", (block.text, printed)
                found.append((after.start, after.end, after.text, printed + "\n"))
        return found


def trimmed(text: str) -> str:
    """Strip trailing spaces and empty lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def update(path: Path, reader: Reader) -> None:
    """Write today's output into a page."""
    text = path.read_text(encoding="utf-8")
    for start, end, _, answer in reversed(reader.page(text)):
        text = text[:start] + answer + text[end:]
    path.write_text(text, encoding="utf-8")
    for name in PICTURE.findall(text):
        if (reader.folder / name).exists():  # a command of the page draws it
            shutil.copy(reader.folder / name, PICTURES)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        typist = Reader(Path(work))
        for name in sys.argv[1:]:
            update(Path(name), typist)
