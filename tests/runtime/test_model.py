"""Model's methods against the functions that they call: what one reads there is what happens."""

from inspect import signature

import pytest

from txexport.runtime import Model
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.tasks import (
    attention,
    audio_tasks,
    feature_extraction,
    image_tasks,
    image_to_text,
    late_interaction,
    question_answering,
    scoring,
    speech_recognition,
    streaming,
    text_generation,
    text_tasks,
    token_classification,
)

FUNCTIONS = [
    LoadedBundle.run,
    attention.attention,
    audio_tasks.classify_audio,
    feature_extraction.embed,
    image_tasks.classify_image,
    image_tasks.embed_image,
    image_tasks.match,
    image_to_text.image_to_text,
    late_interaction.embed_tokens,
    question_answering.answer,
    scoring.score,
    speech_recognition.transcribe,
    streaming.stream,
    streaming.stream_many,
    text_generation.generate_ids,
    text_generation.generate_with_scores,
    text_tasks.choose,
    text_tasks.classify,
    text_tasks.fill_mask,
    text_tasks.next_sentence,
    text_tasks.rerank,
    text_tasks.zero_shot,
    token_classification.tag,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_method_takes_what_its_function_takes(function):
    """Names, order, types and defaults: another default would be said to a caller and never be used."""
    _, *said = signature(getattr(Model, function.__name__)).parameters.values()
    _, *taken = signature(function).parameters.values()
    assert said == taken


def test_every_public_method_says_what_it_does():
    public = [value for name, value in vars(Model).items() if not name.startswith("_")]
    assert all(value.__doc__ for value in public)
