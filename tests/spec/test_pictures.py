"""Specs of encoders that read images among tokens: contradictions are refused, JSON gives the same spec."""

from dataclasses import replace

import pytest

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import SpecError
from txexport.spec import EncoderDecoderSpec, ModelSpec, NormSpec
from txexport.spec.serialization import from_dict, to_dict


@pytest.fixture(scope="module")
def spec(checkpoint_of) -> EncoderDecoderSpec:
    return families.resolve(Checkpoint(checkpoint_of("florence2"))).spec


def test_json_gives_the_same_spec(spec):
    assert from_dict(ModelSpec, to_dict(spec)) == spec
    assert spec.image_token_id == 310
    assert spec.pictures.grid(17, 8) == (3, 1)


def with_token(stack, token):
    return replace(stack, embedding=replace(stack.embedding, image_token_id=token))


def test_contradictions_are_refused(spec):
    for changes in ({"pictures": None}, {"encoder": with_token(spec.encoder, None)}):
        with pytest.raises(SpecError, match="expected both, over a decoder that generates, or neither"):
            replace(spec, **changes)
    with pytest.raises(SpecError, match="the decoder has an image_token_id; expected None"):
        replace(spec, decoder=with_token(spec.decoder, 5))
    with pytest.raises(SpecError, match="pictures are vectors of 7 numbers, expected 48"):
        replace(spec, pictures=replace(spec.pictures, norm=NormSpec(7, 1e-5)))
    with pytest.raises(SpecError, match="image_token_id is 311, expected 0 to 310"):
        with_token(spec.encoder, 311)
