"""Hybrid decoders as their checkpoints are published: other layouts, ties and limits; what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import tiny_checkpoint
import transformers

from txexport import bundle, export, families, load, verify
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import TxexportError

PROMPTS = [[5, 6, 7, 8, 9], [11, 12]]
GREEDY = {"max_new_tokens": 6, "do_sample": False}


def resolved(folder: Path) -> families.Resolved:
    return families.resolve(Checkpoint(folder), "text-generation")


def changed(folder: Path, part: str | None = None, **settings) -> Path:
    """The checkpoint with other settings in config.json, or in a part of it; None removes one."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    table = config if part is None else config[part]
    table |= settings
    for name in [name for name, value in settings.items() if value is None]:
        del table[name]
    file.write_text(json.dumps(config))
    return folder


def same_answers(folder: Path, out: Path) -> None:
    """Compare greedy tokens with those of transformers."""
    export(folder, out, only="native")
    original = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = load(out, device="cpu").generate_ids(PROMPTS, eos_token_id=None, **GREEDY)
    for prompt, ours in zip(PROMPTS, tokens, strict=True):
        [row] = original.generate(
            transformers.BatchEncoding({"input_ids": [prompt]}, tensor_type="pt")["input_ids"],
            eos_token_id=None,
            **GREEDY,
        ).tolist()
        assert ours == row[len(prompt) :]


def numbers(folder: Path) -> dict[str, np.ndarray]:
    """The parameters by name."""
    checkpoint = Checkpoint(folder)
    weights = resolved(folder).weights
    return {name: np.concatenate([*weight.rows(checkpoint)]) for name, weight in weights.items()}


def fuse(folder: Path) -> None:
    """Write the experts of each layer as two tensors: down_proj, and gate_proj above up_proj."""
    file = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    pattern = re.compile(r"(.*\.mlp\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")
    experts: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for name in [*tensors]:
        if match := pattern.fullmatch(name):
            prefix, number, kind = match.groups()
            experts.setdefault(prefix, {}).setdefault(int(number), {})[kind] = tensors.pop(name)
    assert experts
    for prefix, ones in experts.items():
        each = [ones[number] for number in sorted(ones)]
        tensors[f"{prefix}.gate_up_proj"] = np.stack([np.concatenate([e["gate"], e["up"]]) for e in each])
        tensors[f"{prefix}.down_proj"] = np.stack([one["down"] for one in each])
    safetensors.numpy.save_file(tensors, file, {"format": "pt"})


