"""Checkpoints of images among texts as published: keys left out, factors that do not fit; opset 17."""

import json
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import tiny_checkpoint
import torch
from helpers.pictured_families import PACKED
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForImageTextToText

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, SpecError, UnsupportedError
from txexport.exporter import export
from txexport.families import blip
from txexport.spec import Mutual, NormSpec, PatchMergerSpec
from txexport.verification import verify

FAMILIES = (
    "qwen3_vl_moe",
    "llava",
    "idefics3",
    "internvl",
    "gemma3",
    "paligemma",
    "llava_next",
    "llava_onevision",
    *PACKED,
)
FAMILIES += ("lfm2_vl", "mistral3", "mllama")


@pytest.fixture
def saved(tmp_path):
    """A function from a family to a checkpoint with changes, without the keys `less` of config.json."""

    def get(model_type: str, less: tuple[str, ...] = (), **config):
        folder = tmp_path / "checkpoint"
        tiny_checkpoint.save(folder, model_type, **config)
        file = folder / "config.json"
        values = json.loads(file.read_text())
        file.write_text(json.dumps({key: value for key, value in values.items() if key not in less}))
        return folder

    return get


@pytest.mark.parametrize("stated", [True, None])
@pytest.mark.parametrize(
    "model_type", ["llava", "internvl", "gemma3", "paligemma", "lfm2_vl", "mistral3", *PACKED]
)
def test_a_stored_head_is_read_whatever_config_json_says(model_type, stated, saved, tmp_path):
    """As transformers does, which warns where config.json ties it to other numbers."""
    folder = saved(model_type, ("tie_word_embeddings",), tie_word_embeddings=False)
    if stated:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"tie_word_embeddings": True}))
    assert not families.resolve(Checkpoint(folder)).spec.head.tied
    export(folder, tmp_path / "out", only="native")
    assert verify(tmp_path / "out", cases="quick", reference="transformers").ok


@pytest.mark.parametrize("model_type", ["internvl", "gemma3", "paligemma", "mistral3"])
def test_without_a_stored_head_it_is_tied(model_type, saved):
    folder = saved(model_type, ("tie_word_embeddings",), tie_word_embeddings=True)
    assert families.resolve(Checkpoint(folder)).spec.head.tied


@pytest.mark.parametrize("stated", [(False, True), (None, True), (True, False)], ids=str)
@pytest.mark.parametrize("model_type", [*FAMILIES, "smolvlm"])
def test_what_ties_a_head_that_is_not_stored_is_the_librarys_rule(model_type, stated, saved):
    """config.json, text_config: a class that ties nothing fills the head at random, and export refuses."""
    folder = saved(model_type)
    tensors = load_file(folder / "model.safetensors")
    stored = {name: tensor for name, tensor in tensors.items() if "lm_head." not in name}
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    values = json.loads((folder / "config.json").read_text())
    for settings, flag in zip((values, values["text_config"]), stated, strict=True):
        settings.pop("tie_word_embeddings", None)
        settings |= {} if flag is None else {"tie_word_embeddings": flag}
    (folder / "config.json").write_text(json.dumps(values))
    original = AutoModelForImageTextToText.from_pretrained(folder)
    head, table = original.get_output_embeddings(), original.get_input_embeddings()
    if head.weight.shape == table.weight.shape and torch.equal(head.weight, table.weight):
        assert families.resolve(Checkpoint(folder)).spec.head.tied
    else:
        with pytest.raises(CheckpointError, match=r"missing: .*lm_head\.weight"):
            families.resolve(Checkpoint(folder))


# Experts, tiles, patches of any number, and images beside the layers; the others are of the same parts.
SPELLED = ("qwen3_vl_moe", "llava_next", "lfm2_vl", "mllama")


