"""Texts as inputs of graphs: rows of ids, and batches of rows of equal length, without padding."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from txexport.contracts import ECOSYSTEM, Signature, cache_names, roles
from txexport.contracts.names import (
    ATTENTION_MASK,
    BBOX,
    ENCODER_ATTENTION_MASK,
    INPUT_IDS,
    PIXEL_VALUES,
    POSITION_IDS,
)
from txexport.errors import InputError, UnsupportedError, shown
from txexport.parts import signatures
from txexport.parts.inputs import reads_tokens
from txexport.runtime.batches import encode, inputs_of
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import Item, as_rows
from txexport.spec import ModelSpec, StackSpec, TextStackSpec

Feeds: TypeAlias = dict[str, np.ndarray]
Batch: TypeAlias = dict[str, Feeds]  # inputs by the role of a graph, in running order


def check_reads(spec: ModelSpec, task: str) -> None:
    """Raise InputError for a model that reads no texts, or none without an image.

    Raises UnsupportedError for one without graphs for other tools, which are the ones that read texts here.
    """
    if not reads_tokens(reader_of(spec)):
        raise InputError(f"texts need a model that reads texts; this one is for {task}")
    graphs = signatures(spec, ECOSYSTEM)
    if any(port.name == BBOX for graph in graphs.values() for port in graph.inputs):
        raise InputError(f"texts need a model that reads them without boxes; this one is for {task}")
    if not spec.generates and roles.TEXT not in graphs and any(map(_reads_both, graphs.values())):
        raise InputError(f"texts need a model that reads them without images; this one is for {task}")
    if not graphs:
        raise UnsupportedError(
            "no graph reads calibration texts where tokens of an image attend to each other, are read by "
            "several layers, or are an encoder's"
        )


def reader_of(spec: ModelSpec) -> StackSpec:
    """The stack that reads texts first, if any does: an encoder, or a decoder without one."""
    stacks = spec.stacks
    return stacks.get("encoder") or stacks.get("decoder") or next(iter(stacks.values()))


def _reads_both(graph: Signature) -> bool:
    """Tell whether a graph reads texts and images."""
    return {INPUT_IDS, PIXEL_VALUES} <= {port.name for port in graph.inputs}


def rows_of(files: BundleFiles, items: Sequence[Item], stack: TextStackSpec) -> list[list[int]]:
    """Rows of ids, truncated to the limit of the stack.

    Raises InputError for a row without tokens, or with ids beyond the vocabulary.
    """
    rows = [encoding.ids for encoding in files.text.encode(items, stack.limit)]
    return as_rows(rows, stack.embedding.vocab_size)


def alone(items: Sequence[Item]) -> list[str]:
    """Texts for a decoder. Raises InputError for a pair."""
    pair = next((item for item in items if not isinstance(item, str)), None)
    if pair is not None:
        raise InputError(
            f"a decoder takes one text per line, without a tab; this line has two: {shown(pair)}"
        )
    return [str(item) for item in items]


def sources_and_targets(
    files: BundleFiles, encoder: TextStackSpec, decoder: TextStackSpec, items: Sequence[Item]
) -> tuple[list[list[int]], list[list[int]]]:
    """The encoder's inputs and the decoder's: the second text of a line, or its only one."""
    pairs = [(item, item) if isinstance(item, str) else item for item in items]
    sources = rows_of(files, [first for first, _ in pairs], encoder)
    targets = rows_of(files, [second for _, second in pairs], decoder)
    unread, start = encoder.embedding.position.pad_token_id, files.generation_config.decoder_start or 0
    rows = [[start, *(token for token in row if token != unread)][: decoder.limit] for row in targets]
    return sources, rows


def batches(bundle: LoadedBundle, spec: ModelSpec, items: Sequence[Item], budget: int) -> list[Batch]:
    """The texts in batches of at most `budget` tokens, or of one text; long texts are truncated.

    A decoder behind an encoder gets no hidden states here. Raises InputError for texts that the model does
    not read, BundleError without a tokenizer.
    """
    if not spec.generates:
        encodings = encode(bundle, items, truncate=True)
        role = roles.TEXT if roles.TEXT in bundle.manifest.hub else roles.MODEL
        as_rows([encoding.ids for encoding in encodings], bundle.vocab_size(role))
        return [
            {role: inputs_of(bundle, role, [encodings[place] for place in places])}
            for places in _alike([(len(encoding),) for encoding in encodings], budget)
        ]
    encoder, decoder = spec.stacks.get("encoder"), spec.stacks["decoder"]
    assert reads_tokens(decoder)
    if encoder is not None:
        assert reads_tokens(encoder)
        sources, targets = sources_and_targets(bundle.files, encoder, decoder, items)
        lengths = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        return [_pairs(sources, targets, places) for places in _alike(lengths, budget)]
    rows = rows_of(bundle.files, alone(items), decoder)
    return [
        _first_step(bundle, np.array([rows[place] for place in places]))
        for places in _alike([(len(row),) for row in rows], budget)
    ]


def _pairs(sources: list[list[int]], targets: list[list[int]], places: list[int]) -> Batch:
    ids = np.array([sources[place] for place in places])
    mask = np.ones_like(ids)
    return {
        roles.ENCODER: {INPUT_IDS: ids, ATTENTION_MASK: mask},
        roles.DECODER: {
            INPUT_IDS: np.array([targets[place] for place in places]),
            ENCODER_ATTENTION_MASK: mask,
        },
    }


def _first_step(bundle: LoadedBundle, ids: np.ndarray) -> Batch:
    """The inputs of rows (B,S) without a past; a graph of their own may embed them."""
    result = {ATTENTION_MASK: np.ones_like(ids)}
    apart = roles.EMBED_TOKENS in bundle.manifest.hub
    role, embedded = (roles.DECODER_MERGED, roles.EMBED_TOKENS) if apart else (roles.MODEL, roles.MODEL)
    for port in bundle.manifest.hub[role].inputs:
        if port.name == POSITION_IDS:  # (B,S), or (3,B,S) on three axes
            axes = ids.shape if len(port.shape) == 2 else (int(port.shape[0]), *ids.shape)
            result[port.name] = np.broadcast_to(np.arange(ids.shape[1]), axes).copy()
        if cache_names.is_past(port.name):
            shape = [len(ids), *(0 if isinstance(dim, str) else dim for dim in port.shape[1:])]
            result[port.name] = np.zeros(shape, np.float32)
    batch: Batch = {embedded: {INPUT_IDS: ids}}
    batch[role] = batch.get(role, {}) | result
    return batch


def _alike(lengths: Sequence[tuple[int, ...]], budget: int) -> Iterator[list[int]]:
    """Indices of rows of equal length, in batches of at most `budget` tokens or of one row."""
    by_length: dict[tuple[int, ...], list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(length, []).append(place)
    for length, places in by_length.items():
        rows = max(1, budget // max(1, sum(length)))
        for first in range(0, len(places), rows):
            yield places[first : first + rows]
