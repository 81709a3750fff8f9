"""Cases of encoders: padded batches of texts, or batches of signals."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from txexport.parts.cases import DecoderCase, DualEncoderCase, EncoderCase, GreedyCase, encoder_cases
from txexport.parts.inputs import input_of
from txexport.parts.part import SignalCase, Skipped, View
from txexport.spec import HeadSpec, Pick, StackSpec, TextStackSpec

Case = SignalCase | EncoderCase | DualEncoderCase | DecoderCase | GreedyCase | Skipped


@dataclass(frozen=True)
class Texts:
    """The padding id and the mark, the id that ends each row, that an original model requires.

    `alone` is True if a row's vector is the same without padding. Each row is read once, or several times as
    `choices`.
    """

    pad_token_id: int | None
    mark: int | None
    alone: bool = True
    choices: bool = False


def padded_cases(encoder: StackSpec, head: HeadSpec, view: View, texts: Texts) -> Iterator[Case]:
    """The cases of an encoder that reads its whole input at once."""
    if not isinstance(encoder, TextStackSpec):
        for case in input_of(encoder).cases(encoder, head.least):
            scattered = case.mask is not None and (np.diff(case.mask, axis=1) > 0).any()
            if scattered and head.counts_vectors:
                reason = "the original counts the vectors of a row, and so takes its padding to be at the end"
                yield Skipped(case.name, reason)
            else:
                yield case
        return
    embedding = encoder.embedding
    for batch in encoder_cases(
        embedding.vocab_size,
        encoder.token_types,
        view.longest(encoder),
        texts.pad_token_id,
        embedding.dropped,
        texts.mark,
        texts.alone,
        masks=view.masks,
    ):
        if head.pick == Pick.LAST_UNMASKED and not batch.alone:
            causal = "without an id of padding the original reads one row at a time"
            others = "the original reads the last place of a row, padding or not"
            yield Skipped(batch.name, causal if encoder.causal else others)
        else:
            yield replace(batch, choices=texts.choices)
