"""Checkpoints that name code of their own are exported as they are, equal to what has their mathematics."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import published

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import TxexportError
from txexport.exporter import export
from txexport.runtime import load
from txexport.verification import verify

LENGTHS = (17, 5, 1)
NTK = {"rope_scaling": {"type": "ntk", "factor": 8.0}}
NEW = [
    ("NewModel", "feature-extraction", NTK),
    ("NewModel", "feature-extraction", {"prefix": "", "type_vocab_size": 0}),
    ("NewForTokenClassification", "token-classification", NTK | {"num_labels": 1}),
    ("NewForSequenceClassification", "text-classification", NTK | {"num_labels": 1}),
    ("NewForMaskedLM", "fill-mask", {"rope_scaling": {"type": "ntk", "factor": 2.0}, "rope_theta": 5e3}),
]


def ragged() -> dict[str, np.ndarray]:
    """Rows of other lengths, padded on the right."""
    ids = np.random.default_rng(5).integers(5, 300, (len(LENGTHS), max(LENGTHS)))
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype(np.int64)
    return {"input_ids": np.where(mask, ids, 1), "attention_mask": mask}


def apart(out: Path, model: torch.nn.Module) -> float:
    """The largest difference of the bundle's first output and the model's, but for padding."""
    inputs, bundle = ragged(), load(out, device="cpu")
    (graph,) = bundle.manifest.native.values()
    names = {port.name for port in graph.inputs}
    zeros = {"token_type_ids": np.zeros_like(inputs["input_ids"])} if "token_type_ids" in names else {}
    ours = next(iter(bundle.run(**inputs, **zeros).values()))
    with torch.inference_mode():
        theirs = model(**{name: torch.from_numpy(array) for name, array in inputs.items()})[0].numpy()
    assert ours.shape == theirs.shape
    tokens = inputs["attention_mask"].astype(bool) if ours.ndim == 3 else slice(None)
    return float(np.abs(ours - theirs)[tokens].max())


@pytest.mark.parametrize(("architecture", "task", "config"), NEW, ids=str)
def test_new_equals_gte(architecture, task, config, tmp_path):
    model = published.new(tmp_path / "in", architecture, **config)
    export(tmp_path / "in", tmp_path / "out", task=task)
    assert apart(tmp_path / "out", model) < 1e-5
    report = verify(tmp_path / "out")
    assert report.ok
    assert report.references == ["checkpoint", "twin", "transformers"]
    assert report.model_type == "gte"


@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_ntk_of_new_is_what_its_code_computes(factor, tmp_path):
    """As Alibaba-NLP/new-impl has it: a larger base, and frequencies divided by factor^(2 / head_dim)."""
    published.new(
        tmp_path / "in", "NewModel", hidden_size=192, rope_scaling={"type": "ntk", "factor": factor}
    )
    (block,) = families.resolve(Checkpoint(tmp_path / "in")).spec.encoder.blocks
    exponents = np.arange(0, 64, 2) / 64
    expected = (300.0 * factor) ** -exponents / factor ** (2 / 64)
    assert np.array(block.attention.rotary.frequencies) == pytest.approx(expected, rel=3e-7)
    assert block.attention.rotary.scale == 1.0


REFUSED = [
    ({"rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.6}}, "mixed_b=0.6"),
    ({"rope_scaling": {"type": "dynamic", "factor": 8.0}}, "type='dynamic'"),
    (
        {"rope_scaling": {"type": "ntk", "factor": 0.5}},
        "'factor' of rope_scaling is 0.5",
    ),
    ({"logn_attention_scale": True}, "logn_attention_scale=True"),
    ({"position_embedding_type": "absolute"}, "position_embedding_type='absolute'"),
    ({"layer_norm_type": "rms_norm"}, "layer_norm_type='rms_norm'"),
    ({"pack_qkv": False}, "pack_qkv=False"),
]


@pytest.mark.parametrize(("config", "named"), REFUSED, ids=[row[1] for row in REFUSED])
def test_what_new_has_beyond_gte_is_refused_by_name(config, named, tmp_path):
    published.new(tmp_path / "in", "NewModel")
    file = tmp_path / "in/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    with pytest.raises(TxexportError, match=named):
        families.resolve(Checkpoint(tmp_path / "in"))
