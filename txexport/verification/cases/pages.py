"""Cases of pages and queries, which have a vector for each token."""

import numpy as np

from txexport.contracts import roles
from txexport.contracts.contract import INT
from txexport.contracts.names import ATTENTION_MASK, EMBEDDINGS, IMAGE_FEATURES, INPUT_IDS
from txexport.parts.pages import PageCase
from txexport.parts.part import PixelInputs
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.runs import Outcome, by_graph
from txexport.verification.cases.sources import RolePairs
from txexport.verification.references.reference import Arrays, Reference, joined


def run_pages(runner: GraphRunner, reference: Reference, case: PageCase) -> list[Outcome]:
    """Vectors of images, and of every token; padding has zeros. The reference reads each row separately."""
    results = _results(runner, case)
    pairs: RolePairs = {}
    start = 0
    for row, mask in enumerate(case.attention_mask.astype(bool)):
        read = mask if case.separate else np.ones_like(mask)
        texts = {INPUT_IDS: case.input_ids, ATTENTION_MASK: case.attention_mask}
        text = {name: array[row : row + 1, read] for name, array in texts.items()}
        images = joined(case.images[row]) if case.images[row] else {}
        expected = reference.encode(text | images)
        vectors = results[roles.MODEL][EMBEDDINGS][row]  # (S, D)
        truth = np.zeros_like(vectors, dtype=expected[EMBEDDINGS].dtype)
        truth[read] = expected[EMBEDDINGS][0]
        pairs.setdefault((roles.MODEL, EMBEDDINGS), []).append((vectors, truth))
        if case.images[row] and roles.IMAGE_ENCODER in results:
            features = results[roles.IMAGE_ENCODER][IMAGE_FEATURES]
            end = start + len(expected[IMAGE_FEATURES])
            pair = features[start:end], expected[IMAGE_FEATURES]
            pairs.setdefault((roles.IMAGE_ENCODER, IMAGE_FEATURES), []).append(pair)
            start = end
    return by_graph(runner, pairs)


def _results(runner: GraphRunner, case: PageCase) -> dict[str, Arrays]:
    """The outputs of each graph. A graph that always takes an image gets zeros for one that no row has."""
    graphs = runner.manifest.graphs
    images: list[PixelInputs] = [image for row in case.images for image in row]
    tokens = {INPUT_IDS: case.input_ids, ATTENTION_MASK: case.attention_mask}
    if roles.IMAGE_ENCODER not in graphs:
        return {roles.MODEL: runner.run(roles.MODEL, **tokens, **joined(images or [_blank(runner)]))}
    results: dict[str, Arrays] = {}
    port = next(one for one in graphs[roles.MODEL].inputs if one.name == IMAGE_FEATURES)
    features = np.zeros((0, int(port.shape[1])), np.float32)
    if images:
        results[roles.IMAGE_ENCODER] = runner.run(roles.IMAGE_ENCODER, **joined(images))
        features = results[roles.IMAGE_ENCODER][IMAGE_FEATURES]
    return results | {roles.MODEL: runner.run(roles.MODEL, **tokens, **{IMAGE_FEATURES: features})}


def _blank(runner: GraphRunner) -> PixelInputs:
    """An image of zeros, of the smallest size that the graph takes."""
    result, side = {}, runner.manifest.spec["connector"]["merged"]
    for port in runner.manifest.graphs[roles.MODEL].inputs:
        if port.name in (INPUT_IDS, ATTENTION_MASK):
            continue
        if port.dtype == INT:
            result[port.name] = np.array([[1, side, side]])
        elif len(port.shape) == 2:
            result[port.name] = np.zeros((side**2, int(port.shape[1])), np.float32)
        else:
            result[port.name] = np.zeros(
                [one if isinstance(one, int) else 1 for one in port.shape], np.float32
            )
    return result
