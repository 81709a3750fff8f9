"""Answers to questions on pages of words in their boxes: spans of words."""

from collections.abc import Mapping, Sequence

from txexport.contracts.names import END_LOGITS, START_LOGITS
from txexport.errors import InputError, counted, shown
from txexport.runtime.batches import BATCH_TOKENS, longest_text, text_limit
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.page_words import Page, PageWords, as_pages
from txexport.runtime.preprocessing.text import Words, as_texts
from txexport.runtime.tasks.documents import page_windows
from txexport.runtime.tasks.question_answering import Answer, likeliest_spans
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress

LONGEST_OVERLAP = 256  # of windows, as in transformers' pipeline


def answer_page(
    bundle: LoadedBundle,
    question: str | Sequence[str],
    pages: Page | Sequence[Page],
    *,
    top_k: int = 1,
    max_answer_len: int = 15,
    max_seq_len: int | None = None,
    doc_stride: int | None = None,
    handle_impossible_answer: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Answer] | list[list[Answer]]:
    """The `top_k` likeliest answers to a `question` on a page, as spans of words; for several, of each pair.

    `pages` are as in `tag_words`. `start` is the first word of an answer and `end` the one after its last,
    both counted from 0. An answer has at most `max_answer_len` tokens. Question and page longer than
    `max_seq_len` tokens (the model's limit) are read in windows that share `doc_stride` tokens of the page
    (half, at most 256; half of what a long question leaves). `handle_impossible_answer` allows the answer "",
    for none. Scores are as those of transformers' pipeline of document-question-answering.
    """
    check_task(bundle, "answer_page")
    for name, value in (("top_k", top_k), ("max_answer_len", max_answer_len)):
        check_count(name, value)
    check_flag("handle_impossible_answer", handle_impossible_answer)
    questions, listed = _paired(question, pages)
    limit = text_limit(bundle.manifest)
    size = longest_text(bundle) if max_seq_len is None else max_seq_len
    if max_seq_len is not None:
        check_count("max_seq_len", max_seq_len)
    if doc_stride is not None:
        check_count("doc_stride", doc_stride, 0)
    if size is not None and size > (limit or size):
        raise InputError(f"max_seq_len is {shown(size)}, the model reads at most {limit} tokens")
    items: list[Words] = [(one.split(), page.texts) for one, page in zip(questions, listed, strict=True)]
    if size is None:
        encodings = bundle.files.text.split(items)
    else:
        overlap = min(size // 2, LONGEST_OVERLAP) if doc_stride is None else doc_stride
        encodings = bundle.files.text.windows(
            items, size, overlap, "only_second", split=True, shrink_overlap=doc_stride is None
        )
    spans: list[list[Answer]] = [[] for _ in listed]
    nothing = [1.0] * len(listed)
    for owner, window, outputs in page_windows(bundle, listed, encodings, 1, batch_tokens, progress):
        logits = outputs[START_LOGITS][: len(window)], outputs[END_LOGITS][: len(window)]
        likeliest, none = likeliest_spans(window, *logits, top_k, max_answer_len)
        nothing[owner] = min(nothing[owner], none)
        for score, first, last in likeliest:
            start, end = window.word_ids[first] or 0, (window.word_ids[last] or 0) + 1
            answer = " ".join(listed[owner].texts[start:end])
            spans[owner].append({"score": score, "start": start, "end": end, "answer": answer})
    if handle_impossible_answer:
        for answers, none in zip(spans, nothing, strict=True):
            answers.append({"score": none, "start": 0, "end": 0, "answer": ""})
    results = [sorted(answers, key=lambda one: -one["score"])[:top_k] for answers in spans]
    return results[0] if isinstance(question, str) and isinstance(pages, Mapping) else results


def _paired(question: str | Sequence[str], pages: Page | Sequence[Page]) -> tuple[list[str], list[PageWords]]:
    """Questions and pages one by one; a single one is read with each of the other. Raises InputError."""
    questions, listed = as_texts(question), as_pages(pages)
    if isinstance(question, str):
        questions *= len(listed)
    elif isinstance(pages, Mapping):
        listed *= len(questions)
    if len(questions) != len(listed):
        raise InputError(f"{counted(len(questions), 'question')} for {len(listed)} pages, expected as many")
    empty = next((one for one in questions if not one.strip()), None)
    if empty is not None:
        raise InputError(f"a question is empty: {shown(empty)}; expected text")
    return questions, listed
