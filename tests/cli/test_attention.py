"""The command that shows attention: a table, JSON or a page, and one line where it cannot."""

import json

import pytest
from click.testing import CliRunner
from helpers.project import ROOT

from txexport.cli.main import main
from txexport.exporter import export

NUMBER = "four hundred and one"


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    out = tmp_path_factory.mktemp("with") / "out"
    export(ROOT / "models/pretrained/number-translator", out, only="native", outputs="attentions")
    return str(out)


def run(*arguments: str):
    return CliRunner().invoke(main, ["attention", *arguments])


def test_a_table_of_the_alignment(translator):
    result = run(translator, NUMBER)
    assert result.exit_code == 0
    row = next(line for line in result.output.splitlines() if line.split()[:1] == ["quatre"])
    assert row.split()[1] == "four"


def test_json_and_page_are_of_one_document(translator, tmp_path):
    result = run(translator, NUMBER, "--json", "--html", str(tmp_path / "page.html"))
    document = json.loads(result.output)
    assert (document["model"], document["text"]) == ("marian", NUMBER)
    names = [one["name"] for one in document["maps"]]
    assert names == ["encoder_attentions", "decoder_attentions", "cross_attentions"]
    page = (tmp_path / "page.html").read_text()
    start = page.index(">", page.index('id="document"')) + 1
    assert json.loads(page[start : page.index("</script>", start)]) == document


def test_a_given_target(translator):
    document = json.loads(run(translator, NUMBER, "--target", "deux", "--json").output)
    assert document["maps"][2]["queries"] == ["deux", "</s>"]


def test_a_bundle_without_weights(bundle_of):
    result = run(str(bundle_of("bert")), "the cat")
    assert result.exit_code == 2
    assert "export with --outputs attentions" in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_export_refuses_another_word(checkpoint_of, tmp_path):
    arguments = [
        "export",
        str(checkpoint_of("bert")),
        str(tmp_path / "out"),
        "--outputs",
        "attentions,logits",
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "outputs has 'logits', expected attentions or hidden_states" in result.output
