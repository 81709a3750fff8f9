"""verify --third: the twin as PyTorch's own exporter writes it, or why it cannot."""

import shutil

import pytest
from click.testing import CliRunner
from test_verify import tamper

from txexport.cli import main
from txexport.errors import UnsupportedError
from txexport.parity import verify


@pytest.mark.parametrize(("what", "cache"), [("bert", None), ("gpt2", "static"), ("vit", None)])
def test_it_agrees_and_sees_what_is_wrong(what, cache, bundle_of, tmp_path):
    folder = shutil.copytree(bundle_of(what, cache), tmp_path / "bundle")
    name = {"bert": "three ragged rows, right padding", "gpt2": "three ragged rows in chunks"}.get(
        what, "three"
    )
    good = verify(folder, reference="torch.onnx", cases=[name])
    assert good.ok
    [case] = good.cases
    assert case.reference == "torch.onnx"
    expected = {"bert": {"last_hidden_state", "pooler_output"}, "gpt2": {"logits"}}
    assert {check.output for check in case.checks} == expected.get(what, expected["bert"])
    stack = "decoder" if what == "gpt2" else "encoder"
    tamper(folder, f"{stack}.layers.1.feed_forward.up.weight", lambda numbers: 1.5 * numbers)
    assert not verify(folder, reference="torch.onnx", cases=[name]).ok


def test_what_it_cannot_do_is_a_skip_with_its_reason(bundle_of):
    case = "two equal rows, several tokens a step"
    report = verify(bundle_of("bart", "static"), reference="twin", third=True, cases=[case])
    assert report.ok
    assert report.references == ["twin"]
    said = "only single stacks are given to torch.onnx.export, not two that meet"
    assert (report.cases[-1].reference, report.cases[-1].skipped) == ("torch.onnx", said)
    with pytest.raises(UnsupportedError, match=said):
        verify(bundle_of("bart", "static"), reference="torch.onnx", cases=[case])


def test_exporter_s_own_reason_is_told(bundle_of, monkeypatch):
    def refuse(*_args, **_options):
        raise RuntimeError("the graph\nbroke") from ValueError("no such operator\nand more")

    monkeypatch.setattr("torch.onnx.export", refuse)
    arguments = ["verify", str(bundle_of("bert")), "--third", "--reference", "twin", "--case", "one token"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert "ValueError: no such operator" in " ".join(result.output.split())
