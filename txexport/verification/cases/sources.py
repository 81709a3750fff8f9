"""The encoder before a decoder: its outputs beside the reference's, and what the decoder reads of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from txexport.contracts import cache_names, roles
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import (
    ATTENTION_MASK,
    ATTENTIONS,
    ENCODER_ATTENTION_MASK,
    ENCODER_HIDDEN_STATES,
    INPUT_IDS,
    LAST_HIDDEN_STATE,
)
from txexport.parts.cases import DecoderCase, Sources
from txexport.parts.part import SignalCase
from txexport.runtime.generation.running_cache import joined
from txexport.runtime.preprocessing.text import pad
from txexport.verification.cases import layers
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.references.reference import (
    Arrays,
    MaskedTokens,
    PaddedRow,
    PicturedTokens,
    Pictures,
    Source,
)

Pairs = list[tuple[np.ndarray, np.ndarray]]
RolePairs = dict[tuple[str, str], Pairs]  # by the role of a graph, and its output


def source_of(case: DecoderCase, row: int) -> Source:
    """The source that the reference reads for a row."""
    if case.batch is not None:
        return PaddedRow(case.batch, row)
    if case.images is not None and case.sources is not None:
        return PicturedTokens(case.sources[row], case.images[row])
    if case.images is not None:
        return Pictures(case.images[row])
    return case.sources[row] if case.sources else None


def prompt_of(case: DecoderCase, row: int) -> int:
    """The tokens of a row's first step."""
    counts = case.steps[:, row]
    return int(counts[counts > 0][0])


def run_sources(
    runner: GraphRunner,
    case: DecoderCase,
    expected: Sequence[Arrays],
    pairs: RolePairs,
    images: Arrays | None = None,
) -> Arrays:
    """Run the encoder and pair its outputs; return the decoder's inputs.

    `images` has the vectors of the images among its tokens, if it reads any.
    """
    assert case.sources is not None
    signal, *masks = [port.name for port in runner.manifest.graphs[roles.ENCODER].inputs]
    if signal != INPUT_IDS and ATTENTION_MASK in masks:
        return _masked(runner, case, signal, expected, pairs)
    return _unmasked(runner, case.sources, signal, expected, pairs, images or {})


def _unmasked(
    runner: GraphRunner,
    sources: Sources,
    port: str,
    expected: Sequence[Arrays],
    pairs: RolePairs,
    images: Arrays,
) -> Arrays:
    """Padded tokens, or signals of one size."""
    rest: Arrays = {}
    if port == INPUT_IDS:
        ids, mask = _padded(sources)
        result = runner.run(roles.ENCODER, **{INPUT_IDS: ids, ATTENTION_MASK: mask}, **images)
        rest = {ENCODER_ATTENTION_MASK: mask}
    else:
        result = runner.run(roles.ENCODER, **{port: np.stack(sources)})
    for name, array in result.items():
        per_row = array if array.ndim == 3 else array.transpose(0, 2, 1, 3)  # token axis second
        for row, source in enumerate(sources):
            truth = expected[row][name]
            if kind_of(name) == ATTENTIONS:
                real = np.arange(array.shape[2]) < (len(source) if rest else array.shape[2])
                pair = layers.of_row(name, array[row], real), layers.among(name, truth, real)
                pairs.setdefault((roles.ENCODER, name), []).append(pair)
                continue
            truth = truth if truth.ndim == 2 else truth.transpose(1, 0, 2)
            real = mask[row].astype(bool) if rest else np.ones(len(truth), bool)
            pair = per_row[row][real], truth[real[: len(truth)]]
            pairs.setdefault((roles.ENCODER, name), []).append(pair)
    return {**rest, **_cross(result)}


def _padded(sources: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Ids and mask (B,S) of rows of tokens, padded on the right unless they have masks already."""
    if isinstance(sources[0], MaskedTokens):
        return np.stack([one.ids for one in sources]), np.stack([one.mask for one in sources])
    return pad([list(source) for source in sources], 0)


def _masked(
    runner: GraphRunner, case: DecoderCase, port: str, expected: Sequence[Arrays], pairs: RolePairs
) -> Arrays:
    """Sounds with a mask: each alone, as the runtime reads them, or all in the case's padded batch."""
    assert case.sources is not None
    lengths = np.array([len(source) for source in case.sources])
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    if case.batch is not None:
        result = _run(runner, port, case.batch)
        for row in range(len(lengths)):
            one = PaddedRow(case.batch, row)
            _pair({name: one.part(name, array) for name, array in result.items()}, expected[row], pairs)
        cross = _cross(result)
    else:
        cross = {}
        for row, source in enumerate(case.sources):
            single = SignalCase(case.name, np.asarray(source)[None], mask[row : row + 1, : len(source)])
            result = _run(runner, port, single)
            _pair({name: array[0] for name, array in result.items()}, expected[row], pairs)
            cross = joined(cross, _cross(result))
    graphs = runner.manifest.graphs.values()  # of the web's clients, one decoder, merged
    if any(
        ENCODER_HIDDEN_STATES in {port.name for port in graph.inputs} for graph in graphs
    ):  # other clients pass the mask of the signal on
        cross[ENCODER_ATTENTION_MASK] = mask
    return cross


def _run(runner: GraphRunner, port: str, batch: SignalCase) -> Arrays:
    assert batch.mask is not None
    return runner.run(roles.ENCODER, **{port: batch.signals, ATTENTION_MASK: batch.mask})


def _pair(result: Arrays, truth: Arrays, pairs: RolePairs) -> None:
    """Pair the outputs of a row, without padding, with the reference's."""
    for name, array in result.items():
        if name == ENCODER_ATTENTION_MASK:
            real = np.arange(len(array)) < len(truth[LAST_HIDDEN_STATE])
            pairs.setdefault((roles.ENCODER, name), []).append((array.astype(np.float32), real))
        else:
            pairs.setdefault((roles.ENCODER, name), []).append((array, truth[name]))


def _cross(result: Arrays) -> Arrays:
    """The decoder's inputs that are outputs of the encoder."""
    caches = {name: array for name, array in result.items() if cache_names.is_present(name)}
    if not caches:  # the decoder computes them
        return {ENCODER_HIDDEN_STATES: result[LAST_HIDDEN_STATE]}
    cross = {cache_names.to_past(name): array for name, array in caches.items()}
    mask = ENCODER_ATTENTION_MASK
    return cross | ({mask: result[mask]} if mask in result else {})
