"""verify --torch-onnx: the twin as PyTorch's own exporter writes it, or why it cannot."""

import shutil

import pytest
from click.testing import CliRunner
from helpers.bundle_edits import tamper
from helpers.other_tools import check_exporter

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.runtime.loaded_bundle import open_bundle
from txexport.verification import verify
from txexport.verification.cases.graph_runner import runner_of
from txexport.verification.cases.plan import plan
from txexport.verification.judgement import judge
from txexport.verification.references.torch_onnx import TorchOnnxReference

WEIGHT = "layers.1.feed_forward.up.weight"
BOTH = {"last_hidden_state", "pooler_output"}
KEPT = {f"present.{i}.{kind}" for i in range(2) for kind in ("key", "value")}
FIRST = {"present.0.decoder.key", "present.0.decoder.value"}
OF = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
PAIR = {"logits", "last_hidden_state"} | {f"present.{i}.{part}" for i in range(2) for part in OF}
THREE = PAIR | {f"present.2.{part}" for part in OF}
SCORES = {"text_embeds", "image_embeds", "logits_per_text", "logits_per_image"}
# What is changed, what is compared, and what of that the change leaves as it was.
KINDS = [
    ("bert", None, "three ragged rows, right padding", f"encoder.{WEIGHT}", BOTH, set()),
    ("gpt2", "static", "three ragged rows in chunks", f"decoder.{WEIGHT}", KEPT | {"logits"}, KEPT),
    ("vit", None, "three", f"encoder.{WEIGHT}", BOTH, set()),
    ("bart", "static", "three ragged rows in chunks", f"encoder.{WEIGHT}", THREE, FIRST),
    ("t5", "dynamic", "two equal rows, several tokens a step", f"encoder.{WEIGHT}", PAIR, FIRST),
    (
        "whisper",
        "static",
        "three ragged rows in chunks",
        f"encoder.{WEIGHT}",
        THREE | {"alignment_weights"},
        FIRST,
    ),
    ("wav2vec2-bert", None, "long and short row", f"encoder.{WEIGHT}", {"logits"}, set()),
    ("clip", None, "three ragged texts, two images", f"text.{WEIGHT}", SCORES, {"image_embeds"}),
]
QUICKER = ("bert", "gpt2")  # an encoder and a decoder
ROWS = [pytest.param(*k, id=k[0], marks=() if k[0] in QUICKER else pytest.mark.slow) for k in KINDS]


@pytest.mark.parametrize(("what", "cache", "name", "weight", "outputs", "kept"), ROWS)
def test_it_agrees_and_sees_what_is_wrong(
    what, cache, name, weight, outputs, kept, bundle_of, checkpoint_of, tmp_path
):
    check_exporter()
    checkpoint = Checkpoint(checkpoint_of(what))
    resolved = families.resolve(checkpoint, None)
    reference = TorchOnnxReference(checkpoint, resolved)
    [case] = [case for case in plan(resolved.spec, static=cache == "static") if case.name == name]
    assert case.run is not None
    checks = judge(case.run, runner_of(open_bundle(bundle_of(what, cache))), reference, case.case, 1e-5)
    assert {check.output for check in checks} == outputs
    assert all(check.ok for check in checks)
    folder = shutil.copytree(bundle_of(what, cache), tmp_path / "bundle")
    tamper(folder, weight, lambda numbers: 1.5 * numbers)
    broken = judge(case.run, runner_of(open_bundle(folder, check=False)), reference, case.case, 1e-5)
    assert {check.output for check in broken if check.ok} == kept


def test_exporter_s_own_reason_is_told(bundle_of, monkeypatch):
    def refuse(*_args, **_options):
        raise RuntimeError("the graph\nbroke") from ValueError("no such operator\nand more")

    monkeypatch.setattr("torch.onnx.export", refuse)
    arguments = [
        "verify",
        str(bundle_of("bert")),
        "--torch-onnx",
        "--reference",
        "twin",
        "--case",
        "one token",
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert "ValueError: no such operator" in " ".join(result.output.split())


def test_what_the_exporter_prints_is_kept_from_the_report(bundle_of, capfd):
    """It cannot follow how many global tokens there are, and says so with a listing of the graph."""
    report = verify(bundle_of("longformer"), reference="twin", torch_onnx=True, cases=["one token"])
    assert report.ok
    assert "torch.onnx.export failed: GuardOnDataDependentSymNode: " in (report.cases[-1].skipped or "")
    assert capfd.readouterr() == ("", "")


def test_the_former_name_works_and_warns(bundle_of, monkeypatch):
    def refuse(*_args, **_options):
        raise RuntimeError("it was called")

    monkeypatch.setattr("torch.onnx.export", refuse)
    folder = bundle_of("bert")
    with pytest.warns(DeprecationWarning, match="third= is now torch_onnx="):
        report = verify(folder, reference="twin", third=True, cases=["one token"])
    assert "it was called" in (report.cases[-1].skipped or "")
    arguments = ["verify", str(folder), "--third", "--reference", "twin", "--case", "one token"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert "use --torch-onnx" in result.stderr
    assert "it was called" in " ".join(result.stdout.split())
    assert "--third" not in CliRunner().invoke(main, ["verify", "--help"]).output