@pytest.mark.parametrize(
    "family", ["qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next", "qwen3_moe", "qwen2_moe"]
)
def test_experts_that_share_tensors(family, tmp_path):
    """Qwen3.5's are published so; transformers 5 reads both layouts."""
    tiny_checkpoint.save(tmp_path / "in", family)
    before = numbers(tmp_path / "in")
    fuse(tmp_path / "in")
    after = numbers(tmp_path / "in")
    assert before.keys() == after.keys()
    for name, number in before.items():
        np.testing.assert_array_equal(after[name], number, err_msg=name)
    same_answers(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
@pytest.mark.parametrize(("outer", "inner"), [(True, None), (None, True), (True, True), (False, True)])
def test_heads_that_are_tied_within_or_without(family, outer, inner, tmp_path):
    """Without a stored head; with one it is read, whatever config.json says."""
    tiny_checkpoint.save(tmp_path, family)
    changed(tmp_path, tie_word_embeddings=outer)
    changed(tmp_path, "text_config", tie_word_embeddings=inner)
    assert not resolved(tmp_path).spec.head.tied
    file = tmp_path / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    del tensors["lm_head.weight"]
    safetensors.numpy.save_file(tensors, file, {"format": "pt"})
    assert resolved(tmp_path).spec.head.tied


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
def test_a_text_model_alone_is_one_for_other_clients(family, tmp_path):
    """For a class that reads images, transformers.js opens other graphs, and passes 3D positions."""
    tiny_checkpoint.save(tmp_path / "in", family)
    export(tmp_path / "in", tmp_path / "out", task="text-generation", only="hub")
    config = json.loads((tmp_path / "out/config.json").read_text())
    published = json.loads((tmp_path / "in/config.json").read_text())
    assert config["model_type"] == f"{family}_text"
    assert [name.removesuffix("ForCausalLM") for name in config["architectures"]] == [
        name.removesuffix("ForConditionalGeneration") for name in published["architectures"]
    ]
    assert config["layer_types"] == published["text_config"]["layer_types"]
    assert not {"vision_config", "text_config"} & config.keys()
    [graph] = bundle.read(tmp_path / "out").hub.values()
    assert "position_ids" not in {port.name for port in graph.inputs}
    report = verify(
        tmp_path / "out", cases=["three ragged rows, left padding", "three ragged rows in chunks"]
    )
    assert report.ok
    assert {case.reference for case in report.cases} == {"transformers"}


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
def test_a_checkpoint_without_its_image_encoder_is_exported_as_a_text_model(family, tmp_path):
    """Fine-tunes of the text are saved so, with the config.json of the whole model."""
    tiny_checkpoint.save(tmp_path / "in", family)
    file = tmp_path / "in/model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    text = {name: tensor for name, tensor in tensors.items() if "visual." not in name}
    safetensors.numpy.save_file(text, file, {"format": "pt"})
    with pytest.raises(TxexportError, match=r"has no tensors \(visual\.\*\); --task text-generation exports"):
        export(tmp_path / "in", tmp_path / "out")
    export(tmp_path / "in", tmp_path / "out", task="text-generation", only="native")
    assert verify(tmp_path / "out", cases=["three ragged rows in chunks"]).ok


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40, "rope_theta": 1e4}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}


@pytest.mark.parametrize("family", ["qwen3_next", "qwen3_5_text", "lfm2", "qwen3"])
def test_scaled_positions_have_the_limit_of_other_families(family, tmp_path):
    tiny_checkpoint.save(tmp_path, family, max_position_embeddings=40)
    settings = json.loads((tmp_path / "config.json").read_text())["rope_parameters"]
    assert resolved(changed(tmp_path, rope_parameters=settings | YARN)).spec.decoder.limit == 160
    dynamic = resolved(changed(tmp_path, rope_parameters=settings | DYNAMIC))
    assert (dynamic.spec.decoder.limit, dynamic.promised) == (40, {"dynamic": 160})


REFUSED = {
    "lfm2": ({"layer_types": ["conv"] * 4}, "no layer has attention"),
    "bamba": ({"attn_layer_indices": 9}, "'attn_layer_indices' is 9, expected list"),
    "granitemoehybrid": (
        {"layer_types": ["mamba"]},
        r"\['mamba'\] is not supported; expected mamba or",
    ),
    "gemma4_text": (
        {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
        "rope_parameters has no rope_theta of sliding_attention, expected a number",
    ),
    "jamba": (
        {"attn_layer_offset": 9},
        "'attn_layer_offset' is 9, expected 0 or more and less than 'attn_layer_period', which is 3",
    ),
    "olmo_hybrid": ({"hidden_act": "gelu"}, "hidden_act is not silu, which a delta rule needs"),
    "qwen3_next": ({"layer_types": ["conv"] * 4}, "expected linear_attention or full_attention for each of"),
}


@pytest.mark.parametrize(
    ("family", "settings", "message"), [(k, *v) for k, v in REFUSED.items()], ids=REFUSED
)
def test_settings_that_are_refused(family, settings, message, tmp_path):
    tiny_checkpoint.save(tmp_path, family)
    with pytest.raises(TxexportError, match=message) as caught:
        resolved(changed(tmp_path, **settings))
    assert str(tmp_path / "config.json") in str(caught.value)
