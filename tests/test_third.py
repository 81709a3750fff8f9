"""verify --third: the twin as PyTorch's own exporter writes it, or why it cannot."""

import shutil

import pytest
from click.testing import CliRunner
from test_verify import tamper

from txexport import families
from txexport.checkpoint import Checkpoint
from txexport.cli import main
from txexport.errors import UnsupportedError
from txexport.parity import verify
from txexport.parity.plan import plan
from txexport.parity.third import Third
from txexport.runtime import load

WEIGHT = "layers.1.feed_forward.up.weight"
BOTH = {"last_hidden_state", "pooler_output"}
KINDS = [
    ("bert", None, "three ragged rows, right padding", f"encoder.{WEIGHT}", BOTH),
    ("gpt2", "static", "three ragged rows in chunks", f"decoder.{WEIGHT}", {"logits"}),
    ("vit", None, "three", f"encoder.{WEIGHT}", BOTH),
]


@pytest.mark.parametrize(("what", "cache", "name", "weight", "outputs"), KINDS, ids=[k[0] for k in KINDS])
def test_it_agrees_and_sees_what_is_wrong(
    what, cache, name, weight, outputs, bundle_of, checkpoint_of, tmp_path
):
    checkpoint = Checkpoint(checkpoint_of(what))
    resolved = families.understand(checkpoint, None)
    third = Third(checkpoint, resolved)
    [case] = [case for case in plan(resolved.spec, static=cache == "static") if case.name == name]
    assert case.run is not None
    checks = case.run(load(bundle_of(what, cache)), third, case.case, 1e-5)
    assert {check.output for check in checks} == outputs
    assert all(check.ok for check in checks)
    folder = shutil.copytree(bundle_of(what, cache), tmp_path / "bundle")
    tamper(folder, weight, lambda numbers: 1.5 * numbers)
    broken = load(folder, check=False)
    assert not any(check.ok for check in case.run(broken, third, case.case, 1e-5))


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


def test_what_the_exporter_prints_is_kept_from_the_report(bundle_of, capfd):
    """It cannot follow how many global tokens there are, and says so with a listing of the graph."""
    report = verify(bundle_of("longformer"), reference="twin", third=True, cases=["one token"])
    assert report.ok
    assert "torch.onnx.export cannot: GuardOnDataDependentSymNode: " in (report.cases[-1].skipped or "")
    assert capfd.readouterr() == ("", "")
