"""Check of a bundle's words in their boxes against transformers' tokenizers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.tokenizer_classes import LETTERS
from txexport.checkpoints.tokenizer_conversion import TOKENIZER
from txexport.contracts.names import BBOX, INPUT_IDS, TOKEN_TYPE_IDS
from txexport.errors import first_line, is_failure
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.page_words import SIDE, special_boxes
from txexport.runtime.preprocessing.text import Text, Words
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import differs, equal, original
from txexport.verification.processors.tokenizer import check_limit, seeded_texts

QUESTIONS = ("what was the total?", "Who signed?", "1 + 1")
WINDOW, OVERLAP = 16, 4  # tokens
PAGE = 12  # the most words of a page


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Compare ids, types and boxes of pages, of questions with pages, and of windows. Raises SkipError."""
    if TOKENIZER not in manifest.companions:
        raise SkipError("no tokenizer there")
    files = BundleFiles(folder)
    special = special_boxes(files.text.settings, manifest.model_type)
    end = SIDE if manifest.model_type == "layoutlm" else 0
    with original("AutoTokenizer", checkpoint, manifest.model_type) as theirs:
        _check_reads(theirs)
        pages = _pages(files.text, theirs, quick)
        draw = np.random.default_rng(0)
        checks = [check_limit(files, folder, theirs)]
        for what, length in (("pages", None), ("pages in windows", WINDOW)):
            for question in (None, *QUESTIONS[: 1 if quick else None]):
                query = [] if question is None else question.split()
                part = int(question is not None)
                room = None if length is None else length + _count(files.text, query)
                for texts in pages:
                    boxes = np.sort(draw.integers(0, SIDE + 1, (len(texts), 2, 2)), axis=1).reshape(-1, 4)
                    item: Words = (query, texts) if part else texts
                    expected = _theirs(theirs, question, texts, boxes, room, end)
                    windows = _ours(files.text, item, room, part)
                    if len(windows) != len(expected[INPUT_IDS]):
                        differs("windows", texts, len(windows), len(expected[INPUT_IDS]))
                    for number, window in enumerate(windows):
                        for name, ours in (
                            (INPUT_IDS, window.ids),
                            (TOKEN_TYPE_IDS, window.type_ids),
                            (BBOX, special.of_tokens(window, boxes, part).tolist()),
                        ):
                            if name in expected and ours != expected[name][number]:
                                differs(name, texts, ours, expected[name][number])
            checks.append(equal(what, len(pages)))
        return checks


def _check_reads(theirs: Any) -> None:
    """Raise SkipError if transformers' own tokenizer cannot read texts, as that of a toy."""
    try:
        _theirs(theirs, None, LETTERS.split(), np.zeros((2, 4), np.int64), None)
    except BaseException as error:  # of tokenizers, which has no base class
        if not is_failure(error):
            raise
        raise SkipError(f"transformers' own reads no texts: {first_line(error)}") from None


def _pages(ours: Text, theirs: Any, quick: bool) -> list[list[str]]:
    """The words of seeded texts, of a page each."""
    texts = [text.split() for text in seeded_texts(ours, theirs, quick)]
    return [texts[:PAGE] for texts in texts if texts]


def _count(text: Text, texts: list[str]) -> int:
    """The number of tokens of words alone."""
    [encoding] = text.split([texts])
    return len(encoding)


def _ours(text: Text, item: Words, length: int | None, part: int) -> list[Any]:
    """The windows of texts, or all in one without a length."""
    if length is None:
        return text.split([item])
    strategy = "only_second" if part else "longest_first"
    [first] = text.windows([item], length, OVERLAP, strategy, split=True)
    return [first, *first.overflowing]


def _theirs(
    theirs: Any,
    question: str | None,
    texts: Sequence[str],
    boxes: np.ndarray,
    length: int | None,
    end: int = 0,
) -> dict[str, list]:
    """The windows of transformers' tokenizer; one that reads no boxes gives tokens those of their words.

    Edges of its separators are `end`, of other special tokens 0, as in the pipeline of LayoutLM.
    """
    options: dict[str, Any] = {"return_token_type_ids": True, "verbose": False}
    if length is not None:
        truncation = "longest_first" if question is None else "only_second"
        options |= {"truncation": truncation, "max_length": length, "stride": OVERLAP}
    options["return_overflowing_tokens"] = length is not None
    if hasattr(theirs, "sep_token_box"):
        read = [[texts]] if question is None else [[question], [texts]]
        encoded = theirs(*read, boxes=[boxes.tolist()], **options)
        return {name: encoded[name] for name in (INPUT_IDS, TOKEN_TYPE_IDS, BBOX) if name in encoded}
    pair = [texts] if question is None else [question.split(), texts]
    encoded = theirs(*([one] for one in pair), is_split_into_words=True, **options)
    ids = encoded[INPUT_IDS]
    rows = [
        [
            boxes[word].tolist()
            if word is not None and text == len(pair) - 1
            else [end * (token == theirs.sep_token_id)] * 4
            for token, word, text in zip(row, encoded.word_ids(i), encoded.sequence_ids(i), strict=True)
        ]
        for i, row in enumerate(ids)
    ]
    return {INPUT_IDS: ids, TOKEN_TYPE_IDS: encoded[TOKEN_TYPE_IDS], BBOX: rows}
