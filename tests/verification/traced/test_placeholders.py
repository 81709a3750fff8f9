"""Texts beside images: tokens in the images' place, and the inputs that a class lacks."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
import transformers
from helpers import traced_checkpoints
from helpers.traced_checkpoints import copy_of, tiny
from onnx import TensorProto, helper
from tiny_configs import tiny_config

import txexport
from txexport import bundle
from txexport.errors import UnsupportedError
from txexport.verification.traced import cases, decoders, free_axes, inputs, placeholders, reasons
from txexport.verification.traced.originals import Original

pytestmark = pytest.mark.xdist_group("traced")
IMAGE = 60  # the token in an image's place


@pytest.fixture(scope="session")
def describer(tmp_path_factory):
    """A checkpoint of texts beside images, one layer for each, and its traced bundle."""
    folder = tmp_path_factory.mktemp("placeholders")
    config = tiny_config("aya_vision")
    config.image_token_id = IMAGE
    config.vision_config.num_hidden_layers = config.text_config.num_hidden_layers = 1
    config.text_config.layer_types = ["full_attention"]
    torch.manual_seed(0)
    model = transformers.AyaVisionModel(config)
    source = traced_checkpoints.save(model, folder / "model")
    return source, txexport.export_traced(source, folder / "out"), folder / "out"


@pytest.fixture
def judge(tmp_path):
    model = tiny("aya_vision", "AyaVisionModel")
    model.config.image_token_id = IMAGE
    return Original(tmp_path, model)


def test_answers_as_transformers_for_other_images_and_texts(describer):
    source, manifest, out = describer
    assert {"batch_size", "sequence_length"} <= {*manifest.varied}
    model = txexport.load_traced(out, device="cpu")
    original = transformers.AutoModel.from_pretrained(source)
    chance = np.random.default_rng(0)
    for rows, tokens in ((1, 9), (3, 40)):
        ids = chance.integers(5, 50, (rows, tokens))
        ids[:, 2:6] = IMAGE
        values = {
            "input_ids": ids,
            "pixel_values": chance.standard_normal((rows, 3, 32, 32), dtype=np.float32),
            "attention_mask": np.ones_like(ids),
        }
        with torch.no_grad():
            expected = original(**{name: torch.from_numpy(one) for name, one in values.items()})
        np.testing.assert_allclose(
            model(**values)["last_hidden_state"], expected.last_hidden_state.numpy(), atol=5e-6
        )


@pytest.mark.slow
def test_is_verified_and_a_graph_without_the_image_is_not(describer, tmp_path):
    source, _, out = describer
    assert txexport.verify(out, cases="quick").verdict == "equal"
    folder = copy_of(out, tmp_path / "wrong")
    path = folder / "onnx/model.onnx"
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        node.input[:] = ["dark" if name == "pixel_values" else name for name in node.input]
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])
    model.graph.initializer.append(zero)
    model.graph.node.insert(0, helper.make_node("Mul", ["pixel_values", "zero"], ["dark"]))
    onnx.save(model, path)
    manifest = bundle.read_traced(folder)
    graph = replace(manifest.graph, sha256=bundle.files_sha256(folder)["onnx/model.onnx"])
    replace(manifest, graph=graph).write(folder / "txexport.json")
    report = txexport.verify(folder, source=source, cases="quick")
    assert {"sizes of the trace", cases.RAGGED, cases.LEFT} <= {case.name for case in report.failed}


def test_a_row_has_as_many_tokens_as_its_image_has_vectors(judge):
    layout, sizes = free_axes.accepted_layout(judge)
    assert placeholders.counts(judge, layout, sizes) == {IMAGE: 4}
    assert sizes[inputs.SEQUENCE] == cases.BASE[inputs.SEQUENCE] + 4
    for seed in range(9):
        values = placeholders.filled(judge, layout, sizes | {inputs.BATCH: 9}, seed, True)
        assert ((values["input_ids"] == IMAGE).sum(1) == 4).all()
        assert (values["attention_mask"][values["input_ids"] == IMAGE] == 1).all()
        assert len({*values["attention_mask"].sum(1)}) > 1


def test_more_images_have_more_tokens(tmp_path):
    judge = Original(tmp_path, tiny("idefics2", "Idefics2Model"))
    layout, sizes = free_axes.accepted_layout(judge)
    [(_, number)] = placeholders.counts(judge, layout, sizes).items()
    each, over = divmod(number, sizes[inputs.FRAMES])
    assert each > 0
    assert over == 0
    fewer = placeholders.resized(judge, layout, sizes, {inputs.FRAMES: 3})
    assert fewer[inputs.SEQUENCE] == cases.BASE[inputs.SEQUENCE] + 3 * each


def test_a_short_text_has_no_room_for_an_image(judge):
    layout, sizes = free_axes.accepted_layout(judge)
    with pytest.raises(ValueError, match="5 tokens, of which 4 stand for images or sounds"):
        placeholders.filled(judge, layout, sizes | {inputs.SEQUENCE: 5}, 0, False)


def test_a_class_of_texts_and_images_is_no_decoder(tmp_path):
    """A step over a cache would leave its images out."""
    model = tiny("got_ocr2", "GotOcr2ForConditionalGeneration")
    assert not decoders.is_decoder(Original(tmp_path, model))


def test_an_input_without_which_the_class_fails_is_added(tmp_path):
    judge = Original(tmp_path, tiny("audioflamingo3_encoder", "AudioFlamingo3Encoder"))
    assert judge.inputs == ["input_features"]
    layout, _ = free_axes.accepted_layout(judge)
    assert list(layout) == ["input_features", "input_features_mask"]


REFUSALS = {
    "refused: Non-zero status code returned while running Reshape node. Name:'node_view' Message: /x.h:9": (
        "ONNX Runtime fails in its Reshape"
    ),
    "Load model from the graph failed:Node (n) Op (Squeeze) [ShapeInferenceError] Dimension is 7": (
        "ONNX Runtime does not take its Squeeze: Dimension is 7"
    ),
    "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).": (
        "a shape or a branch depends on values that the model computes"
    ),
    "No ONNX function found for <OpOverload(op='aten.unsqueeze', overload='default')>.": (
        "no ONNX operator is known for aten.unsqueeze"
    ),
    "sizes differ": "sizes differ",
}


@pytest.mark.parametrize(("text", "plain_text"), REFUSALS.items())
def test_errors_of_libraries_are_told_in_words(text, plain_text):
    assert reasons.plain(text) == plain_text


@pytest.mark.parametrize(
    ("kind", "architecture", "reason"),
    [
        ("glm4v", "Glm4vModel", "it needs 'image_grid_thw', which cannot be filled"),
        ("glm4v_vision", "Glm4vVisionModel", "reads 'grid_thw', which cannot be traced"),
        ("minicpm_ocr_vision", "MiniCPMOcrVisionModel", "it needs 'target_sizes', which cannot be filled"),
        ("sam3_video", "Sam3VideoModel", "reads 'inference_session', which cannot be traced"),
    ],
)
def test_a_refusal_names_the_input_that_is_missing(kind, architecture, reason, tmp_path):
    judge = Original(tmp_path, tiny(kind, architecture))
    with pytest.raises(UnsupportedError, match=reason):
        free_axes.accepted_layout(judge)
