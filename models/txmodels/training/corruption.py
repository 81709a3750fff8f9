"""Corrupted inputs to pretrain on: masked tokens, dropped spans, sentence pairs.

Ids are lists or tensors of one sequence or batch. Randomness comes from the generator passed in, so the
same seed makes the same examples.
"""

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from txexport.errors import InputError
from txmodels.training.objectives import IGNORED


def mask_words(
    input_ids: Tensor,
    mask_id: int,
    vocab_size: int,
    special: Collection[int],
    generator: torch.Generator,
    rate: float = 0.15,
) -> tuple[Tensor, Tensor]:
    """Masked language modelling (Devlin et al. 2019, 3.1): input_ids (B,S) -> corrupted ids and labels (B,S).

    A fraction `rate` of the tokens that are not `special` is predicted: 80% of these are replaced by
    `mask_id`, 10% by a random token, 10% are unchanged.
    """
    ordinary = ~torch.isin(input_ids, torch.tensor(list(special)))
    chosen = ordinary & (torch.rand(input_ids.shape, generator=generator) < rate)
    fate = torch.rand(input_ids.shape, generator=generator)
    random_tokens = torch.randint(vocab_size, input_ids.shape, generator=generator)
    corrupted = input_ids.where(~(chosen & (fate < 0.8)), mask_id)
    corrupted = corrupted.where(~(chosen & (fate >= 0.9)), random_tokens)
    return corrupted, input_ids.where(chosen, IGNORED)


def next_sentence_pair(
    documents: Sequence[Sequence[list[int]]], length: int, random: np.random.Generator
) -> tuple[list[int], list[int], int]:
    """A sentence pair of at most `length` tokens, and 0 if the second follows the first, else 1.

    `documents` are lists of sentences as ids: at least two documents of at least two sentences. Half of the
    pairs are consecutive; the others come from two documents (Devlin et al. 2019, 3.1 and A.2).
    """
    if len(documents) < 2 or min(map(len, documents)) < 2:
        counts = f"{len(documents)} of {min(map(len, documents), default=0)}"
        raise InputError(
            f"pairs of sentences need at least two documents of at least two sentences each, not {counts}"
        )
    at = int(random.integers(len(documents)))
    document = documents[at]
    cut = int(random.integers(1, len(document)))
    follows = random.random() < 0.5
    first = _backward(document[:cut], length // 2)
    rest = document[cut:]
    if not follows:
        other = documents[(at + int(random.integers(1, len(documents)))) % len(documents)]
        rest = other[int(random.integers(len(other))) :]
    second = [token for sentence in rest for token in sentence][: length - len(first)]
    return first, second, int(not follows)


def _backward(sentences: Sequence[list[int]], length: int) -> list[int]:
    """The last sentences that fit into `length` tokens; of a longer sentence, its last tokens."""
    taken: list[int] = []
    for sentence in reversed(sentences):
        if taken and len(taken) + len(sentence) > length:
            break
        taken = sentence + taken
    return taken[-length:]


def corrupt_spans(
    ids: Sequence[int],
    sentinels: Sequence[int],
    random: np.random.Generator,
    rate: float = 0.15,
    mean_length: float = 3.0,
) -> tuple[list[int], list[int]]:
    """Span corruption (Raffel et al. 2020, 3.1.4): token ids -> the encoder's input and the decoder's target.

    Spans of `mean_length` tokens on average, a fraction `rate` of all tokens, are each replaced by the next
    of `sentinels`. The target holds each sentinel followed by its span, and a final sentinel. Raises
    InputError for fewer than two tokens, or too few sentinels.
    """
    if len(ids) < 2:
        raise InputError(f"span corruption needs at least 2 tokens; got {len(ids)}")
    noise = min(max(round(len(ids) * rate), 1), len(ids) - 1)
    spans = min(max(round(noise / mean_length), 1), noise, len(ids) - noise)
    if spans >= len(sentinels):
        raise InputError(f"{spans} spans need {spans + 1} sentinels; got {len(sentinels)}")
    kept, lost = _split(len(ids) - noise, spans, random), _split(noise, spans, random)
    source: list[int] = []
    target: list[int] = []
    place = 0
    for sentinel, keep, lose in zip(sentinels, kept, lost, strict=False):
        source += [*ids[place : place + keep], sentinel]
        target += [sentinel, *ids[place + keep : place + keep + lose]]
        place += keep + lose
    return source, [*target, sentinels[spans]]


def _split(total: int, parts: int, random: np.random.Generator) -> list[int]:
    """Split `total` into `parts` of at least 1, uniformly at random."""
    cuts = np.sort(random.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff([0, *cuts, total]).tolist()
