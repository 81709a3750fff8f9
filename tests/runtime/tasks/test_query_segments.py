"""Parts of images from queries with masks: against the pipeline of transformers, of every kind."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers.photographs import write_photographs
from PIL import Image

import txexport
from txexport.errors import InputError
from txexport.runtime.preprocessing.image_defaults import MASK_SIZES
from txexport.runtime.preprocessing.image_scaling import resized
from txexport.runtime.preprocessing.image_sizes import Bounded, Rounding
from txexport.runtime.tasks.query_segments import Rules, instances, label_scores, nearest, panoptic

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150), (7, 9), (53, 37)]
LABELS = 70  # above 64, PyTorch's topk sorts the likeliest pairs of a query and a label
PROCESSORS = {
    "shorter edge": {"size": {"shortest_edge": 64, "longest_edge": 120}},
    "oblong": {"size": {"height": 41, "width": 97}, "size_divisor": 8, "do_reduce_labels": True},
}
RULES = {"threshold": 0.3, "mask_threshold": 0.3, "overlap_mask_area_threshold": 0.3}
CHOICES = {
    "panoptic": [{}, {"threshold": 0.3}, RULES],
    "instance": [{"threshold": 0.3}, {"threshold": 0.05}],
    "semantic": [{}],
}
ASKED = [(kind, rules) for kind, every in CHOICES.items() for rules in every]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Image files of several sizes; those of the first size stand apart."""
    return write_photographs(tmp_path_factory.mktemp("images"), SIZES)


@dataclass(frozen=True)
class Segmenter:
    """Our model of a checkpoint, and the pipeline of transformers."""

    folder: Path
    model: txexport.Model
    pipeline: Any
    processor: Any


def maskformer():
    """MaskFormer of random weights whose queries differ, and whose scores are not all alike."""
    model = tiny_checkpoint.build("maskformer", num_labels=LABELS, fpn_feature_size=64)
    with torch.no_grad():
        model.class_predictor.weight *= 16
        model.model.transformer_module.queries_embedder.weight *= 12
        model.mask_embedder.layers[-1].layers[0].weight *= 12
    return model


def mask2former():
    """Mask2Former, as above."""
    model = tiny_checkpoint.build("mask2former", num_labels=LABELS, feature_size=64)
    with torch.no_grad():
        model.class_predictor.weight *= 8
        model.model.transformer_module.queries_features.weight *= 12
        model.model.transformer_module.decoder.mask_predictor.mask_embedder.layers[-1].layers[0].weight *= 8
    return model


def detr():
    """DETR's segmentation, as above."""
    sizes = tiny_checkpoint.DETR_MASKS
    model = tiny_checkpoint.build("detr", "DetrForSegmentation", 1, num_labels=LABELS, **sizes)
    with torch.no_grad():
        model.detr.class_labels_classifier.weight *= 9
        model.detr.model.query_position_embeddings.weight *= 12
        for layer in model.detr.model.decoder.layers:
            layer.encoder_attn.q_proj.weight *= 8
            layer.encoder_attn.v_proj.weight *= 3
        model.bbox_attention.q_proj.weight *= 20
        model.mask_head.conv1.conv.weight[:, 32:] *= 60
        model.mask_head.output_conv.weight *= 2
    return model


@pytest.fixture(scope="module", params=PROCESSORS)
def segmenter(request, tmp_path_factory):
    return segmenter_of(maskformer(), "MaskFormer", PROCESSORS[request.param], tmp_path_factory)


@pytest.fixture(scope="module")
def masked_segmenter(tmp_path_factory):
    return segmenter_of(mask2former(), "Mask2Former", PROCESSORS["shorter edge"], tmp_path_factory)


@pytest.fixture(scope="module")
def detr_segmenter(tmp_path_factory):
    return segmenter_of(detr(), "Detr", PROCESSORS["shorter edge"], tmp_path_factory)


