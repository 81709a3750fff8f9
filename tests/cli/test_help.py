"""The help of the commands has one style."""

import click
import pytest
from click.testing import CliRunner

from txexport.cli.main import main


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_option_says_what_it_does_and_its_default(name):
    command = main.commands[name]
    assert command.help
    assert command.help.splitlines()[0].endswith((".", ":"))
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        assert option.help, option.name
        assert option.help.endswith((".", ")")), option.name
        assert "default" not in option.help.lower(), option.name
        valued = option.default not in (None, False) and not option.multiple
        if valued and isinstance(option.default, int | float | str):
            assert option.show_default, option.name


@pytest.mark.parametrize("name", sorted(main.commands.keys() - {"serve"}))  # which answers by HTTP
def test_every_command_that_answers_has_json(name):
    assert "--json" in {text for option in main.commands[name].params for text in option.opts}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bla"], "error: No such option '--bla'; see main --help"),
        (["embed"], "error: Missing argument 'BUNDLE'; see main embed --help"),
        (
            ["embed", "x", "y", "--window", "0"],
            "error: Invalid value for '--window': 0 is not in the range x>=1",
        ),
        (
            ["emb"],
            "error: No such command 'emb'; did you mean embed",
        ),
        (["gen"], "error: No such command 'gen'; did you mean generate?; see main --help"),
        (["translate"], "error: No such command 'translate'; did you mean generate?; see main --help"),
        (["verfy"], "error: No such command 'verfy'; did you mean verify?; see main --help"),
        (["sing"], "error: No such command 'sing'; see main --help"),
        (["serve", "x", "--model", "y"], "error: No such option '--model'; see main serve --help"),
        (
            ["serve", "x", "--time-out", "y"],
            "error: No such option '--time-out'; did you mean --timeout?",
        ),
        (["verify", ""], "error: Invalid value for 'BUNDLE': it is empty, expected a folder; see"),
        (["export", "", "x"], "error: Invalid value for 'SOURCE': it is empty, expected a folder; see"),
        (
            ["export", "x", "y", "--dtype", "int9"],
            "error: dtype 'int9' is not known; expected one of",
        ),
        (["verify", "x", "--case", "a", "--cases", "full"], "error: give --case or --cases, not both"),
    ],
)
def test_what_is_called_wrongly_is_told_in_one_line(arguments, message):
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_help_lists_every_command_once_with_its_whole_first_sentence():
    text = CliRunner().invoke(main, ["--help"]).stdout
    sections = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert sections == [
        "Options:",
        "Make:",
        "Prove:",
        "Look and measure:",
        "Run on texts:",
        "Run on images:",
        "Run on sound:",
        "Serve:",
    ]
    listed = main.list_commands(click.Context(main))
    assert sorted(listed) == sorted(name for name, command in main.commands.items() if not command.hidden)
    assert "..." not in text.partition("Make:")[2]
    assert text.index("  detect ") > text.index("Run on images:") > text.index("  generate ")


def test_completion_is_described_and_works():
    assert "_TXEXPORT_COMPLETE=bash_source txexport" in CliRunner().invoke(main, ["--help"]).stdout
    script = (
        CliRunner().invoke(main, [], prog_name="txexport", env={"_TXEXPORT_COMPLETE": "bash_source"}).stdout
    )
    assert "_txexport_completion" in script
    words = {"COMP_WORDS": "txexport comp", "COMP_CWORD": "1", "_TXEXPORT_COMPLETE": "bash_complete"}
    names = CliRunner().invoke(main, [], prog_name="txexport", env=words).stdout
    assert names.splitlines() == ["plain,compare", "plain,compare-dtypes"]
