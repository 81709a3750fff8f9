"""Answers as spans of a context, which is read in windows; S tokens of a window.

The question-answering pipeline of transformers 4, after Chen et al. 2017 (Reading Wikipedia to Answer
Open-Domain Questions, 3.2): a span's score is the probability that it starts where it does times that it ends
where it does.
"""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from tokenizers import Encoding

from txexport.contracts.names import END_LOGITS, START_LOGITS
from txexport.errors import InputError, shown
from txexport.runtime.batches import BATCH_TOKENS, longest_text, run, text_limit
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.tasks.labels import softmax
from txexport.runtime.tasks.text_tasks import as_pairs
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress

WINDOW, OVERLAP = 384, 128  # tokens; what models were trained with
HIDDEN = np.float32(-10000)


class Answer(TypedDict):
    """A span of the context: how likely, its first and past last character, its text."""

    score: float
    start: int
    end: int
    answer: str


def answer(
    bundle: LoadedBundle,
    question: str | Sequence[str],
    context: str | Sequence[str],
    *,
    top_k: int = 1,
    max_answer_len: int = 15,
    max_seq_len: int | None = None,
    doc_stride: int | None = None,
    align_to_words: bool = True,
    handle_impossible_answer: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Answer] | list[list[Answer]]:
    """The `top_k` likeliest answers within a context; for several questions or contexts, of each pair.

    An answer has at most `max_answer_len` tokens, widened to whole words unless `align_to_words` is
    false. Question and context longer than `max_seq_len` tokens (384 or the model's limit) are read in
    windows whose contexts share `doc_stride` tokens (half, at most 128). Scores of one text found twice
    are added. `handle_impossible_answer` lets "" stand for no answer. Raises InputError for a question or
    context without text, and for a question that leaves no room for its context.
    """
    check_task(bundle, "answer")
    check_count("top_k", top_k)
    check_count("max_answer_len", max_answer_len)
    check_flag("align_to_words", align_to_words)
    check_flag("handle_impossible_answer", handle_impossible_answer)
    pairs = as_pairs(question, context)
    empty = next((pair for pair in pairs if not all(text.strip() for text in pair)), None)
    if empty is not None:
        raise InputError(f"a question or its context is empty: {shown(empty)}; expected text in both")
    encodings = _windows(bundle, pairs, max_seq_len, doc_stride)
    windows = [(i, window) for i, first in enumerate(encodings) for window in (first, *first.overflowing)]
    owners, parts = [i for i, _ in windows], [window for _, window in windows]
    # Several spans may lie in the same words, so that fewer are left than were found.
    count = 2 * top_k + 10 if align_to_words else top_k
    spans: list[tuple[list[Answer], float]] = [([], 0.0)] * len(windows)
    for places, outputs, _ in run(bundle, parts, batch_tokens, progress, owners):
        for place, start, end in zip(places, outputs[START_LOGITS], outputs[END_LOGITS], strict=True):
            i, window = windows[place]
            logits = start[: len(window)], end[: len(window)]
            spans[place] = _spans(pairs[i][1], window, *logits, count, max_answer_len, align_to_words)
    results: list[list[Answer]] = []
    left = iter(spans)
    for first in encodings:
        own = [next(left) for _ in (first, *first.overflowing)]
        answers = _merged([one for part, _ in own for one in part])
        if handle_impossible_answer:
            answers.append({"score": min(none for _, none in own), "start": 0, "end": 0, "answer": ""})
        results.append(sorted(answers, key=lambda one: -one["score"])[:top_k])
    return results[0] if isinstance(question, str) and isinstance(context, str) else results


def _windows(
    bundle: LoadedBundle, pairs: Sequence[Item], max_seq_len: int | None, doc_stride: int | None
) -> list[Encoding]:
    """The first window of each question and context, with those after it in its `overflowing`."""
    limit = text_limit(bundle.manifest)
    if max_seq_len is not None:
        check_count("max_seq_len", max_seq_len)
    size = min(longest_text(bundle) or WINDOW, WINDOW) if max_seq_len is None else max_seq_len
    if size > (limit or size):
        raise InputError(f"max_seq_len is {shown(size)}, the model reads at most {limit} tokens")
    overlap = min(size // 2, OVERLAP) if doc_stride is None else doc_stride
    return bundle.files.text.windows(pairs, size, overlap, "only_second")


def _spans(
    context: str,
    window: Encoding,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    count: int,
    longest: int,
    whole_words: bool,
) -> tuple[list[Answer], float]:
    """The `count` likeliest answers of a window by its logits (S), and how likely it is that it has none."""
    inside = np.array([part == 1 for part in window.sequence_ids])  # (S)
    seen = inside.copy()
    seen[0] |= window.special_tokens_mask[0] == 1  # where models point that see no answer
    starts = softmax(np.where(seen, start_logits, HIDDEN))  # (S)
    ends = softmax(np.where(seen, end_logits, HIDDEN))
    apart = np.arange(len(inside)) - np.arange(len(inside))[:, None]  # (S, S)
    first, last = np.nonzero(inside[:, None] & inside & (apart >= 0) & (apart < longest))
    scores = starts[first] * ends[last]
    answers: list[Answer] = []
    for i in np.argsort(-scores, kind="stable")[:count].tolist():
        start, end = _characters(window, int(first[i]), int(last[i]), whole_words)
        answers.append({"score": float(scores[i]), "start": start, "end": end, "answer": context[start:end]})
    return answers, float(starts[0] * ends[0])


def _characters(window: Encoding, first: int, last: int, whole_words: bool) -> tuple[int, int]:
    """First and past last character of tokens, or of the words that they are in where there are words."""
    start_word, end_word = window.token_to_word(first), window.token_to_word(last)
    if whole_words and start_word is not None and end_word is not None:
        start, end = window.word_to_chars(start_word, 1), window.word_to_chars(end_word, 1)
        if start is not None and end is not None:
            return start[0], end[1]
    return window.offsets[first][0], window.offsets[last][1]


def _merged(answers: Sequence[Answer]) -> list[Answer]:
    """Each text once, whatever its case, where it was found first and with the sum of its scores."""
    kept: dict[str, Answer] = {}
    for one in answers:
        same = kept.setdefault(one["answer"].lower(), one)
        if same is not one:
            same["score"] += one["score"]
    return list(kept.values())