def segmenter_of(original, kind, settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments")
    original.save_pretrained(folder / "in")
    processor = getattr(transformers, f"{kind}ImageProcessorPil")(**settings)
    processor.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    original = type(original).from_pretrained(folder / "in").eval()
    pipeline = transformers.pipeline("image-segmentation", model=original, image_processor=processor)
    return Segmenter(folder, txexport.load(folder / "out", device="cpu"), pipeline, processor)


@pytest.mark.parametrize(("kind", "rules"), ASKED)
def test_segments_equal_the_pipeline(kind, rules, segmenter, photographs):
    """At the size of each image; labels, scores and masks."""
    most = most_equal(kind, rules, segmenter, photographs)
    assert most > (1 if rules or kind == "semantic" else 0)


@pytest.mark.parametrize(("kind", "rules"), ASKED)
def test_segments_of_mask2former_equal_the_pipeline(kind, rules, masked_segmenter, photographs):
    """Its masks are interpolated to 384 by 384 pixels before they are read."""
    assert MASK_SIZES[masked_segmenter.model.bundle.files.images.kind] == (384, 384)
    most = most_equal(kind, rules, masked_segmenter, photographs)
    assert most > (1 if rules or kind == "semantic" else 0)


FAINT = {"threshold": 0.1, "mask_threshold": 0.3, "overlap_mask_area_threshold": 0.2}


@pytest.mark.parametrize(
    ("kind", "rules", "least"),
    [("panoptic", {}, 0), ("panoptic", FAINT, 2), ("instance", FAINT, 2), ("semantic", {}, 1)],
)
def test_segments_of_detr_equal_the_pipeline(kind, rules, least, detr_segmenter, photographs):
    """Its instances are panoptic parts."""
    assert most_equal(kind, rules, detr_segmenter, photographs) >= least


def most_equal(kind, rules, segmenter, photographs):
    """Compare the segments of all images with the pipeline's; the largest number of an image."""
    ours = segmenter.model.segment(photographs, kind=kind, batch_size=4, **rules)
    counts = set()
    for answer, path, size in zip(ours, photographs, SIZES, strict=True):
        expected = segmenter.pipeline(path, subtask=kind, **rules)
        assert [one["label"] for one in answer] == [one["label"] for one in expected]
        for one, theirs in zip(answer, expected, strict=True):
            assert one["mask"].shape == size
            assert one["mask"].dtype == bool
            assert (one["mask"] != (np.asarray(theirs["mask"]) == 255)).mean() <= 1e-3
            if kind == "semantic":
                assert one["score"] is theirs["score"] is None
            else:
                assert abs(one["score"] - theirs["score"]) < 1e-5
        assert np.sum([np.zeros(size, int), *(one["mask"] for one in answer)], axis=0).max() <= 1
        counts.add(len(answer))
    return max(counts)


def test_the_kind_is_panoptic_as_the_pipeline_chooses(segmenter, photographs):
    ours = segmenter.model.segment(photographs[9], threshold=0.3)
    expected = segmenter.pipeline(photographs[9], threshold=0.3)
    assert [one["label"] for one in ours] == [one["label"] for one in expected] != []


def test_pixels_equal_the_processors(segmenter, photographs):
    """Bit for bit, alone and with the padding's mask of one image, which has none."""
    for path in photographs:
        image = Image.open(path)
        theirs = segmenter.processor(images=[image], return_tensors="np")
        ours = segmenter.model.bundle.files.images.prepared(path)
        assert np.array_equal(ours.values, theirs["pixel_values"][0])
        assert theirs["pixel_mask"].all()


def test_padding_is_read_as_pixels_are(segmenter, photographs):
    """The original ignores pixel_mask, so its graph has none."""
    [model] = segmenter.model.bundle.sessions.values()
    assert list(model.inputs) == ["pixel_values"]
    inputs = segmenter.processor(images=[Image.open(path) for path in photographs[:3]], return_tensors="pt")
    outputs = model.run({"pixel_values": inputs["pixel_values"].numpy()})
    with torch.no_grad():
        expected = segmenter.pipeline.model(**inputs)
    for name, value in outputs.items():
        assert np.abs(value - expected[name].numpy()).max() < 1e-3 * np.abs(value).max()


def test_old_settings_are_read(tmp_path):
    """Of files before the processor had a size of two edges."""
    old = {"size": 640, "max_size": 2560, "size_divisibility": 32, "reduce_labels": True, "resample": 2}
    kind = "MaskFormerFeatureExtractor"
    tiny_checkpoint.save(tmp_path / "in", "maskformer")
    (tmp_path / "in" / "preprocessor_config.json").write_text(
        transformers.utils.generic.json.dumps(old | {"feature_extractor_type": kind})
    )
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    ours = txexport.load(tmp_path / "out", device="cpu").bundle.files.images
    theirs = transformers.MaskFormerImageProcessorPil(**old)
    pixels = np.random.default_rng(0).integers(0, 256, (50, 401, 3), np.uint8)
    values = theirs(images=[Image.fromarray(pixels)], return_tensors="np")["pixel_values"][0]
    assert np.array_equal(ours.prepared(pixels).values, values)


@pytest.mark.parametrize("narrow", [True, False])
def test_sizes_equal_the_librarys(narrow):
    """Of images whose shorter edge is right already too, narrow ones among them."""
    if narrow:
        from transformers.image_transforms import get_size_with_aspect_ratio as theirs

        arguments, rounding = (), Rounding()
    else:
        from transformers.models.yolos.image_processing_pil_yolos import (
            get_size_with_aspect_ratio_yolos as theirs,
        )

        arguments, rounding = (16,), Rounding(16, narrow=False)
    random = np.random.default_rng(0)
    sides, edges = random.integers(1, 90, (4000, 2)).tolist(), random.integers(16, 60, (4000, 2)).tolist()
    assert any(min(side) == edge[0] and side[1] < side[0] for side, edge in zip(sides, edges, strict=True))
    for (height, width), edge in zip(sides, edges, strict=True):
        short, long = sorted(edge)
        expected = theirs((height, width), short, long, *arguments)
        assert resized(height, width, Bounded(short, long, rounding)) == expected


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (30, 42), (61, 18)])
@pytest.mark.parametrize("count", [1, 9, 30])
def test_nearest_values_are_those_of_pytorch(count, size):
    values = torch.arange(count, dtype=torch.float32)
    for side in size:
        theirs = torch.nn.functional.interpolate(values[None, None], side, mode="nearest")[0, 0]
        assert np.array_equal(nearest(count, side), theirs.numpy())


