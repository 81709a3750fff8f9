"""Ministral 3 and Mistral 4: the positions at which queries grow, and what a missing value means."""

import json

import pytest
import tiny_checkpoint

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import TxexportError
from txexport.families import resolve
from txexport.spec import QueryGrowthSpec


@pytest.fixture(params=["ministral3", "mistral4"])
def folder(request, tmp_path):
    tiny_checkpoint.save(tmp_path, request.param)
    return tmp_path


def changed(folder, **values):
    """The attention of the first layer with other values in config.json."""
    file = folder / "config.json"
    settings = json.loads(file.read_text()) | values
    file.write_text(json.dumps({key: value for key, value in settings.items() if value != "missing"}))
    return resolve(Checkpoint(folder)).spec.decoder.blocks[0].attention


def test_growth_is_read_from_the_settings_of_rope(folder):
    rope = json.loads((folder / "config.json").read_text())["rope_parameters"]
    assert changed(folder).rotary.growth == QueryGrowthSpec(0.4, 8)
    other = rope | {"llama_4_scaling_beta": 0.2, "original_max_position_embeddings": 5}
    assert changed(folder, rope_parameters=other).rotary.growth == QueryGrowthSpec(0.2, 5)


def test_without_settings_of_rope_queries_grow_as_published(folder):
    family = json.loads((folder / "config.json").read_text())["model_type"]
    length = {"ministral3": 16384, "mistral4": 8192}[family]
    assert changed(folder, rope_parameters="missing").rotary.growth == QueryGrowthSpec(0.1, length)


def test_queries_that_grow_by_nothing_do_not_grow(folder):
    """As Mistral-Medium-3.5's config.json says."""
    rope = json.loads((folder / "config.json").read_text())["rope_parameters"]
    assert changed(folder, rope_parameters=rope | {"llama_4_scaling_beta": 0}).rotary.growth is None


@pytest.mark.parametrize("key", ["llama_4_scaling_beta", "original_max_position_embeddings"])
def test_a_number_that_the_original_needs_is_missing(folder, key):
    rope = json.loads((folder / "config.json").read_text())["rope_parameters"]
    with pytest.raises(TxexportError, match=f"'{key}' is missing"):
        changed(folder, rope_parameters={name: one for name, one in rope.items() if name != key})
