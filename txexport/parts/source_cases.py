"""Seeded test cases of a decoder behind an encoder: sources of every kind, and the decoder's steps."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from txexport.contracts.names import PIXEL_VALUES
from txexport.parts.cases import (
    LONGEST,
    DecoderCase,
    GreedyCase,
    decoder_cases,
    generation_cases,
    padded_sources,
    tokens_for_experts,
)
from txexport.parts.inputs import input_of
from txexport.parts.part import Skipped, View
from txexport.parts.pictured_sources import pictured_sources
from txexport.spec import EncoderDecoderSpec, ModelSpec

SOUND = 40  # vectors of the longest sound of a case, where the model has no limit
SourceCase = DecoderCase | GreedyCase | Skipped


def source_cases(spec: EncoderDecoderSpec, view: View) -> Iterator[SourceCase]:
    """Sources with the decoder's steps after each, and sources to answer; images where these are read."""
    yield from with_images(spec, _cases(spec, view))


def _cases(spec: EncoderDecoderSpec, view: View) -> Iterator[SourceCase]:
    source, vocab_size = spec.encoder, spec.vocab_size
    if input_of(source).reads_tokens:
        longest = view.longest(source)
    else:
        longest = min(source.limit or SOUND, LONGEST) if spec.masked else 0
    yield from decoder_cases(
        vocab_size,
        view.longest(spec.decoder),
        ragged=view.static,
        left=False,
        experts=tokens_for_experts(spec.decoder),
        source=source,
        source_longest=longest,
    )
    if spec.masked:
        yield padded_sources(spec)
    yield from pictured_sources(spec)
    yield from generation_cases(vocab_size, spec.decoder, source)
    if view.static:
        yield Skipped("left padding", "a static cache pads on the right")
    else:
        yield Skipped("ragged decoder rows", "the dynamic encoder-decoder contract has no decoder mask")


def with_images(spec: ModelSpec, cases: Iterable[SourceCase], seed: int = 0) -> Iterator[SourceCase]:
    """The cases as they are, or with an image for each source where its encoder attends to one.

    The last two of three rows or more have one together.
    """
    random = np.random.default_rng(seed)
    for case in cases:
        if not isinstance(spec, EncoderDecoderSpec) or spec.vision is None or isinstance(case, Skipped):
            yield case
            continue
        pixels = input_of(spec.vision).rows(spec.vision, random, [0] * len(case.rows))
        images = [[{PIXEL_VALUES: np.asarray(one)[None]}] for one in pixels]
        yield replace(case, images=images if len(images) < 3 else [*images[:-1], images[-2]])
