"""verify --reference float64: what is rounding, and what is error."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers.bundle_edits import tamper
from helpers.reports import SCHEMA, valid
from txmodels.position import rotation

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.spec import DecoderSpec, EncoderSpec, RotarySpec
from txexport.tasks import TASKS
from txexport.verification import verify
from txexport.verification.references.originals import Float64Twin
from txexport.verification.references.precision import in_float64


def double(checkpoint) -> tuple[Float64Twin, torch.nn.Module]:
    """The twin in float64, and the original in float64."""
    resolved = families.resolve(Checkpoint(checkpoint), None)
    auto = getattr(transformers, TASKS[resolved.task].judge(resolved.model_type))
    return Float64Twin(Checkpoint(checkpoint), resolved), auto.from_pretrained(checkpoint).double().eval()


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "bart", "t5", "bloom", "llama", "esm", "vit"])
def test_no_number_on_the_way_is_float32(model_type, checkpoint_of):
    """Against the original in float64, which shares no code; float32 anywhere would show as 1e-8.

    Some originals leave float64 themselves: for the angles of rotations, the softmax of scores, ESM's share
    of dropped tokens.
    """
    reference, original = double(checkpoint_of(model_type))
    tokens = [5, 250, 31, 7, 77, 4, 9]  # 4 is a token that ESM drops
    narrowed = model_type in ("llama", "esm", "t5", "bloom")
    with torch.inference_mode(), reference.in_float64():
        if model_type == "vit":
            pixels = np.random.default_rng(0).standard_normal((1, 3, 30, 30), np.float32)
            found = reference.encode({"pixel_values": pixels})["last_hidden_state"]
            expected = original(torch.from_numpy(pixels).double()).last_hidden_state
        elif isinstance(reference.model.spec, EncoderSpec):
            ids = torch.tensor([tokens])
            given = {"input_ids": ids.numpy(), "attention_mask": np.ones((1, 7), np.int64)}
            given |= {"token_type_ids": 0 * ids.numpy()} if model_type == "bert" else {}
            found = reference.encode(given)["last_hidden_state"]
            expected = original(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        elif isinstance(reference.model.spec, DecoderSpec):
            found = reference.decode(tokens, None)["logits"][None]
            expected = original(torch.tensor([tokens])).logits
        else:
            found = reference.decode(tokens, [9, 8, 200])["logits"][None]
            ids = torch.tensor([tokens])
            expected = original(torch.tensor([[9, 8, 200]]), decoder_input_ids=ids).logits
    assert found.dtype == np.float64
    assert np.abs(found - expected.numpy()).max() < (1e-6 if narrowed else 1e-12)
    assert torch.get_default_dtype() == torch.float32


def test_angles_are_float64():
    with in_float64(torch.nn.Linear(1, 1)):
        cos, _ = rotation(RotarySpec((0.1,)), torch.tensor([[1000001]]))
    assert cos.item() == np.cos(np.float64(1000001) * 0.1)


def test_share_of_dropped_tokens_is_float64(checkpoint_of):
    reference, _ = double(checkpoint_of("esm"))
    ids = torch.tensor([[5, 4, 31, 7, 77, 4, 9]])  # two of seven are dropped
    with reference.in_float64(), torch.inference_mode():
        embedding = reference.model.encoder.embedding
        found = embedding(ids, None, None, torch.ones_like(ids))[0, 0] / embedding.word.weight[5]
    assert np.abs(found.numpy() - 0.88 / (1 - 2 / 7)).max() < 1e-14


def test_rounding_stands_beside_the_error(bundle_of, tmp_path):
    folder = shutil.copytree(bundle_of("llama", "static"), tmp_path / "bundle")
    report = verify(folder, reference="float64", cases="quick")
    assert report.ok
    assert report.references == ["checkpoint", "float64"]
    checks = [check for case in report.cases for check in case.checks if case.reference == "float64"]
    rounded = [check for check in checks if check.output not in ("tokens", "beam tokens", "beam scores")]
    assert len(rounded) > 10
    assert all(1e-8 < check.rounding < 1e-5 for check in rounded if check.output == "logits")
    assert all(0 < check.rounding < 1e-5 for check in rounded)
    tamper(folder, "decoder.layers.1.feed_forward.up.weight", lambda numbers: numbers * 1.001)
    bad = verify(folder, reference="float64", cases="quick")
    off = [
        check for case in bad.failed if case.reference == "float64" for check in case.checks if not check.ok
    ]
    assert {check.output for check in off} >= {"logits"}
    assert all(check.error > 5 * check.rounding for check in off if check.rounding is not None)


def test_padding_is_no_rounding(bundle_of):
    """What stands at padding is left out on this side too, as in the error that it stands beside."""
    report = verify(bundle_of("bert"), reference="float64", cases=["three rows, scattered padding"])
    [check] = [check for check in report.cases[0].checks if check.output == "last_hidden_state"]
    assert 0 < check.rounding < 1e-5


def test_reports_show_it(bundle_of, tmp_path):
    files = [tmp_path / f"report{suffix}" for suffix in (".json", ".md", ".html")]
    arguments = ["verify", str(bundle_of("bert")), "--reference", "float64", "--cases", "quick"]
    result = CliRunner().invoke(main, arguments + [x for f in files for x in ("--report", str(f))])
    assert result.exit_code == 0
    assert "in float32" in result.output
    values = json.loads(files[0].read_text())
    valid(values, SCHEMA)
    [check] = [c for c in values["cases"][-1]["checks"] if c["output"] == "last_hidden_state"]
    assert 0 < check["rounding"] < 1e-5
    assert "| PyTorch in float32 |" in files[1].read_text()
    assert "<th>PyTorch in float32</th>" in files[2].read_text()
