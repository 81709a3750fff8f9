"""The README claims what the tests prove, and no more."""

import shlex

from click.testing import CliRunner
from helpers.project import ROOT
from helpers.rows import readme_table

from txexport.cli.main import main

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_table_is_that_of_the_rows():
    table = README.split("<!-- rows: python tests/helpers/rows.py -->\n")[1].split("<!-- end of rows -->")[0]
    assert table == readme_table() + "\n"


def sessions():
    """Each command that the README shows with its answer."""
    for block in README.split("```console\n")[1:]:
        for part in f"\n{block.split('```')[0]}".split("\n$ ")[1:]:
            lines = part.splitlines()
            ends = next(n for n in range(1, len(lines) + 1) if "\n".join(lines[:n]).count('"') % 2 == 0)
            yield shlex.split("\n".join(lines[:ends])), "\n".join(lines[ends:]).strip("\n")


def test_commands_answer_as_they_are_shown(tmp_path, monkeypatch):
    """In an empty folder beside models/, one after another, word for word."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    shown = list(sessions())
    assert len(shown) == 9
    for words, answer in shown:
        assert words[0] == "txexport"
        result = CliRunner().invoke(main, words[1:])
        assert result.exit_code == 0, result.output
        said = [line.rstrip() for line in result.stdout.splitlines()]
        assert "\n".join(said).strip("\n") == answer