@pytest.mark.parametrize(
    "model_type",
    [pytest.param(name, marks=[] if name in SPELLED else [pytest.mark.slow]) for name in FAMILIES],
)
def test_opset_17_runs(model_type, saved, tmp_path):
    """Also the graphs for other clients, in which padded tiles have no vectors."""
    manifest = export(saved(model_type), tmp_path / "out", opset=17)
    assert bool(manifest.hub) == (model_type not in ("gemma3", "qwen3_vl", "qwen3_vl_moe", "mllama"))
    assert verify(tmp_path / "out", cases="quick").ok


def test_experts_are_read_as_published_and_as_saved(saved):
    """Published tensors of all experts are (experts,in,out); transformers 5 saves (experts,out,in)."""
    folder = saved("qwen3_vl_moe")
    ours = numbers_of(folder)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    experts = [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]
    assert len(experts) == 4
    published = {name: np.ascontiguousarray(tensors[name].transpose(0, 2, 1)) for name in experts}
    save_file(tensors | published, file)
    for name, number in numbers_of(folder).items():
        np.testing.assert_array_equal(number, ours[name], err_msg=name)


def numbers_of(folder):
    checkpoint = Checkpoint(folder)
    weights = families.resolve(checkpoint).weights
    return {name: np.concatenate([*weight.rows(checkpoint)]) for name, weight in weights.items()}


def test_positions_that_would_grow_are_told(saved):
    """InternVL 3 is published so. The image encoder has no rotary positions."""
    scaled = {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}}
    folder = saved("internvl", text_config=scaled)
    most = json.loads((folder / "config.json").read_text())["text_config"]["max_position_embeddings"]
    assert families.resolve(Checkpoint(folder)).promised == {"dynamic": 2 * most}


@pytest.mark.parametrize(
    ("model_type", "key", "value", "side"),
    [("idefics3", "scale_factor", 3, 3), ("internvl", "downsample_ratio", 0.125, 8)],
)
def test_squares_that_do_not_fill_an_image_are_named(model_type, key, value, side, saved):
    file = saved(model_type) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    message = rf"config\.json: {key} is {value}, and squares of {side} x {side} patches do not fill"
    with pytest.raises(UnsupportedError, match=message):
        families.resolve(Checkpoint(file.parent))


