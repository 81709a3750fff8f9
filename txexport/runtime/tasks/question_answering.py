"""Question answering: answers are spans of a context, which is read in windows; S tokens of a window.

The question-answering pipeline of transformers 4, after Chen et al. 2017 (Reading Wikipedia to Answer
Open-Domain Questions, 3.2): a span's score is the probability that it starts where it does times that it ends
where it does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np
from tokenizers import Encoding

from txexport.contracts.names import END_LOGITS, START_LOGITS
from txexport.errors import InputError, shown
from txexport.runtime.batches import BATCH_TOKENS, longest_text, run, text_limit
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.tasks.labels import softmax
from txexport.runtime.tasks.text_tasks import as_pairs
from txexport.support.arguments import check_count, check_flag, with_options
from txexport.support.progress import Progress

WINDOW, OVERLAP = 384, 128  # tokens, as in training
HIDDEN = np.float32(-10000)


class Answer(TypedDict):
    """A span of the context: its score, first character, the position after its last, and text."""

    score: float
    start: int
    end: int
    answer: str


class AnswerKeywords(TypedDict, total=False):
    """The keywords of `answer` that are AnswerOptions."""

    top_k: int
    max_answer_len: int
    max_seq_len: int | None
    doc_stride: int | None
    align_to_words: bool
    handle_impossible_answer: bool


@dataclass(frozen=True)
class AnswerOptions:
    """The options of `answer`, with their defaults. Raises InputError for a value out of range."""

    top_k: int = 1
    max_answer_len: int = 15
    max_seq_len: int | None = None
    doc_stride: int | None = None
    align_to_words: bool = True
    handle_impossible_answer: bool = False

    def __post_init__(self) -> None:
        check_count("top_k", self.top_k)
        check_count("max_answer_len", self.max_answer_len)
        check_flag("align_to_words", self.align_to_words)
        check_flag("handle_impossible_answer", self.handle_impossible_answer)
        if self.max_seq_len is not None:
            check_count("max_seq_len", self.max_seq_len)
        if self.doc_stride is not None:
            check_count("doc_stride", self.doc_stride, 0)


@with_options(AnswerOptions)
def answer(
    bundle: LoadedBundle,
    question: str | Sequence[str],
    context: str | Sequence[str],
    *,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
    **keywords: Unpack[AnswerKeywords],
) -> list[Answer] | list[list[Answer]]:
    """The `top_k` likeliest answers within a context; for several questions or contexts, of each pair.

    An answer has at most `max_answer_len` tokens, widened to whole words unless `align_to_words` is false.
    Question and context longer than `max_seq_len` tokens (384 or the model's limit) are read in windows whose
    contexts share `doc_stride` tokens (half, at most 128; half of what a long question leaves). The scores of
    equal answers are added. `handle_impossible_answer` allows the answer "", for none. Raises InputError for
    a question or context without text, and for a question that leaves no room for its context.
    """
    check_task(bundle, "answer")
    options = AnswerOptions(**keywords)
    pairs = as_pairs(question, context)
    empty = next((pair for pair in pairs if not all(text.strip() for text in pair)), None)
    if empty is not None:
        raise InputError(f"a question or its context is empty: {shown(empty)}; expected text in both")
    encodings = _windows(bundle, pairs, options)
    windows = [(i, window) for i, first in enumerate(encodings) for window in (first, *first.overflowing)]
    parts, owners = [window for _, window in windows], [i for i, _ in windows]
    spans: list[tuple[list[Answer], float]] = [([], 0.0)] * len(windows)
    for indices, outputs, _ in run(bundle, parts, batch_tokens, progress, owners):
        for index, start, end in zip(indices, outputs[START_LOGITS], outputs[END_LOGITS], strict=True):
            i, window = windows[index]
            logits = start[: len(window)], end[: len(window)]
            spans[index] = _spans(pairs[i][1], window, *logits, options)
    remaining = iter(spans)
    results = [_best([next(remaining) for _ in (one, *one.overflowing)], options) for one in encodings]
    return results[0] if isinstance(question, str) and isinstance(context, str) else results


def _best(windows: Sequence[tuple[list[Answer], float]], options: AnswerOptions) -> list[Answer]:
    """The likeliest answers of one context, from the answers and the no-answer scores of its windows."""
    answers = _merged([one for spans, _ in windows for one in spans])
    if options.handle_impossible_answer:
        answers.append({"score": min(none for _, none in windows), "start": 0, "end": 0, "answer": ""})
    return sorted(answers, key=lambda one: -one["score"])[: options.top_k]


def _windows(bundle: LoadedBundle, pairs: Sequence[Item], options: AnswerOptions) -> list[Encoding]:
    """The first window of each question and context, with those after it in its `overflowing`."""
    limit, size, overlap = text_limit(bundle.manifest), options.max_seq_len, options.doc_stride
    if size is None:
        size = min(longest_text(bundle) or WINDOW, WINDOW)
    if size > (limit or size):
        raise InputError(f"max_seq_len is {shown(size)}, the model reads at most {limit} tokens")
    default = min(size // 2, OVERLAP)
    return bundle.files.text.windows(
        pairs, size, default if overlap is None else overlap, "only_second", shrink_overlap=overlap is None
    )


def _spans(
    context: str,
    window: Encoding,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    options: AnswerOptions,
) -> tuple[list[Answer], float]:
    """The likeliest answers of a window by its logits (S), and its no-answer score.

    Several spans may widen to the same words, so more than `top_k` are returned.
    """
    count = 2 * options.top_k + 10 if options.align_to_words else options.top_k
    spans, none = likeliest_spans(window, start_logits, end_logits, count, options.max_answer_len)
    answers: list[Answer] = []
    for score, first, last in spans:
        start, end = _characters(window, first, last, options.align_to_words)
        answers.append({"score": score, "start": start, "end": end, "answer": context[start:end]})
    return answers, none


def likeliest_spans(
    window: Encoding, start_logits: np.ndarray, end_logits: np.ndarray, count: int, longest: int
) -> tuple[list[tuple[float, int, int]], float]:
    """The score, first and last token of `count` spans of the second text, and the no-answer score.

    Logits are (S); a span has at most `longest` tokens.
    """
    inside = np.array([part == 1 for part in window.sequence_ids])  # (S)
    seen = inside.copy()
    seen[0] |= window.special_tokens_mask[0] == 1  # to which models point for no answer
    starts = softmax(np.where(seen, start_logits, HIDDEN))  # (S)
    ends = softmax(np.where(seen, end_logits, HIDDEN))
    apart = np.arange(len(inside)) - np.arange(len(inside))[:, None]  # (S, S)
    first, last = np.nonzero(inside[:, None] & inside & (apart >= 0) & (apart < longest))
    scores = starts[first] * ends[last]
    best = np.argsort(-scores, kind="stable")[:count]
    rows = zip(scores[best].tolist(), first[best].tolist(), last[best].tolist(), strict=True)
    return list(rows), float(starts[0] * ends[0])


def _characters(window: Encoding, first: int, last: int, whole_words: bool) -> tuple[int, int]:
    """The first and past last character of tokens, or of their words if `whole_words`."""
    start_word, end_word = window.token_to_word(first), window.token_to_word(last)
    if whole_words and start_word is not None and end_word is not None:
        start, end = window.word_to_chars(start_word, 1), window.word_to_chars(end_word, 1)
        if start is not None and end is not None:
            return start[0], end[1]
    return window.offsets[first][0], window.offsets[last][1]


def _merged(answers: Sequence[Answer]) -> list[Answer]:
    """Equal answers merged, ignoring case: the first one, with the sum of the scores."""
    merged: dict[str, Answer] = {}
    for one in answers:
        same = merged.setdefault(one["answer"].lower(), one)
        if same is not one:
            same["score"] += one["score"]
    return list(merged.values())
