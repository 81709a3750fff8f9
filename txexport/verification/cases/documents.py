"""Cases of pages: words in their boxes, and images."""

from collections.abc import Mapping

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import (
    ATTENTION_MASK,
    BBOX,
    INPUT_IDS,
    PAGE_LENGTH,
    PIXEL_VALUES,
    SEQUENCE_LENGTH,
    TOKEN_TYPE_IDS,
)
from txexport.parts.documents import DocumentCase
from txexport.verification.cases import layers
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.runs import Outcome, check_complete, check_declared
from txexport.verification.cases.sources import Pairs
from txexport.verification.references.reference import Arrays, Reference


def run_document(runner: GraphRunner, reference: Reference, case: DocumentCase) -> list[Outcome]:
    """Every output over a padded batch of pages; patches follow the tokens, and have no padding."""
    graph, inputs = runner.manifest.graphs[roles.MODEL], _inputs(runner, case)
    result = runner.run(**inputs)
    check_declared(runner, result)
    lengths = {port.name: port.shape[1] for port in graph.outputs if len(port.shape) > 1}
    batch = None if case.separate else reference.encode(inputs)
    pairs: dict[str, Pairs] = {name: [] for name in result}
    for row, mask in enumerate(case.attention_mask.astype(bool)):
        every = np.concatenate([mask, np.ones(case.patches, bool)])
        real: dict[int | str, np.ndarray] = {SEQUENCE_LENGTH: mask, PAGE_LENGTH: every}
        if batch is None:
            single = reference.encode(_row(inputs, row, mask))
            expected = {name: layers.among(name, array[0], every) for name, array in single.items()}
        else:
            expected = _without_padding(batch, row, lengths, real)
        check_complete(result, expected)
        for name, array in _without_padding(result, row, lengths, real).items():
            pairs[name].append((array, expected[name]))
    return [Outcome(name, pairs[name]) for name in pairs]


def _inputs(runner: GraphRunner, case: DocumentCase) -> Arrays:
    """The graph's inputs of the case."""
    inputs = {
        INPUT_IDS: case.input_ids,
        ATTENTION_MASK: case.attention_mask,
        TOKEN_TYPE_IDS: case.token_type_ids,
        BBOX: case.bbox,
        PIXEL_VALUES: case.pixel_values,
    }
    read = {port.name: inputs[port.name] for port in runner.manifest.graphs[roles.MODEL].inputs}
    return {name: array for name, array in read.items() if array is not None}


def _row(inputs: Arrays, row: int, mask: np.ndarray) -> Arrays:
    """The inputs of one row, without padding."""
    return {
        name: array[row : row + 1] if name == PIXEL_VALUES else array[row : row + 1, mask]
        for name, array in inputs.items()
    }


def _without_padding(
    outputs: Arrays, row: int, lengths: Mapping[str, int | str], real: Mapping[int | str, np.ndarray]
) -> Arrays:
    """One row of a batch's outputs; `real` has the vectors that are no padding, by the length of outputs."""
    result: Arrays = {}
    for name, array in outputs.items():
        vectors = real.get(lengths.get(name, ""))
        by_token = {name} if vectors is not None and layers.kind_of(name) is None else ()
        within = real[PAGE_LENGTH]
        result |= layers.without_padding(by_token, {name: array}, row, within if vectors is None else vectors)
    return result
