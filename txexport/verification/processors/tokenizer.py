"""Check of the bundle's tokenizer against transformers'."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.tokenizer_classes import LETTERS
from txexport.checkpoints.tokenizer_conversion import TOKENIZER
from txexport.errors import first_line, is_failure
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.text import Item, Text
from txexport.runtime.preprocessing.text_length import UNLIMITED, read_max_length, sentence_settings
from txexport.runtime.preprocessing.token_types import gives_types
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import differs, equal, original, task_of
from txexport.verification.processors.texts import SEED, pairs, texts

LENGTHS = (9, 17)  # that texts are truncated to; the first if `quick`
ROWS = 60  # of random ids; a third of them if `quick`
# Methods that only decode text, all that decode it, and the one that joins tokens to words.
WRITERS = {"transcribe", "image_to_text"}
DECODERS = WRITERS | {"generate", "fill_mask"}
JOINER = "tag"
# The parts of an Encoding, with their names in transformers.
PARTS = {
    "ids": "input_ids",
    "type_ids": "token_type_ids",
    "attention_mask": "attention_mask",
    "special_tokens_mask": "special_tokens_mask",
    "offsets": "offset_mapping",
}


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Compare texts, pairs, truncated ones, and decoded ids. Raises AssertionError, SkipError."""
    if TOKENIZER not in manifest.companions:
        raise SkipError("no tokenizer there")
    files = BundleFiles(folder)
    ours = files.text
    read_max_length(folder)
    with original("AutoTokenizer", checkpoint, manifest.model_type) as theirs:
        _check_reads(theirs)
        seeded = seeded_texts(ours, theirs, quick)
        row, checks = task_of(manifest), []
        methods = set() if row is None else {*row.methods}
        if not WRITERS & methods:
            checks += [*_encoded(ours, theirs, seeded, quick), check_limit(files, folder, theirs)]
            _types(files, theirs, seeded)
        if DECODERS & methods:
            checks.append(_decoded(ours, theirs, seeded, quick))
        if JOINER in methods:
            checks.append(_joined(ours, theirs, seeded))
        return checks


def _check_reads(theirs: Any) -> None:
    """Raise SkipError if transformers' own tokenizer cannot read text, as that of a toy."""
    try:
        theirs(LETTERS)
    except BaseException as error:  # of tokenizers, which has no base class
        if not is_failure(error):
            raise
        raise SkipError(f"transformers' own reads no text: {first_line(error)}") from None


def seeded_texts(ours: Text, theirs: Any, quick: bool) -> list[str]:
    """Seeded texts with the special tokens and words of both."""
    words = sorted(ours.tokenizer.get_vocab().items(), key=lambda one: (one[1], one[0]))
    special = {token.content for token in ours.tokenizer.get_added_tokens_decoder().values()}
    special |= {str(token) for token in theirs.all_special_tokens}
    known = [special_token for special_token in sorted(special) if special_token]
    drawn = random.Random(SEED).sample(words, min(len(words), 200))
    plain = [word.replace("▁", " ").replace("Ġ", " ").removeprefix("##") for word, _ in drawn]
    return texts(known, [word for word in plain if word], quick=quick)


def _encoded(ours: Text, theirs: Any, singles: Sequence[str], quick: bool) -> Iterator[TensorCheck]:
    """Every part of the encodings of texts and pairs, complete and truncated."""
    joined = pairs(singles, quick=quick)
    items: list[Item] = [*singles, *joined]
    for what, part, length in (
        ("texts", singles, None),
        ("pairs of texts", joined, None),
        *((f"texts cut to {length} tokens", items, length) for length in LENGTHS[: 1 if quick else None]),
    ):
        found = ours.encode(part, length)
        for kind in (str, tuple):
            indices = [i for i, item in enumerate(part) if isinstance(item, kind)]
            expected = _theirs(theirs, [part[i] for i in indices], length)
            for row, i in enumerate(indices):
                _compare(part[i], found[i], {name: expected[name][row] for name in expected})
        yield equal(what, len(part))


def _theirs(theirs: Any, items: Sequence[Item], length: int | None) -> dict[str, list]:
    """The encodings of transformers for texts alone or pairs alone, by an Encoding's names."""
    if not items:
        return {}
    single = isinstance(items[0], str)
    first = [item if isinstance(item, str) else item[0] for item in items]
    options: dict[str, Any] = {
        "return_special_tokens_mask": True,
        "return_token_type_ids": True,
        "verbose": False,
    }
    options |= {"return_offsets_mapping": True} if theirs.is_fast else {}
    truncation = {} if length is None else {"truncation": "longest_first", "max_length": length}
    encodings = theirs(first, None if single else [item[1] for item in items], **options, **truncation)
    return {name: encodings[key] for name, key in PARTS.items() if key in encodings}


def _compare(item: Item, ours: Any, theirs: dict[str, Any]) -> None:
    """Raise AssertionError for the first part of an encoding that differs."""
    for name, expected in theirs.items():
        found = list(getattr(ours, name))
        wanted = [tuple(one) if isinstance(one, list) else one for one in expected]
        if found != wanted:
            at = next(
                (i for i, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]), None
            )
            at = min(len(found), len(wanted)) if at is None else at
            differs(f"{name}, from place {at} on,", item, found[at : at + 6], wanted[at : at + 6])


def check_limit(files: BundleFiles, folder: Path, theirs: Any) -> TensorCheck:
    """The maximum length, unless sentence-transformers sets its own."""
    if sentence_settings(folder).get("max_seq_length") is None:
        limit = theirs.model_max_length
        expected = None if limit is None or limit > UNLIMITED else int(limit)
        if files.max_length != expected:
            differs("the longest text", "its files", files.max_length, expected)
    return equal("longest text", 1)


def _types(files: BundleFiles, theirs: Any, items: Sequence[str]) -> None:
    """Compare whether the model gets token types. Raises AssertionError."""
    expected = "token_type_ids" in theirs(items[5], items[6])
    if files.config and gives_types(files.text.settings, files.config) != expected:
        differs("whether there are token types", "a pair", not expected, expected)


def _decoded(ours: Text, theirs: Any, items: Sequence[str], quick: bool) -> TensorCheck:
    """Ids of texts and random ids, decoded with special tokens and without."""
    draw = random.Random(SEED)
    known = min(ours.tokenizer.get_vocab_size(), len(theirs))
    rows = [encoding.ids for encoding in ours.encode(items)]
    rows += [draw.choices(range(known), k=draw.randint(0, 20)) for _ in range(ROWS // 3 if quick else ROWS)]
    for special in (False, True):
        found = ours.decode(rows, special=special)
        expected = theirs.batch_decode(rows, skip_special_tokens=not special)
        for row, text, wanted in zip(rows, found, expected, strict=True):
            if text != wanted:
                what = "text with special tokens" if special else "text"
                differs(what, row, text, wanted)
    return equal("rows of ids as text", 2 * len(rows))


def _joined(ours: Text, theirs: Any, items: Sequence[str]) -> TensorCheck:
    """Tokens joined to words, as in a tagger's entities."""
    rows = [encoding.tokens for encoding in ours.encode(items)]
    for row in rows:
        found, expected = ours.join(row), theirs.convert_tokens_to_string(row)
        if found != expected:
            differs("words", row, found, expected)
    return equal("rows of tokens as words", len(rows))
