"""The parts that several architectures share."""

from collections.abc import Collection

import torch
from torch import Tensor

from txexport.parts import last_before_norm, reads_stages, sums_layers
from txexport.spec import (
    AnchorStackSpec,
    ConditionalStackSpec,
    DeformableStackSpec,
    DistributionStackSpec,
    MapStackSpec,
    MixedStackSpec,
    ModelSpec,
    ProposalStackSpec,
    QueryStackSpec,
    StackSpec,
    StagedStackSpec,
    TextStackSpec,
    TiledStackSpec,
)
from txmodels.anchor_stack import AnchorEncoder
from txmodels.conditional_stack import ConditionalEncoder
from txmodels.decoder_stack import KeyValues
from txmodels.deformable_stack import DeformableEncoder
from txmodels.distribution_stack import DistributionEncoder
from txmodels.encoder_stack import Encoder, SignalEncoder
from txmodels.map_stack import MapEncoder
from txmodels.mixed_stack import MixedEncoder
from txmodels.proposal_stack import ProposalEncoder
from txmodels.query_stack import QueryEncoder
from txmodels.stack import Given
from txmodels.staged_stack import StagedEncoder


def layers_of(spec: ModelSpec, outputs: Collection[str], stack: StackSpec, name: str | None) -> Given:
    """The `outputs` of every layer of a stack, to be filled; `name` as LayerOutputs."""
    states: dict[str, Tensor] | None = {} if sums_layers(spec) else None
    maps: dict[str, Tensor] | None = {} if reads_stages(spec) else None
    return Given(outputs, name, last_before_norm(spec, stack), states, maps)


def encoder(
    spec: StackSpec, weighted: bool
) -> (
    Encoder
    | SignalEncoder
    | StagedEncoder
    | QueryEncoder
    | ProposalEncoder
    | DeformableEncoder
    | DistributionEncoder
    | ConditionalEncoder
    | AnchorEncoder
    | MixedEncoder
    | MapEncoder
):
    """The module of a stack that reads its whole input at once."""
    if isinstance(spec, ProposalStackSpec):
        return ProposalEncoder(spec)
    if isinstance(spec, DistributionStackSpec):
        return DistributionEncoder(spec)
    if isinstance(spec, DeformableStackSpec):
        return DeformableEncoder(spec)
    if isinstance(spec, ConditionalStackSpec):
        return ConditionalEncoder(spec)
    if isinstance(spec, AnchorStackSpec):
        return AnchorEncoder(spec)
    if isinstance(spec, MixedStackSpec):
        return MixedEncoder(spec)
    if isinstance(spec, MapStackSpec):
        return MapEncoder(spec)
    if isinstance(spec, QueryStackSpec):
        return QueryEncoder(spec)
    if isinstance(spec, StagedStackSpec):
        return StagedEncoder(spec)
    assert not isinstance(spec, TiledStackSpec)  # which CrossVisionLanguageModel alone reads
    return Encoder(spec, weighted) if isinstance(spec, TextStackSpec) else SignalEncoder(spec, weighted)


def empty_past(spec: TextStackSpec, batch: int, capacity: int = 0) -> KeyValues:
    """An empty cache: zeros (B,K,capacity,H) for each layer with keys, and its states."""
    past: KeyValues = []
    for block in spec.layers:
        pair = block.masked.cache_shapes if block.has_keys else ()
        keys = [torch.zeros(batch, heads, capacity, size) for heads, size in pair]
        past.append((*keys, *(torch.zeros(batch, *shape) for shape in block.states.values())))
    return past
