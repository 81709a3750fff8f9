"""The graph that aligns tokens with a sound: its weights beside the references'."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import (
    ALIGNMENT_WEIGHTS,
    ATTENTIONS,
    ENCODER_ATTENTION_MASK,
    INPUT_IDS,
    INPUTS_EMBEDS,
)
from txexport.runtime.preprocessing.text import pad
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.references.reference import Arrays

APART = (ALIGNMENT_WEIGHTS, INPUTS_EMBEDS, ENCODER_ATTENTION_MASK)


def pairs(
    runner: GraphRunner, rows: Sequence[list[int]], cross: Arrays, expected: Sequence[Arrays]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The weights (A,S,E) of each row, all in one pass, in pairs with those expected.

    Without the graph there are none, nor beside a bundle without it.
    """
    if roles.ALIGNMENT not in runner.manifest.graphs or ALIGNMENT_WEIGHTS not in expected[0]:
        return []
    result = weights(runner, rows, cross)[ALIGNMENT_WEIGHTS]
    triples = zip(result, rows, expected, strict=True)
    return [(array[:, : len(tokens)], truth[ALIGNMENT_WEIGHTS]) for array, tokens, truth in triples]


def weights(runner: GraphRunner, rows: Sequence[list[int]], cross: Mapping[str, np.ndarray]) -> Arrays:
    """The output of the graph for rows of tokens; empty without the graph."""
    graph = runner.manifest.graphs.get(roles.ALIGNMENT)
    if graph is None:
        return {}
    ids, _ = pad([row or [0] for row in rows], 0)
    inputs = {port.name: cross[port.name] for port in graph.inputs if port.name in cross}
    return runner.run(roles.ALIGNMENT, **{INPUT_IDS: ids}, **inputs)


def promised(runner: GraphRunner, expected: Iterable[str]) -> list[str]:
    """The outputs of a reference, without those that it gives for other graphs of such a model than these.

    They are weights for an alignment, vectors of tokens, and the mask of what an encoder shortened.
    """
    declared = {port.name for graph in runner.manifest.graphs.values() for port in graph.outputs}
    every = ATTENTIONS in runner.manifest.form.outputs
    return [
        name
        for name in expected
        if name in declared or (name not in APART and (every or kind_of(name) != ATTENTIONS))
    ]
