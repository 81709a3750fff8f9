"""Images of another size than config.json's: positions are transformers' interpolated ones."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers.often import often
from helpers.row import CLASSIFY, LABEL, LABELS, MATCH, SEE, Row
from PIL import Image
from torch.nn.functional import interpolate

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.image_size import ANY_SIZE, Resized, bicubic
from txexport.cli.main import main
from txexport.errors import InputError, UnsupportedError
from txexport.exporter import export, quantize
from txexport.families import resolve
from txexport.spec import (
    ConvNextSpec,
    HGNetLevelsSpec,
    MaskedMapsSpec,
    PatchGridSpec,
    PatchSpec,
    ResNetLevelsSpec,
    ResNetMapsSpec,
    ResNetSpec,
    VisionLanguageSpec,
    WindowedMapsSpec,
)
from txexport.verification import verify

EPS = np.finfo(np.float32).eps
OF_MAPS = (
    ConvNextSpec
    | HGNetLevelsSpec
    | MaskedMapsSpec
    | PatchGridSpec
    | ResNetLevelsSpec
    | ResNetMapsSpec
    | ResNetSpec
    | WindowedMapsSpec
)
VIT = Row("vit", "ViTForImageClassification", LABEL, "5 labels", LABELS)
ROWS = [
    VIT,
    Row("deit", "DeiTModel", SEE),
    Row("clip", "CLIPModel", MATCH),
    Row("siglip_vision_model", "SiglipVisionModel", SEE),
]
OTHERS = [
    Row("chinese_clip", "ChineseCLIPModel", MATCH),
    Row("siglip", "SiglipModel", MATCH),
    Row("clip_vision_model", "CLIPVisionModel", SEE),
    Row("clip", "CLIPForImageClassification", LABEL, "5 labels", LABELS),
    Row("siglip", "SiglipForImageClassification", LABEL, "5 labels", LABELS),
    Row("deit", "DeiTForImageClassificationWithTeacher", LABEL, "5 labels", LABELS),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [((14, 14), (24, 24)), ((14, 14), (16, 20)), ((16, 16), (7, 9)), ((37, 37), (16, 16)), ((1, 1), (3, 2))],
)
def test_positions_are_pytorchs(old, new):
    """In float64 but for the last rounding; in float32 within the error of PyTorch's interpolation."""
    table = np.random.default_rng(3).normal(size=(*old, 32)).astype(np.float32)
    places = torch.from_numpy(table).permute(2, 0, 1)[None]
    exact, theirs = (
        interpolate(one, size=new, mode="bicubic", align_corners=False)[0].permute(1, 2, 0).numpy()
        for one in (places.double(), places)
    )
    found = bicubic(table, new)
    largest = np.abs(table).max()
    assert found.dtype == np.float32
    assert (np.abs(found - exact) <= np.spacing(np.abs(found)) / 2 + 1e-13 * largest).all()
    # A coordinate has an error of some bits of a length of `old`, and a weight 1.5 times that: four of them a
    # direction, and both directions. Then some bits of four times four terms.
    off = 2 * EPS * max(old) * 4 * 1.5 * 2 + 16 * EPS
    assert (np.abs(found - theirs) <= off * largest).all()
    assert np.array_equal(bicubic(table, old), table)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_equals_transformers_that_interpolates(row, checkpoint_of, tmp_path):
    manifest = export(checkpoint_of(row), tmp_path / "out", task=row.task, image_size=50)
    assert manifest.form.image_size == [50, 50]
    shapes = {
        tuple(port.shape[2:])
        for graph in manifest.every_graph
        for port in graph.inputs
        if "pixel" in port.name
    }
    assert shapes == {(50, 50)}
    report = verify(tmp_path / "out")
    assert [(case.name, case.exception, case.worst) for case in report.cases if not case.ok] == []
    assert report.references == ["checkpoint", "twin", "transformers"]


@pytest.mark.slow
@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.id)
def test_others_equal_transformers_that_interpolates(row, checkpoint_of, tmp_path):
    export(checkpoint_of(row), tmp_path / "out", task=row.task, image_size=22)
    assert verify(tmp_path / "out").ok


def test_height_and_width_may_differ(checkpoint_of, tmp_path):
    export(checkpoint_of("vit"), tmp_path / "out", image_size=(20, 41))
    assert verify(tmp_path / "out").ok
    assert json.loads((tmp_path / "out/config.json").read_text())["image_size"] == [20, 41]


