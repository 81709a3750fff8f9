"""Suggestions in messages about names that are not known."""

from click.testing import CliRunner
from helpers.project import ROOT

from txexport.cli.main import main
from txexport.support.near_names import did_you_mean, near_paths


def test_names_that_are_alike_are_suggested():
    assert did_you_mean("max_token", ["max_tokens", "model"]) == "; did you mean max_tokens?"
    assert did_you_mean("colour", ["max_tokens"], otherwise="expected max_tokens") == "; expected max_tokens"
    assert (did_you_mean(3, ["3"]), did_you_mean("x", [])) == ("", "")


def test_a_missing_folder_has_a_name_near_one_that_is_there(tmp_path):
    """A typing error is more likely than a folder that was never exported."""
    (tmp_path / "tagger").mkdir()
    near = f"did you mean {tmp_path / 'tagger'}?"
    assert near_paths(tmp_path / "tager") == f"; {near}"
    for command, reason in (
        ("verify", "not a bundle: there is no such folder"),
        ("serve", "not a bundle: there is no such folder"),
        ("inspect", "not a folder"),
    ):
        result = CliRunner().invoke(main, [command, str(tmp_path / "tager")])
        assert result.exit_code == 2
        assert result.output == f"error: {tmp_path / 'tager'} is {reason}; {near}\n"
    result = CliRunner().invoke(main, ["verify", str(tmp_path / "other")])
    assert "there is no such folder; make one with txexport export" in result.output
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["verify", str(tmp_path / "file")])
    assert "is not a bundle: it is a file; make one" in result.output


def test_a_checkpoint_beside_the_one_that_is_named_is_suggested(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT / "models")
    result = CliRunner().invoke(main, ["export", "pretrained/chater", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "since there is a 'pretrained' here; did you mean pretrained/chatter?\n" in result.output
