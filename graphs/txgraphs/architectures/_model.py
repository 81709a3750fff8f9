"""A model's graphs under construction, and the outputs of their layers."""

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from txexport.contracts import Signature, cache_names
from txexport.parts import last_before_norm, reads_stages, sums_layers
from txexport.spec import (
    AnchorStackSpec,
    ConditionalStackSpec,
    DeformableStackSpec,
    DistributionStackSpec,
    MapStackSpec,
    MediaStackSpec,
    MixedStackSpec,
    ModelSpec,
    ProposalStackSpec,
    QueryStackSpec,
    StackSpec,
    StagedStackSpec,
    TextStackSpec,
    TiledStackSpec,
)
from txgraphs._graph import Graph
from txgraphs.anchor_stack import anchor_encoder
from txgraphs.conditional_stack import conditional_encoder
from txgraphs.deformable_stack import deformable_encoder
from txgraphs.distribution_stack import distribution_encoder
from txgraphs.encoder_stack import signal_encoder
from txgraphs.map_stack import map_encoder
from txgraphs.mixed_stack import mixed_encoder
from txgraphs.proposal_stack import proposal_encoder
from txgraphs.query_stack import query_encoder
from txgraphs.stack import Given
from txgraphs.staged_stack import staged_encoder

Build = Callable[[str], Graph]  # returns an empty graph of that name with the model's parameters
Signatures = Mapping[str, Signature]
Values = dict[str, ir.Value]


def layers_of(spec: ModelSpec, graph: Graph, stack: StackSpec, name: str | None) -> Given:
    """The outputs of every layer of a stack that the graph promises, to be filled; `name` as LayerOutputs."""
    states: dict[str, ir.Value] | None = {} if sums_layers(spec) else None
    maps: dict[str, ir.Value] | None = {} if reads_stages(spec) else None
    return Given(graph.asked, name, last_before_norm(spec, stack), states, maps)


def signal_states(
    spec: MediaStackSpec,
    graph: Graph,
    inputs: Values,
    layers: Given,
    stack: str = "encoder",
) -> tuple[ir.Value, ir.Value | None]:
    """As `signal_encoder`, for a stack in stages too: last_hidden_state (B,S,W), and its mask if any.

    Of queries that refine boxes: the queries (B,Q,W), and boxes (B,Q,4), with scores of their edges if any.
    """
    if isinstance(spec, ProposalStackSpec):
        return proposal_encoder(spec, graph, inputs, stack)
    if isinstance(spec, DistributionStackSpec):
        return distribution_encoder(spec, graph, inputs, stack)
    if isinstance(spec, DeformableStackSpec):
        return deformable_encoder(spec, graph, inputs, stack)
    if isinstance(spec, ConditionalStackSpec):
        return conditional_encoder(spec, graph, inputs, stack)
    if isinstance(spec, AnchorStackSpec):
        return anchor_encoder(spec, graph, inputs, stack)
    if isinstance(spec, MixedStackSpec):
        return mixed_encoder(spec, graph, inputs, layers, stack)
    if isinstance(spec, MapStackSpec):
        return map_encoder(spec, graph, inputs, layers, stack), None
    if isinstance(spec, QueryStackSpec):
        return query_encoder(spec, graph, inputs, layers, stack), None
    if isinstance(spec, StagedStackSpec):
        (signal,) = inputs.values()
        return staged_encoder(spec, graph, signal, layers, stack), None
    assert not isinstance(spec, TiledStackSpec)  # which cross_vision_language alone reads
    return signal_encoder(spec, graph, inputs, layers, stack)


def add_layers(graph: Graph, given: Given) -> None:
    """Add the promised outputs of layers; values that are read further keep their names."""
    for name in [name for name in graph.promised if name in given.values]:
        graph.add_outputs({name: graph.op.Identity(given.values[name])})


def pair_of(inputs: Values, pair: tuple[str, str]) -> tuple[ir.Value, ...]:
    key, value = pair
    return inputs[key], inputs[value]


def named(pair: tuple[str, str], values: tuple[ir.Value, ...]) -> Values:
    return dict(zip(pair, values, strict=True))


def past_of(spec: TextStackSpec, inputs: Values) -> list[tuple[ir.Value, ...]]:
    """Each layer's past keys and values, or its states."""
    labels = (cache_names.of_layer(cache_names.PAST, layer, block) for layer, block in enumerate(spec.layers))
    return [tuple(inputs[name] for name in each) for each in labels]


def present_of(spec: TextStackSpec, present: Sequence[tuple[ir.Value, ...]]) -> Values:
    """As `past_of`, what a step leaves, by the names of outputs."""
    values: Values = {}
    for layer, (block, each) in enumerate(zip(spec.layers, present, strict=True)):
        values |= zip(cache_names.of_layer(cache_names.PRESENT, layer, block), each, strict=True)
    return values