def test_rules_of_a_small_image():
    """Two queries share an image; the second is too faint, or too much of it is covered."""
    classes = np.array([[5.0, 0, 0], [0, 3, 0], [0, 0, 9]], np.float32)
    masks = np.full((3, 4, 4), -9.0, np.float32)
    masks[0, :2], masks[1, 1:], masks[2] = 9, 9, 9
    first, second = panoptic(classes, masks, 4, 4, Rules(0.5, 0.5, 0.5))
    assert (first.label, second.label) == (0, 1)
    assert first.mask.sum() == second.mask.sum() == 8
    assert len(panoptic(classes, masks, 4, 4, Rules(0.95, 0.5, 0.5))) == 1
    assert len(panoptic(classes, masks, 4, 4, Rules(0.5, 0.5, 0.7))) == 1
    assert panoptic(classes, masks, 4, 4, Rules(0.999, 0.5, 0.5)) == []
    first, second = instances(classes, masks, 4, 4, Rules(0.5, 0.5, 0.5))
    assert (first.mask.sum(), second.mask.sum()) == (4, 12)
    scores = label_scores(classes, masks)
    assert scores.shape == (2, 4, 4)
    assert (scores.argmax(axis=0)[:, 0] == [0, 0, 1, 1]).all()


def test_an_unknown_kind_and_shares_beyond_1_are_refused(segmenter, photographs, tmp_path):
    with pytest.raises(InputError, match="segments by panoptic, instance, semantic"):
        segmenter.model.segment(photographs[0], kind="objects")
    with pytest.raises(InputError, match="from 0 to below 1"):
        segmenter.model.segment(photographs[0], overlap_mask_area_threshold=1.5)
    tiny_checkpoint.save(tmp_path / "in", "segformer")
    transformers.SegformerImageProcessorPil().save_pretrained(tmp_path / "in")
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu")
    with pytest.raises(InputError, match="this model segments by semantic"):
        model.segment(photographs[0], kind="instance")
    plain, named = (model.segment(photographs[0], **kind) for kind in ({}, {"kind": "semantic"}))
    assert [one["label"] for one in plain] == [one["label"] for one in named]