@pytest.mark.parametrize("model_type", ["vit", "siglip_vision_model"])
def test_other_number_formats_hold_the_same_positions(model_type, checkpoint_of, tmp_path):
    """Also one added later; an original of rounded weights has the new size."""
    export(checkpoint_of(model_type), tmp_path / "out", image_size=42, only="native")
    assert quantize(tmp_path / "out", "float16").form.image_size == [42, 42]
    assert verify(tmp_path / "out", cases="quick").ok


def test_the_size_of_config_json_changes_no_number(checkpoint_of, bundle_of, tmp_path):
    export(checkpoint_of("vit"), tmp_path / "out", image_size=30)
    for name in ("onnx/model.onnx", "onnx/model.onnx_data", "onnx/model_native.onnx"):
        assert (tmp_path / "out" / name).read_bytes() == (bundle_of("vit") / name).read_bytes(), name


CROP = {"height": 224, "width": 224}
PROCESSORS = [
    ("vit", "ViTImageProcessor", {"size": CROP}, {"size": 384}),
    ("vit", "ViTFeatureExtractor", {"size": 224}, {"size": 384}),
    (
        "clip",
        "CLIPImageProcessor",
        {"size": {"shortest_edge": 224}, "crop_size": CROP},
        {"edge": 384, "crop": 384},
    ),
    ("clip", "CLIPFeatureExtractor", {"size": 224, "crop_size": 224}, {"edge": 384, "crop": 384}),
    ("clip", "CLIPImageProcessor", {}, {"edge": 384, "crop": 384}),
    ("deit", "DeiTImageProcessor", {"size": {"height": 256, "width": 256}}, {"size": 439, "crop": 384}),
    ("siglip", "SiglipImageProcessor", {"size": CROP}, {"size": 384}),
    (
        "dinov2",
        "BitImageProcessor",
        {"size": {"shortest_edge": 256}, "crop_size": CROP},
        {"edge": 439, "crop": 384},
    ),
    ("convnext", "ConvNextImageProcessor", {"size": {"shortest_edge": 224}}, {"edge": 384}),
]
PICTURE = np.random.default_rng(0).integers(0, 256, (500, 700, 3)).astype(np.uint8)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("model_type", "name", "settings", "expected"), PROCESSORS)
def test_images_are_prepared_for_the_size(
    model_type, name, settings, expected, together, checkpoint_of, tmp_path
):
    source = tmp_path / "source"
    shutil.copytree(checkpoint_of(model_type), source)
    settings = settings | {"image_processor_type": name}
    file = source / ("processor_config.json" if together else "preprocessor_config.json")
    file.write_text(json.dumps({"image_processor": settings} if together else settings))
    export(source, tmp_path / "out", image_size=384, only="hub")
    written = json.loads((tmp_path / "out" / file.name).read_text())
    written = written["image_processor"] if together else written
    square = {key: {"height": side, "width": side} for key, side in expected.items() if key != "edge"}
    assert written["size"] == square.get("size", {"shortest_edge": expected.get("edge")})
    assert written.get("crop_size") == (square["crop"] if "crop" in expected else None)
    assert written["image_processor_type"] == name


