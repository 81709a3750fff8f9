"""Bundles of format 6 and later are read by every later txexport: the first, in their original files."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from helpers.project import ROOT

from txexport import bundle, inspect, load, quantize, verify
from txexport.bundle.manifest import FORMAT, OLDEST
from txexport.errors import BundleError
from txexport.verification.reports.facts import facts_line

DATA = ROOT / "tests/data"
IDS = np.array([[5, 9, 11, 3, 17, 21], [40, 41, 42, 43, 44, 45]])


def original(name: str, auto) -> np.ndarray:
    """The logits of the checkpoint in transformers."""
    model = auto.from_pretrained(DATA / f"transformers-4.40-{name}").eval()
    with torch.inference_mode():
        return model(torch.from_numpy(IDS)).logits.numpy()


def test_the_promise_begins_with_format_6():
    assert OLDEST == 6 <= FORMAT


def test_encoder_of_format_6_gives_the_originals_numbers():
    with load(DATA / "bundle-6-bert", device="cpu") as model:
        assert model.manifest.format == 6
        types, mask = np.zeros_like(IDS), np.ones_like(IDS)
        logits = model.run(input_ids=IDS, attention_mask=mask, token_type_ids=types)["logits"]
    expected = original("bert", transformers.AutoModelForMaskedLM)
    np.testing.assert_allclose(logits, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_decoder_of_format_6_gives_the_originals_numbers(dtype):
    with load(DATA / "bundle-6-gpt2", device="cpu", dtype=dtype) as model:
        tokens = model.generate_ids(IDS.tolist(), max_new_tokens=1, do_sample=False)
    logits = original("gpt2", transformers.AutoModelForCausalLM)[:, -1]
    most = logits.max(axis=-1)
    chosen = logits[np.arange(len(IDS)), [row[0] for row in tokens]]
    assert (most - chosen <= (0 if dtype == "float32" else 0.05 * np.abs(most))).all()


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_bundle_of_format_6_is_whole_and_can_be_proved(name, tmp_path):
    """Every file is the listed one; a later export may write other graphs of the same model."""
    for folder in (f"bundle-6-{name}", f"transformers-4.40-{name}"):
        shutil.copytree(DATA / folder, tmp_path / folder)
    out = tmp_path / f"bundle-6-{name}"
    bundle.check(out, bundle.read(out))
    assert sorted(bundle.present(out)) == sorted(bundle.read(out).files)
    assert inspect(out).to_dict()["bundle"]["source"] == f"../transformers-4.40-{name}"
    report = verify(out, cases="quick", reference="transformers", allow_edited=True)
    assert report.ok, facts_line(report)
    assert bundle.read(out).proof.verdict.startswith("no difference in ")
    assert quantize(out, "float16").format == FORMAT


@pytest.mark.parametrize(("name", "auto"), [("gpt2", "CausalLM"), ("bart", "Seq2SeqLM")])
def test_a_bundle_of_format_7_runs_inspects_and_can_be_proved(name, auto, tmp_path):
    """Its stages are derived from its architecture."""
    for folder in (f"bundle-7-{name}", f"transformers-4.40-{name}"):
        shutil.copytree(DATA / folder, tmp_path / folder)
    out = tmp_path / f"bundle-7-{name}"
    with load(out, device="cpu") as model:
        assert model.manifest.format == 7
        tokens = model.generate_ids(IDS.tolist(), max_new_tokens=4, do_sample=False, num_beams=1)
    original_model = getattr(transformers, f"AutoModelFor{auto}").from_pretrained(
        DATA / f"transformers-4.40-{name}"
    )
    ids = torch.from_numpy(IDS)
    expected = original_model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False, num_beams=1
    )
    assert [list(row) for row in tokens] == [
        row[-len(mine) :].tolist() for row, mine in zip(expected, tokens, strict=True)
    ]
    before = (out / "txexport.json").read_text()
    assert "stages" not in before
    assert inspect(out).to_dict()["bundle"]["source"] == f"../transformers-4.40-{name}"
    report = verify(out, cases="quick", reference="transformers", allow_edited=True)
    assert report.ok
    verdict = bundle.read(out).proof.verdict  # the second where a later export writes other graphs
    assert verdict == "equal" or verdict.startswith("no difference in ")
    assert inspect(out).bundle.changed == []  # the proof holds of a manifest without stages
    assert "stages" not in (out / "txexport.json").read_text()
    assert quantize(out, "float16").format == FORMAT


def test_absolute_path_of_a_first_bundle_of_format_6_is_read(tmp_path):
    for folder in ("bundle-6-bert", "transformers-4.40-bert"):
        shutil.copytree(DATA / folder, tmp_path / folder)
    file = tmp_path / "bundle-6-bert/txexport.json"
    values = json.loads(file.read_text())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "transformers-4.40-bert").rename(tmp_path / "elsewhere/bert")
    values["source"]["path"] = str(tmp_path / "elsewhere/bert")
    file.write_text(json.dumps(values))
    assert quantize(tmp_path / "bundle-6-bert", "int8").source.path == str(tmp_path / "elsewhere/bert")


def test_older_and_newer_formats_are_told_apart(tmp_path):
    shutil.copytree(DATA / "bundle-6-bert", tmp_path / "out")
    file = tmp_path / "out/txexport.json"
    values = json.loads(file.read_text())
    for number, said in (
        (5, "is of an older txexport; export again"),
        (FORMAT + 1, "this txexport reads up to"),
    ):
        file.write_text(json.dumps(values | {"format": number}))
        with pytest.raises(BundleError, match=said):
            load(tmp_path / "out")