@pytest.mark.parametrize("model_type", PACKED[:2])
def test_a_decoder_at_the_root_is_read(model_type, saved, tmp_path):
    """As published files have it; a bundle's config.json has both forms, for transformers.js."""
    folder = saved(model_type)
    nested = families.resolve(Checkpoint(folder)).spec
    file = folder / "config.json"
    values = json.loads(file.read_text())
    text = values.pop("text_config")
    rope = text.pop("rope_parameters")
    text |= {"rope_theta": rope["rope_theta"]}
    text |= {"rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]}}
    file.write_text(json.dumps(text | values))
    assert families.resolve(Checkpoint(folder)).spec == nested
    export(folder, tmp_path / "out")
    assert verify(tmp_path / "out", cases="quick").ok
    written = json.loads((tmp_path / "out/config.json").read_text())
    for sizes in (written, written["text_config"]):
        assert (sizes["num_hidden_layers"], sizes["num_key_value_heads"]) == (2, 2)


def test_names_of_tensors_of_other_versions_are_read(saved):
    folder = saved("qwen2_5_vl")
    spec = families.resolve(Checkpoint(folder)).spec
    tensors = load_file(folder / "model.safetensors")
    renamed = {
        f"model.language_model.{name.removeprefix('model.')}"
        if name.startswith("model.")
        else name.replace("visual.", "model.visual."): value
        for name, value in tensors.items()
    }
    save_file(renamed, folder / "model.safetensors")
    assert families.resolve(Checkpoint(folder)).spec == spec


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen3_5"])
def test_a_position_is_at_most_the_number_of_tokens_before_it(model_type, saved, tmp_path):
    """transformers.js passes larger ones after a prompt without images. Smaller ones are used."""
    export(saved(model_type), tmp_path / "out", only="hub")
    session = onnxruntime.InferenceSession(tmp_path / "out/onnx/decoder_model_merged.onnx")
    noise, mask = np.random.default_rng(0), np.array([[1] * 7, [0, 0, *[1] * 5]])
    feeds: dict = {"attention_mask": mask}
    for port in session.get_inputs():
        if port.name.startswith("past") or port.name == "inputs_embeds":
            free = {0: 2, 1: 3} if port.name == "inputs_embeds" else {0: 2, 2: 4}
            shape = [free[at] if isinstance(size, str) else size for at, size in enumerate(port.shape)]
            feeds[port.name] = noise.standard_normal(shape, np.float32)
    right = np.array([[4, 5, 6], [2, 3, 4]])[None].repeat(3, 0)

    def logits(positions: np.ndarray) -> np.ndarray:
        return session.run(["logits"], {**feeds, "position_ids": positions})[0]

    np.testing.assert_array_equal(logits(right + 20), logits(right))
    assert np.abs(logits(right - 1) - logits(right)).max() > 1e-3


@pytest.mark.parametrize(
    ("model_type", "changes", "message"),
    [
        (
            "qwen2_vl",
            {"text_config": {"mrope_section": [1, 1]}},
            "expected sizes of three sections",
        ),
        ("qwen2_vl", {"text_config": {"mrope_section": [2, 2]}}, "that add up to 4"),
        ("qwen3_vl", {"text_config": {"mrope_section": [2, 2]}}, "mrope_section is .*, expected three sizes"),
        ("qwen2_5_vl", {"vision_config": {"window_size": 4}}, "windows of 0 squares of patches"),
        ("qwen3_vl", {"vision_config": {"num_position_embeddings": 24}}, "is 24, expected a square"),
        ("qwen3_vl", {"vision_config": {"deepstack_visual_indexes": 3}}, "expected a list"),
    ],
)
def test_settings_of_packed_patches_that_cannot_be(model_type, changes, message, saved):
    file = saved(model_type) / "config.json"
    values = json.loads(file.read_text())
    for part, settings in changes.items():
        rope = values[part].get("rope_parameters", {}) if "mrope_section" in settings else values[part]
        rope |= settings
    file.write_text(json.dumps(values))
    with pytest.raises(UnsupportedError, match=message):
        families.resolve(Checkpoint(file.parent))


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        (
            "lfm2_vl",
            {"connector": {"grid": (2, 2)}},
            r"on the grid \(2, 2\) .*, expected 60 of 2 by 2 without a grid and 48",
        ),
        ("lfm2_vl", {"connector": {"size": 40}}, "and gives 40, expected"),
        ("lfm2_vl", {"mutual": Mutual.IMAGE}, "expected 1, without tiles or mutual attention"),
        ("mistral3", {"connector": {"merged": 2}}, "a connector of 2 by 2 neighbours with 0 vectors"),
        (
            "mistral3",
            {"merger": PatchMergerSpec(40, 2, NormSpec(40, 1e-5))},
            "the merger reads 40 numbers, expected 60",
        ),
        (
            "lfm2_vl",
            {"merger": PatchMergerSpec(60, 2, NormSpec(60, 1e-5))},
            "a merger is for images of any size",
        ),
    ],
    ids=str,
)
def test_patches_of_any_shape_that_cannot_be_are_refused(family, changes, message, saved):
    spec = families.resolve(Checkpoint(saved(family))).spec
    changed = {
        name: replace(getattr(spec, name), **value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    with pytest.raises(SpecError, match=message):
        replace(spec, **changed)


def test_ids_of_captions_that_are_null_are_the_usual_ones():
    expected = {"decoder_start_token_id": 30522, "eos_token_id": 102, "pad_token_id": 0}
    nulls = {"bos_token_id": None, "sep_token_id": None, "pad_token_id": None}
    assert blip.generation_settings({"text_config": nulls}) == expected
    assert blip.generation_settings({}) == expected
