"""Entities from token labels; S tokens, K labels.

Tokens become entities as in transformers' token-classification pipeline. "none" keeps every token separate.
"simple" joins neighbours of one kind: I-X continues B-X or I-X, B-X starts a new entity. The others first
give all tokens of a word one label: that of its first token, of its likeliest one, or of their average.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
from tokenizers import Encoding

from txexport.contracts import roles
from txexport.contracts.names import LOGITS
from txexport.errors import InputError, shown
from txexport.runtime.batches import BATCH_TOKENS, CUT, encode, longest_text, run
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.text import Text, as_texts
from txexport.runtime.tasks.labels import names, softmax
from txexport.support.arguments import check_count
from txexport.support.progress import Progress

STRIDE = 16  # tokens that windows share, as error messages advise
AGGREGATIONS = ("simple", "first", "average", "max", "none")


class Entity(TypedDict):
    """A span of text: label, score, its tokens as a string, first character, position after its last."""

    label: str
    score: float
    word: str
    start: int
    end: int


class Token(NamedTuple):
    """A token of the text, its probabilities (K) and characters; `inner` if it continues a word."""

    word: str
    scores: np.ndarray
    start: int
    end: int
    inner: bool


def _in_windows(limit: int | None) -> str:
    """The advice to read a text in windows, with an overlap that fits into `limit` tokens."""
    overlap = STRIDE if limit is None else min(STRIDE, max(0, limit // 2 - 2))
    return f"read it in windows with stride={overlap} (--stride {overlap})"


def tag(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    *,
    aggregation: str = "simple",
    ignore: Collection[str] = ("O",),
    stride: int | None = None,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Entity] | list[list[Entity]]:
    """The entities of a text in their order, without those whose label is in `ignore`.

    `aggregation` is "simple", "first", "average", "max" or "none", as in transformers' pipeline. With
    `stride`, a text longer than the model allows is read in windows that overlap by that many tokens; of
    overlapping entities the longest is kept.
    """
    check_task(bundle, "tag")
    if not isinstance(aggregation, str) or aggregation not in AGGREGATIONS:
        raise InputError(f"aggregation {shown(aggregation)} is not known; expected {', '.join(AGGREGATIONS)}")
    if isinstance(ignore, bytes) or not isinstance(ignore, Collection):
        raise InputError(f"ignore is {shown(ignore)}, expected labels")
    if stride is not None:
        check_count("stride", stride, 0)
    rows, limit = as_texts(texts), longest_text(bundle)
    if stride is None or limit is None:
        encodings = encode(bundle, rows, truncate, advice=f"{CUT}, or {_in_windows(limit)}")
    else:
        encodings = bundle.files.text.windows(rows, limit, stride)
    windows = [(i, window) for i, first in enumerate(encodings) for window in (first, *first.overflowing)]
    owners, parts = [i for i, _ in windows], [window for _, window in windows]
    labels = names(bundle.files.config, bundle.sessions[roles.MODEL].width(LOGITS))
    by_window: list[list[Entity]] = [[] for _ in windows]
    for indices, outputs, _ in run(bundle, parts, batch_tokens, progress, owners):
        for place, logits in zip(indices, outputs[LOGITS], strict=True):
            i, window = windows[place]
            tokens = list(_tokens(bundle.files.text, rows[i], window, softmax(logits)))
            by_window[place] = _entities(bundle.files.text, tokens, labels, aggregation)
    results: list[list[Entity]] = [[] for _ in rows]
    for (i, _), entities in zip(windows, by_window, strict=True):
        results[i] += [entity for entity in entities if entity["label"] not in ignore]
    results = [
        _longest(result) if first.overflowing else result
        for result, first in zip(results, encodings, strict=True)
    ]
    return results[0] if isinstance(texts, str) else results


def _tokens(text: Text, sentence: str, encoding: Encoding, scores: np.ndarray) -> Iterator[Token]:
    """The tokens of `sentence` that are not special; `scores` (S,K) are their probabilities."""
    unknown = text.special("unk_token")
    marked = getattr(text.tokenizer.model, "continuing_subword_prefix", None)
    parts = zip(encoding.ids, encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True)
    for i, (token, word, (start, end), special) in enumerate(parts):
        if special:
            continue
        inner = start > 0 and " " not in sentence[start - 1 : start + 1]
        if marked:  # as WordPiece does with ##, which the text does not have
            inner = len(word) != end - start
        if unknown is not None and token == unknown[1]:
            word, inner = sentence[start:end], False
        yield Token(word, scores[i], start, end, inner)


def _entities(text: Text, tokens: list[Token], labels: list[str], aggregation: str) -> list[Entity]:
    """The entities of one window, whatever their labels."""
    if aggregation in ("none", "simple"):
        parts = [_labelled([token], token.scores, token.word, labels) for token in tokens]
        return parts if aggregation == "none" else _grouped(text, parts)
    words: list[list[Token]] = []
    for token in tokens:
        if token.inner and words:
            words[-1].append(token)
        else:
            words.append([token])
    parts = []
    for word in words:
        if aggregation == "average":
            scores = np.mean([token.scores for token in word], axis=0)
        else:
            scores = (word[0] if aggregation == "first" else max(word, key=lambda t: t.scores.max())).scores
        parts.append(_labelled(word, scores, text.join([token.word for token in word]), labels))
    return _grouped(text, parts)


def _labelled(tokens: list[Token], scores: np.ndarray, word: str, labels: list[str]) -> Entity:
    best = int(scores.argmax())
    return {
        "label": labels[best],
        "score": float(scores[best]),
        "word": word,
        "start": tokens[0].start,
        "end": tokens[-1].end,
    }


def _grouped(text: Text, parts: list[Entity]) -> list[Entity]:
    """Neighbours of one kind merged: the mean of their scores, the label without B- and I-."""
    groups: list[list[Entity]] = []
    for part in parts:
        if groups and not part["label"].startswith("B-") and _kind(part) == _kind(groups[-1][-1]):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [
        {
            "label": group[0]["label"].split("-", 1)[-1],
            "score": float(np.mean([part["score"] for part in group])),
            "word": text.join([part["word"] for part in group]),
            "start": group[0]["start"],
            "end": group[-1]["end"],
        }
        for group in groups
    ]


def _kind(part: Entity) -> str:
    label = part["label"]
    return label[2:] if label.startswith(("B-", "I-")) else label


def _longest(entities: list[Entity]) -> list[Entity]:
    """Of overlapping entities, which windows return twice, the longest, or the likelier if equally long."""
    longest: list[Entity] = []
    for entity in sorted(entities, key=lambda entity: entity["start"]):
        if not longest or entity["start"] >= longest[-1]["end"]:
            longest.append(entity)
        elif _size(entity) > _size(longest[-1]):
            longest[-1] = entity
    return longest


def _size(entity: Entity) -> tuple[int, float]:
    return entity["end"] - entity["start"], entity["score"]
