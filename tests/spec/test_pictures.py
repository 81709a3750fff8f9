"""Specs of encoders that read images among tokens: contradictions are refused, JSON gives the same spec."""

from dataclasses import replace

import pytest
from helpers.row import CONVERSE, Row

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


@pytest.fixture(scope="module")
def questions(checkpoint_of) -> EncoderDecoderSpec:
    row = Row("blip", "BlipForQuestionAnswering", CONVERSE)
    return families.resolve(Checkpoint(checkpoint_of(row))).spec


def test_json_gives_the_same_spec_of_questions(questions):
    assert from_dict(ModelSpec, to_dict(questions)) == questions
    assert list(questions.stacks) == ["vision", "encoder", "decoder"]


def test_contradictions_of_questions_are_refused(questions):
    with pytest.raises(SpecError, match="an encoder has nothing to cross-attend to"):
        replace(questions, vision=None)
    block = questions.encoder.blocks[0]
    plain = replace(questions.encoder, blocks=(replace(block, cross_attention=None),))
    with pytest.raises(SpecError, match="causal=False and 0 blocks with cross attention; expected patches"):
        replace(questions, encoder=plain)
    for changes in ({"unmasked": False}, {"source_size": 36}):
        cross = replace(block.cross_attention, **changes)
        other = replace(questions.encoder, blocks=(replace(block, cross_attention=cross),))
        with pytest.raises(SpecError, match=r"the encoder attends to vectors of .*, expected 48 and True"):
            replace(questions, encoder=other)
    with pytest.raises(SpecError, match="a decoder's attention must be causal"):
        replace(questions, decoder=questions.encoder)


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
