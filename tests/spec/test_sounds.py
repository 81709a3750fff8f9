"""Specs of decoders that read sounds: what contradicts itself is refused, and JSON gives the same spec."""

from dataclasses import replace

import pytest

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import SpecError
from txexport.spec import EncoderSpec, ModelSpec, Mutual, VisionLanguageSpec
from txexport.spec.serialization import from_dict, to_dict


@pytest.fixture(scope="module")
def spec(checkpoint_of) -> VisionLanguageSpec:
    return families.resolve(Checkpoint(checkpoint_of("qwen2_audio"))).spec


def test_json_gives_the_same_spec(spec):
    assert from_dict(ModelSpec, to_dict(spec)) == spec
    assert spec.sounds
    assert spec.any_size


def test_contradictions_are_refused(spec):
    connector = spec.connector
    for changes in (
        {"tiled": True},
        {"mutual": Mutual.IMAGE},
        {"connector": replace(connector, size=7)},
        {"connector": replace(connector, grid=(5, 10), consecutive=1)},
        {"connector": replace(connector, consecutive=3)},
    ):
        with pytest.raises(SpecError, match="VisionLanguageSpec: sounds of 50 vectors, positions on"):
            replace(spec, **changes)
    with pytest.raises(SpecError, match="image_token_id is 400"):
        replace(spec, image_token_id=400)
    with pytest.raises(SpecError, match="a masked LogMelSpec is read by a VisionLanguageSpec alone"):
        EncoderSpec(spec.vision)
