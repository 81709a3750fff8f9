"""Real inputs: texts through the bundle's own tokenizer, as cases beside the seeded ones."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.contracts import roles
from txexport.errors import BundleError, InputError
from txexport.exporter.calibration.inputs import alone, reader_of, rows_of, sources_and_targets
from txexport.parts import architecture_of
from txexport.parts.cases import DecoderCase, EncoderCase, GreedyCase
from txexport.parts.inputs import reads_tokens
from txexport.parts.source_cases import SourceCase, with_images
from txexport.runtime.batches import (
    check_marks,
    global_tokens,
    padded_length,
    text_limit,
    to_one_length,
)
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.text import Item, as_items, as_rows, pad
from txexport.runtime.preprocessing.text_file import read
from txexport.spec import ModelSpec, TextStackSpec
from txexport.verification.cases import runs
from txexport.verification.cases.plan import PlannedCase, planned

SENTENCES = (
    "The cat sat on the mat, and the dog lay on the rug.",
    "Where was Ada Lovelace born?",
    "In 1843 she wrote about 25 notes; a café in Zürich sells them for €3.50!",
    "yes",
)
BUILT_IN = "sentences"
BATCH = 8  # texts of one case
NEW_TOKENS = 12


def plan_texts(
    files: BundleFiles, manifest: Manifest, spec: ModelSpec, file: str | Path | None
) -> list[PlannedCase]:
    """The cases of some built-in sentences, and of the lines of `file`; none for a model without texts.

    If the tokenizer is missing, or gives ids beyond the vocabulary, the sentences are skipped; if it cannot
    be read, they fail. Raises BundleError for such a tokenizer if `file` needs it, InputError if `file`
    cannot serve as texts, OSError if it cannot be read.
    """
    reader = reader_of(spec)
    if not reads_tokens(reader):
        if file is not None:
            raise InputError(f"texts need a model that reads texts; this one is for {manifest.task}")
        return []
    if (files.folder / "tokenizer.json").exists():
        try:
            _ = files.text
        except BundleError as error:
            if file is not None:
                raise
            return [PlannedCase(BUILT_IN, run=partial(_unreadable, error))]
    try:
        result = list(_cases(files, manifest, spec, reader, as_items(SENTENCES), BUILT_IN))
    except (InputError, BundleError) as error:
        result = [PlannedCase(BUILT_IN, skipped=str(error))]
    if file is None:
        return result
    lines = read(Path(file))
    for first in range(0, len(lines), BATCH):
        part = lines[first : first + BATCH]
        name = f"{Path(file).name}, texts {first + 1} to {first + len(part)}"
        result += _cases(files, manifest, spec, reader, part, name)
    return result


def _unreadable(error: BundleError, *_: object) -> list[runs.Outcome]:
    raise error


def _cases(
    files: BundleFiles,
    manifest: Manifest,
    spec: ModelSpec,
    reader: TextStackSpec,
    items: Sequence[Item],
    name: str,
) -> Iterator[PlannedCase]:
    """`reader` is the stack that reads the texts first."""
    if not spec.generates:
        yield _of_encoder(files, manifest, spec, reader, items, name)
        return
    decoder = spec.stacks["decoder"]
    if reader is decoder:
        rows = prompts = rows_of(files, alone(items), reader)
        sources, room = None, (reader.limit or 10**9) - max(map(len, rows))
    else:
        assert reads_tokens(decoder)
        sources, rows = sources_and_targets(files, reader, decoder, items)
        prompts, room = sources, NEW_TOKENS
    cases: list[SourceCase] = [_steps(manifest, name, rows, sources)]
    joined = roles.EMBED_TOKENS in manifest.graphs  # graphs that txexport's runtime does not join
    if name != BUILT_IN and min(room, NEW_TOKENS) > 0 and not joined:
        cases.append(GreedyCase(f"{name}, greedy", prompts, min(room, NEW_TOKENS)))
    yield from map(planned, with_images(spec, cases))


def _of_encoder(
    files: BundleFiles,
    manifest: Manifest,
    spec: ModelSpec,
    reader: TextStackSpec,
    items: Sequence[Item],
    name: str,
) -> PlannedCase:
    encodings = files.text.encode(items, text_limit(manifest))
    as_rows([encoding.ids for encoding in encodings], reader.embedding.vocab_size)
    check_marks(manifest, encodings)
    padding, separator = files.config.get("pad_token_id"), files.config.get("sep_token_id", 2)
    ids, mask = pad([encoding.ids for encoding in encodings], padding if isinstance(padding, int) else 0)
    length = padded_length(manifest)
    if length is not None:
        rows = [encoding.ids for encoding in encodings]
        ids, mask = to_one_length(files.text, rows, length, reader.embedding.vocab_size)
    types, _ = pad([encoding.type_ids for encoding in encodings], 0)
    marks, _ = pad([global_tokens(manifest.task, e.ids, separator) for e in encodings], 0)
    together = length is not None or reader.reads_padding
    batch = EncoderCase(name, ids, mask, types, marks, not together)
    return planned(architecture_of(spec).text_case(spec, batch))


def _steps(
    manifest: Manifest, name: str, rows: list[list[int]], sources: list[list[int]] | None
) -> DecoderCase:
    """All but the last two tokens of a row at once, then one by one."""
    if sources is not None and manifest.cache == "dynamic":  # whose contract has no ragged rows
        shortest = min(map(len, rows))
        rows = [row[:shortest] for row in rows]
    lengths = np.array([len(row) for row in rows])
    first = np.maximum(1, lengths - 2)
    steps = np.stack([first, np.minimum(1, lengths - first), np.maximum(0, lengths - first - 1)])
    return DecoderCase(name, rows, steps[steps.any(axis=1)], sources=sources)