def test_a_picture_is_classified_as_the_original_does_at_that_size(checkpoint_of, tmp_path):
    """From the file to the labels, compared with the processor and the model of transformers."""
    source = tmp_path / "source"
    shutil.copytree(checkpoint_of(VIT), source)
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 30, "width": 30}}
    (source / "preprocessor_config.json").write_text(json.dumps(settings))
    export(source, tmp_path / "out", image_size=50)
    Image.fromarray(PICTURE).save(tmp_path / "picture.png")
    found = txexport.load(tmp_path / "out", device="cpu").classify_image(tmp_path / "picture.png")
    model = transformers.AutoModelForImageClassification.from_pretrained(source).eval()
    processor = transformers.ViTImageProcessorPil(size={"height": 50, "width": 50})
    pixels = processor(Image.fromarray(PICTURE), return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        shares = model(pixels, interpolate_pos_encoding=True).logits.softmax(-1)[0]
    assert {one["label"]: one["score"] for one in found} == pytest.approx(
        {model.config.id2label[i]: shares[i].item() for i in range(5)}, abs=1e-6
    )


def test_a_processor_of_squares_makes_no_oblong(checkpoint_of, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(checkpoint_of("convnext"), source)
    settings = {"image_processor_type": "ConvNextImageProcessor"}
    (source / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(UnsupportedError, match=r"image_size is \(20, 30\), but this image processor makes"):
        export(source, tmp_path / "out", image_size=(20, 30))


@pytest.mark.parametrize(
    "model_type",
    often(ANY_SIZE, slower={*ANY_SIZE} - {"dinov2", "segformer", "detr", "swin"}),
)
def test_what_takes_any_size_keeps_its_graphs(model_type, checkpoint_of, bundle_of, tmp_path):
    manifest = export(checkpoint_of(model_type), tmp_path / "out", image_size=44)
    for graph in manifest.every_graph:
        assert (tmp_path / "out" / graph.file).read_bytes() == (
            bundle_of(model_type) / graph.file
        ).read_bytes()
    assert verify(tmp_path / "out", cases="quick").ok


def test_families_of_any_size_are_those_whose_graphs_take_it(checkpoint_of):
    names = []
    for name in families.names():
        tasks = families.module(name).TASKS
        if any("image" in task or task.endswith(("object-detection", "depth-estimation")) for task in tasks):
            spec = resolve(Checkpoint(checkpoint_of(name))).spec
            if isinstance(spec, VisionLanguageSpec):
                continue  # an image in a prompt has the size that its processor gives it
            for stack in spec.stacks.values():
                patches = stack.embedding
                maps = isinstance(patches, OF_MAPS)
                if maps or (isinstance(patches, PatchSpec) and patches.any_size):
                    names.append(name)
    assert sorted(names) == sorted(ANY_SIZE)


def test_sizes_that_are_none_are_refused(checkpoint_of, tmp_path):
    def refused(model_type, size, kind, message):
        with pytest.raises(kind, match=message):
            export(checkpoint_of(model_type), tmp_path / "out", image_size=size)

    refused(
        "bert",
        30,
        UnsupportedError,
        "image_size is for models of images of one size, which .* is not; leave it out",
    )
    for model_type in ("mistral3", "lfm2_vl", "qwen2_vl", "siglip2", "mllama"):
        refused(model_type, 30, UnsupportedError, "models of images of one size")
    for model_type in ("layoutlmv3", "blip"):
        refused(model_type, 30, UnsupportedError, f"for {model_type}, whose images have one size")
    refused("vit", 1, InputError, "expected at least the patch size")
    refused("vit", (1, 2, 3), InputError, "pixels high and wide")
    refused("vit", 0, InputError, "pixels high and wide")
    refused("clip", (20, 30), UnsupportedError, "config has one number")
    oblong = Row("vit", "ViTModel", CLASSIFY, "oblong", {"image_size": [18, 31]})
    refused(oblong, 30, UnsupportedError, "no position embeddings of a square image")


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        (
            "vit.embeddings.patch_embeddings.projection.weight",
            (),
            "is for models of images of one size",
        ),
        (
            "vit.embeddings.patch_embeddings.projection.weight",
            (48, 3, 0, 0),
            "is for models of images of one size",
        ),
        ("vit.embeddings.position_embeddings", (26,), "no position embeddings of a square image"),
        ("vit.embeddings.position_embeddings", (1, 0, 48), "no position embeddings of a square image"),
    ],
)
def test_damaged_tensors_are_told(name, shape, message, checkpoint_of):
    checkpoint = Checkpoint(checkpoint_of(VIT))
    assert name in checkpoint.tensors
    checkpoint.tensors[name] = dataclasses.replace(checkpoint.tensors[name], shape=shape)
    with pytest.raises(UnsupportedError, match=message):
        Resized(checkpoint, (50, 50))


def test_the_command_takes_one_side_or_two(checkpoint_of, tmp_path):
    def run(size):
        command = ["export", str(checkpoint_of("vit")), str(tmp_path / size), "--image-size", size]
        return CliRunner().invoke(main, [*command, "--only", "hub"])

    for size, sides in (("20x41", [20, 41]), ("42", [42, 42])):
        assert run(size).exit_code == 0
        assert json.loads((tmp_path / size / "txexport.json").read_text())["form"]["image_size"] == sides
    for size in ("large", "1x2x3", "20x", "-5"):
        result = run(size)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "expected pixels, such as 384, or height and width, such as 384x512" in result.stderr
