"""Grounding DINO: copies of tensors that files hold, and settings that are refused by name."""

import json

import numpy as np
import pytest
import tiny_checkpoint
from safetensors.numpy import load_file, save_file

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import UnsupportedError


@pytest.fixture
def folder(tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "grounding-dino")
    return tmp_path / "in"


def test_boxes_that_are_stored_for_every_layer(folder, tmp_path):
    """And a pooler, and Swin's last norm, which nothing reads: the graphs are the same."""
    txexport.export(folder, tmp_path / "one", only="native")
    tensors = load_file(folder / "model.safetensors")
    first = {name: array for name, array in tensors.items() if name.startswith("bbox_embed.0.")}
    assert len(first) == 6
    for name, array in first.items():
        for layer in range(3):
            copy = name.replace(".0.", f".{layer}.", 1)
            tensors |= {copy: array.copy(), f"model.decoder.{copy}": array.copy()}
    pooler = np.ones((48, 48), np.float32)
    tensors |= {"model.text_backbone.pooler.dense.weight": pooler}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    txexport.export(folder, tmp_path / "several", only="native")
    graph, data = "onnx/model_native.onnx", "onnx/model_native.onnx_data"
    for file in (graph, data):
        one, several = ((tmp_path / name / file) for name in ("one", "several"))
        assert one.exists() == several.exists()
        assert not one.exists() or one.read_bytes() == several.read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"two_stage": False}, "two_stage"),
        ({"embedding_init_target": False}, "embedding_init_target"),
        ({"position_embedding_type": "learned"}, "position_embedding_type"),
        ({"query_dim": 2}, "query_dim"),
        ({"backbone_config": {"model_type": "resnet"}}, "model_type"),
        ({"text_config": {"model_type": "roberta"}}, "model_type"),
        ({"d_model": 48}, "d_model is 48, expected a multiple of 32"),
        ({"num_feature_levels": 2}, "num_feature_levels is 2; expected 2 or more, and no fewer than maps"),
        (
            {"backbone_config": {"out_features": ["stage2", "stage3"]}},
            "out_features are .*the last among them",
        ),
    ],
)
def test_settings_that_are_not_supported(changes, message, folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    parts = {key: config[key] | value for key, value in changes.items() if isinstance(value, dict)}
    path.write_text(json.dumps(config | changes | parts))
    with pytest.raises(UnsupportedError, match=message):
        families.resolve(Checkpoint(folder))


def test_indices_name_the_maps(folder):
    """As published files do."""
    path = folder / "config.json"
    config, before = json.loads(path.read_text()), families.resolve(Checkpoint(folder)).spec
    del config["backbone_config"]["out_features"]
    config["backbone_config"]["out_indices"] = [2, 3, 4]
    path.write_text(json.dumps(config))
    assert families.resolve(Checkpoint(folder)).spec == before
