"""Cases of objects in images that texts describe."""

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import (
    ATTENTION_MASK,
    IMAGE_EMBEDS,
    INPUT_IDS,
    LOGITS,
    PIXEL_MASK,
    PIXEL_VALUES,
    PRED_BOXES,
    TEXT_EMBEDS,
    TOKEN_TYPE_IDS,
)
from txexport.parts.cases import DescribedCase, DescribedSegmentsCase
from txexport.parts.grounded import GroundedCase
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.ranks import in_ranks
from txexport.verification.cases.runs import Outcome
from txexport.verification.cases.sources import RolePairs
from txexport.verification.references.reference import Arrays, Reference


def run_described(runner: GraphRunner, reference: Reference, case: DescribedCase) -> list[Outcome]:
    """Vectors of texts, vectors and boxes of patches, and the scores of each text for each patch.

    The reference reads each text alone, once for every image.
    """
    texts = {INPUT_IDS: case.input_ids, ATTENTION_MASK: case.attention_mask}
    results = _results(runner, texts, case.signals)
    pairs: RolePairs = {}
    for row, mask in enumerate(case.attention_mask.astype(bool)):
        text = {name: array[row : row + 1, mask] for name, array in texts.items()}
        expected = reference.encode(_for_each(len(case.signals), text) | {PIXEL_VALUES: case.signals})
        for role, result in results.items():
            for name, array in result.items():
                computed, truth = array, expected[name]
                if name == LOGITS:
                    computed, truth = array[..., row], truth[..., 0]
                elif name == TEXT_EMBEDS:  # of the text, for each image or for all
                    computed = array[..., row, :]
                    truth = np.broadcast_to(truth.reshape(-1, truth.shape[-1])[0], computed.shape)
                pairs.setdefault((role, name), []).append((computed, truth))
    return [Outcome(name, pairs[role, name], graph=runner.file(role)) for role, name in pairs]


def run_grounded(runner: GraphRunner, reference: Reference, case: GroundedCase) -> list[Outcome]:
    """Scores of tokens and boxes of queries; the reference reads the same padded batch.

    Where its scores of places leave their order open, it takes that of the graph.
    """
    every = {
        INPUT_IDS: case.input_ids,
        ATTENTION_MASK: case.attention_mask,
        TOKEN_TYPE_IDS: case.token_type_ids,
        PIXEL_VALUES: case.pixel_values,
        PIXEL_MASK: case.pixel_mask,
    }
    inputs = {port.name: every[port.name] for port in runner.manifest.graphs[roles.MODEL].inputs}
    result = runner.run(**inputs)
    queries = result[PRED_BOXES].shape[1]
    expected = in_ranks(lambda: reference.encode(inputs), result, queries)
    return [Outcome(name, [(array, expected[name])]) for name, array in result.items()]


def run_described_segments(
    runner: GraphRunner, reference: Reference, case: DescribedSegmentsCase
) -> list[Outcome]:
    """Vectors of texts and images, and the logits of pixels.

    The reference reads each text alone, once for every image.
    """
    texts, count = {INPUT_IDS: case.input_ids, ATTENTION_MASK: case.attention_mask}, len(case.signals)
    results = _segmented(runner, texts, case.signals)
    pairs: RolePairs = {}
    for row, mask in enumerate(case.attention_mask.astype(bool)):
        text = {name: array[row : row + 1, mask] for name, array in texts.items()}
        expected = reference.encode(_for_each(count, text) | {PIXEL_VALUES: case.signals})
        truths = expected | {TEXT_EMBEDS: expected[TEXT_EMBEDS][0]}
        for role, result in results.items():
            for name, array in result.items():
                computed = array[:, row] if name == LOGITS else array
                computed = array[row] if name == TEXT_EMBEDS else computed
                pairs.setdefault((role, name), []).append((computed, truths[name]))
    return [Outcome(name, pairs[role, name], graph=runner.file(role)) for role, name in pairs]


def _segmented(runner: GraphRunner, texts: Arrays, pixels: np.ndarray) -> dict[str, Arrays]:
    """The outputs of each graph; logits (B,T,height,width)."""
    graphs, count = runner.manifest.graphs, len(texts[INPUT_IDS])
    inputs = {
        roles.TEXT: texts,
        roles.VISION: {PIXEL_VALUES: pixels},
        roles.MODEL: _for_each(len(pixels), texts) | {PIXEL_VALUES: np.repeat(pixels, count, axis=0)},
    }
    results = {role: runner.run(role, **one) for role, one in inputs.items() if role in graphs}
    if roles.MODEL in results:
        logits = results[roles.MODEL][LOGITS]
        results[roles.MODEL] = {LOGITS: logits.reshape(len(pixels), count, *logits.shape[1:])}
    if roles.MASK_DECODER in graphs:
        vectors = results[roles.TEXT] | results[roles.VISION]
        results[roles.MASK_DECODER] = runner.run(roles.MASK_DECODER, **vectors)
    return results


def _results(runner: GraphRunner, texts: Arrays, pixels: np.ndarray) -> dict[str, Arrays]:
    """The outputs of each graph."""
    graphs, repeated = runner.manifest.graphs, _for_each(len(pixels), texts)
    inputs = {
        roles.TEXT: texts,
        roles.VISION: {PIXEL_VALUES: pixels},
        roles.MODEL: repeated | {PIXEL_VALUES: pixels},
    }
    results = {role: runner.run(role, **one) for role, one in inputs.items() if role in graphs}
    if roles.SIMILARITY not in graphs:
        return results
    vectors = {
        TEXT_EMBEDS: results[roles.TEXT][TEXT_EMBEDS],
        IMAGE_EMBEDS: results[roles.VISION][IMAGE_EMBEDS],
    }
    return results | {roles.SIMILARITY: runner.run(roles.SIMILARITY, **vectors)}


def _for_each(count: int, texts: Arrays) -> Arrays:
    """The texts, as often as there are images."""
    return {name: np.tile(array, (count, 1)) for name, array in texts.items()}
