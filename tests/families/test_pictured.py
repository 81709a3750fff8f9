"""Checkpoints of images among texts as published: keys left out, factors that do not fit; opset 17."""

import json

import pytest
import tiny_checkpoint

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import UnsupportedError
from txexport.exporter import export
from txexport.families import blip
from txexport.verification import verify

FAMILIES = ("llava", "idefics3", "internvl", "gemma3", "paligemma", "llava_next", "llava_onevision")


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
@pytest.mark.parametrize("model_type", ["llava", "internvl", "gemma3", "paligemma"])
def test_a_stored_head_is_read_whatever_config_json_says(model_type, stated, saved, tmp_path):
    """As transformers does, which warns where config.json ties it to other numbers."""
    folder = saved(model_type, ("tie_word_embeddings",), tie_word_embeddings=False)
    if stated:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"tie_word_embeddings": True}))
    assert not families.resolve(Checkpoint(folder)).spec.head.tied
    export(folder, tmp_path / "out", only="native")
    assert verify(tmp_path / "out", cases="quick", reference="transformers").ok


@pytest.mark.parametrize("model_type", ["internvl", "gemma3", "paligemma"])
def test_without_a_stored_head_it_is_tied(model_type, saved):
    folder = saved(model_type, ("tie_word_embeddings",), tie_word_embeddings=True)
    assert families.resolve(Checkpoint(folder)).spec.head.tied


@pytest.mark.parametrize("model_type", FAMILIES)
def test_opset_17_runs(model_type, saved, tmp_path):
    """Also the graphs for other clients, in which padded tiles have no vectors."""
    manifest = export(saved(model_type), tmp_path / "out", opset=17)
    assert bool(manifest.hub) == (model_type != "gemma3")
    assert verify(tmp_path / "out", cases="quick").ok


def test_positions_that_would_grow_are_told(saved):
    """InternVL 3 is published so; the first stack is that of images, which has none."""
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


def test_ids_of_captions_that_are_null_are_the_usual_ones():
    expected = {"decoder_start_token_id": 30522, "eos_token_id": 102, "pad_token_id": 0}
    nulls = {"bos_token_id": None, "sep_token_id": None, "pad_token_id": None}
    assert blip.generation_settings({"text_config": nulls}) == expected
    assert blip.generation_settings({}) == expected
