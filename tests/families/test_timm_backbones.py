"""Detectors whose backbone has timm's names, as they are published."""

import json
import re

import numpy as np
import pytest
import tiny_checkpoint
from helpers.often import often
from safetensors.numpy import load_file, save_file

from txexport import export, load, verify
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import TxexportError
from txexport.families import resolve

RESNET18 = {
    "embedding_size": 64,
    "depths": [2, 2, 2, 2],
    "hidden_sizes": [64, 128, 256, 512],
    "layer_type": "basic",
    "out_features": ["stage4"],
}
NAMES = [
    (r"\.embedder\.embedder\.convolution\.", ".conv1."),
    (r"\.embedder\.embedder\.normalization\.", ".bn1."),
    (r"model\.encoder\.stages\.(\d)\.layers\.", lambda match: f"model.layer{int(match[1]) + 1}."),
    (r"\.layer\.(\d)\.convolution\.", lambda match: f".conv{int(match[1]) + 1}."),
    (r"\.layer\.(\d)\.normalization\.", lambda match: f".bn{int(match[1]) + 1}."),
    (r"\.shortcut\.convolution\.", ".downsample.0."),
    (r"\.shortcut\.normalization\.", ".downsample.1."),
]


def timm_name(name: str) -> str:
    if ".backbone." in name:
        for pattern, replacement in NAMES:
            name = re.sub(pattern, replacement, name)
    return name


SIZES = {name: tiny_checkpoint.DETR_MASKS[name] for name in ("d_model", "encoder_attention_heads")}


MODEL_TYPES = {
    "DetrForObjectDetection": "detr",
    "DetrForSegmentation": "detr",
    "ConditionalDetrForObjectDetection": "conditional_detr",
    "DabDetrForObjectDetection": "dab-detr",
    "DeformableDetrForObjectDetection": "deformable_detr",
}


@pytest.fixture(
    scope="module", params=often([*MODEL_TYPES], slower=MODEL_TYPES.keys() - {"DetrForSegmentation"})
)
def both(request, tmp_path_factory):
    """A checkpoint with transformers' backbone, and the same with timm's names."""
    folder = tmp_path_factory.mktemp("timm")
    backbone = tiny_checkpoint.DETR["backbone_config"] | RESNET18
    if request.param == "DetrForSegmentation":
        backbone |= {"out_features": [f"stage{number}" for number in range(1, 5)]}
    if request.param == "DeformableDetrForObjectDetection":
        backbone |= {"out_features": [f"stage{number}" for number in range(2, 5)]}
    model_type, sizes = MODEL_TYPES[request.param], dict(SIZES)
    if request.param == "DabDetrForObjectDetection":
        sizes["hidden_size"] = sizes.pop("d_model")
    tiny_checkpoint.save(folder / "own", model_type, request.param, backbone_config=backbone, **sizes)
    (folder / "timm").mkdir()
    tensors = load_file(folder / "own" / "model.safetensors")
    renamed = {timm_name(name): value for name, value in tensors.items()}
    assert any(name.endswith("conv_encoder.model.layer2.0.downsample.1.running_var") for name in renamed)
    save_file(renamed, folder / "timm" / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "own" / "config.json").read_text())
    config |= {"backbone_config": None, "backbone": "resnet18", "use_timm_backbone": True}
    (folder / "timm" / "config.json").write_text(json.dumps(config))
    return folder


def test_timm_s_names_are_read(both, tmp_path):
    """Proved against transformers' own backbone, so that timm is not needed."""
    pixels = np.random.default_rng(1).standard_normal((1, 3, 64, 96), np.float32)
    inputs = {"pixel_values": pixels, "pixel_mask": np.ones((1, 64, 96), np.int64)}
    answers = []
    for name in ("own", "timm"):
        export(both / name, tmp_path / name)
        answers.append(load(tmp_path / name, device="cpu").run(**inputs))
    assert all(np.array_equal(answers[0][name], answers[1][name]) for name in answers[0])
    report = verify(tmp_path / "timm", cases=["three of several sizes"])
    assert report.ok
    assert "transformers" in report.references


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"backbone": "efficientnet_b0"}, "backbone 'efficientnet_b0' is not supported; expected resnet18"),
        ({"backbone": "resnet50"}, "model.backbone.conv_encoder.model"),
        ({"dilation": True}, "dilation=True is not supported"),
        ({"position_embedding_type": "learned"}, "position_embedding_type='learned' is not supported"),
        (
            {"use_timm_backbone": False, "backbone_config": RESNET18 | {"model_type": "swin"}},
            "model_type='swin' is not supported",
        ),
        (
            {"use_timm_backbone": False, "backbone_config": RESNET18 | {"out_features": ["stage3"]}},
            r"out_features \['stage3'\] is not supported",
        ),
        (
            {"use_timm_backbone": False, "backbone_config": RESNET18 | {"downsample_in_bottleneck": True}},
            "downsample_in_bottleneck=True is not supported",
        ),
        (
            {"use_timm_backbone": False, "backbone_config": RESNET18 | {"layer_type": "wide"}},
            "layer_type 'wide' is not supported",
        ),
        (
            {"use_timm_backbone": False, "backbone_config": RESNET18 | {"depths": [2, 2]}},
            "expected as many of both",
        ),
    ],
)
def test_other_backbones_are_refused(values, message, both, tmp_path):
    config = json.loads((both / "timm" / "config.json").read_text()) | values
    if config["model_type"] == "dab-detr" and "position_embedding_type" in values:
        pytest.skip("it has no such setting")
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(both / "timm" / "model.safetensors")
    with pytest.raises(TxexportError, match=message):
        resolve(Checkpoint(tmp_path))


def test_a_segmenter_is_no_detector(tmp_path):
    """The library would leave the detector's weights random."""
    tiny_checkpoint.save(tmp_path, "detr", "DetrForSegmentation", **tiny_checkpoint.DETR_MASKS)
    assert resolve(Checkpoint(tmp_path)).task == "image-segmentation"
    with pytest.raises(TxexportError, match="expected --task image-segmentation"):
        resolve(Checkpoint(tmp_path), "object-detection")
    few = tiny_checkpoint.DETR_MASKS["backbone_config"] | {"out_features": ["stage4"]}
    config = json.loads((tmp_path / "config.json").read_text()) | {"backbone_config": few}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(TxexportError, match="expected 4 stages, all of them in out_features"):
        resolve(Checkpoint(tmp_path))
