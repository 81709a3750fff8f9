"""Llama 3.2 Vision: names of published files, settings that cannot be, and what its specs refuse."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny_checkpoint
from safetensors.numpy import load_file, save_file

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import DYNAMIC, ECOSYSTEM, STATIC
from txexport.errors import CheckpointError, SpecError, UnsupportedError
from txexport.exporter import export
from txexport.parts import parameters, signatures
from txexport.spec import DecoderSpec, EncoderSpec, NormPlacement, NormSpec, RotarySpec
from txexport.verification import verify


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mllama")
    tiny_checkpoint.save(folder, "mllama")
    return folder


@pytest.fixture(scope="module")
def spec(checkpoint):
    return families.resolve(Checkpoint(checkpoint)).spec


@pytest.fixture
def changed(checkpoint, tmp_path):
    """A function from changes of config.json, by part, to a checkpoint's folder."""

    def change(part=None, **values):
        config = json.loads((checkpoint / "config.json").read_text())
        (config if part is None else config[part]).update(values)
        folder = tmp_path / "in"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        for file in ("model.safetensors", "tokenizer.json"):
            (folder / file).write_bytes((checkpoint / file).read_bytes())
        return folder

    return change


def numbers_of(folder):
    checkpoint = Checkpoint(folder)
    weights = families.resolve(checkpoint).weights
    return {name: np.concatenate([*weight.rows(checkpoint)]) for name, weight in weights.items()}


def test_names_of_files_of_other_versions_are_read(checkpoint, changed):
    """The tiny files have the published names; the modules of newer versions of the library have others."""
    folder, tensors = changed(), load_file(checkpoint / "model.safetensors")
    assert "language_model.model.layers.1.cross_attn_attn_gate" in tensors
    renamed = {
        f"model.{name.replace('language_model.model.', 'language_model.')}": tensor
        for name, tensor in tensors.items()
    }
    renamed["lm_head.weight"] = renamed.pop("model.language_model.lm_head.weight")
    save_file(renamed, folder / "model.safetensors")
    expected = numbers_of(checkpoint)
    assert expected.keys() == parameters(families.resolve(Checkpoint(folder)).spec).keys()
    for name, number in numbers_of(folder).items():
        np.testing.assert_array_equal(number, expected[name], err_msg=name)


def test_a_head_is_never_tied(changed, tmp_path):
    """transformers reads the stored one, whatever config.json says."""
    folder = changed(tie_word_embeddings=True)
    export(folder, tmp_path / "out", only="native")
    assert verify(tmp_path / "out", cases="quick", reference="transformers").ok


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("text_config", {"cross_attention_layers": []}, r"are \[\] of 4 layers, expected some of them"),
        ("text_config", {"cross_attention_layers": [0, 1, 2, 3]}, "of 4 layers, expected some of them"),
        ("text_config", {"head_dim": 6}, "head_dim=6 is not supported; expected 8"),
        ("vision_config", {"vision_output_dim": 60}, "vision_output_dim=60 is not supported; expected 90"),
        (
            "vision_config",
            {"supported_aspect_ratios": [[1, 1], [1, 2]]},
            "fewer than the 8 of images of up to 4 tiles",
        ),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_named(part, values, message, changed):
    with pytest.raises(UnsupportedError, match=message):
        families.resolve(Checkpoint(changed(part, **values)))


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("text_config", {"cross_attention_layers": [4]}, "expected numbers from 0 to 3"),
        ("text_config", {"cross_attention_layers": "all"}, "expected numbers from 0 to 3"),
        ("vision_config", {"intermediate_layers_indices": [3]}, "expected numbers from 0 to 2"),
    ],
    ids=str,
)
def test_layers_that_are_not_there_are_named(part, values, message, changed):
    with pytest.raises(CheckpointError, match=message):
        families.resolve(Checkpoint(changed(part, **values)))


def test_other_clients_have_no_graphs(checkpoint, spec, tmp_path):
    assert signatures(spec, ECOSYSTEM) == {}
    with pytest.raises(UnsupportedError, match="none of which runs a decoder that attends to images"):
        export(checkpoint, tmp_path / "out", only="hub")


def test_names_of_inputs(spec):
    """Keys and values of images have the layer's number; a step changes none of them."""
    crossed = [f"past_key_values.{layer}.encoder.{kind}" for layer in (1, 3) for kind in ("key", "value")]
    past = [f"past_key_values.{layer}.{kind}" for layer in (0, 2) for kind in ("key", "value")]
    for contract in (STATIC, DYNAMIC):
        graphs = signatures(spec, contract)
        images, step = graphs["vision_encoder"], graphs["model"]
        assert [port.name for port in step.inputs][3:] == ["image_spans", *past, *crossed]
        assert [port.name for port in step.outputs] == ["logits", *(name.replace(*RENAMED) for name in past)]
        names = [port.name for port in images.outputs]
        assert names == ["image_features", *(name.replace(*RENAMED) for name in crossed)]
        assert images.outputs[1].shape == ["image_batch_size", 2, 20, 8]


RENAMED = ("past_key_values", "present")


def refusals(spec):
    """Specs that contradict themselves, each a function that makes one, and the message."""
    vision, decoder = spec.vision, spec.decoder
    text, image = decoder.blocks
    cross, two = image.attention.attention, replace(vision.embedding, tiles=2)
    return [
        (lambda: replace(image.attention, attention=replace(cross, causal=True)), "causal=True, rotary=None"),
        (lambda: replace(image.attention, attention=replace(cross, rotary=RotarySpec((1.0,)))), "rotary="),
        (lambda: replace(image.attention, vectors=0), "vectors is 0, expected more than 0"),
        (lambda: replace(image, gated=False), "and gates where it attends to images"),
        (lambda: replace(image, placement=NormPlacement.POST), "expected a plain layer"),
        (lambda: replace(text, gated=True, layer_scale=True), "gated=True with AttentionSpec"),
        (lambda: replace(vision.embedding, patch_size=5), "has no whole patches of 5"),
        (lambda: replace(vision.embedding, norm=NormSpec(7, 1e-5)), "the norm is 7 wide, a patch 30"),
        (lambda: replace(vision, middle_norm=NormSpec(7, 1e-5)), "the middle norm is 7 wide, a layer 30"),
        (lambda: replace(vision, read=(3,)), "expected numbers of the 3 before the middle norm"),
        (lambda: replace(vision, global_layers=0), "global_layers is 0"),
        (lambda: replace(vision, block=text), "30 wide, its blocks 48"),
        (lambda: replace(spec, decoder=replace(decoder, blocks=(text,))), "expected layers that attend"),
        (lambda: replace(spec, decoder=replace(decoder, blocks=(image,))), "and others with keys and values"),
        (lambda: replace(spec, vision=replace(vision, embedding=two)), "20 vectors"),
        (lambda: replace(spec, vocab_size=320), "320 tokens are scored and image_token_id is 311"),
        (lambda: replace(spec, image_token_id=319), "and no more than 319, which have embeddings"),
        (lambda: replace(spec, head=replace(spec.head, tied=True)), "tied=True, 311 tokens are scored"),
        (lambda: DecoderSpec(decoder, spec.head), "but there are none; expected a CrossVisionLanguageSpec"),
        (lambda: EncoderSpec(encoder=vision), "TiledStackSpec is of a CrossVisionLanguageSpec alone"),
        (lambda: EncoderSpec(encoder=decoder), "layers read layer_inputs, images, or keys and values"),
    ]


@pytest.mark.parametrize("number", range(21))
def test_specs_that_contradict_themselves(number, spec):
    every = refusals(spec)
    assert len(every) == 21
    make, message = every[number]
    with pytest.raises(SpecError, match=message):
        make()
