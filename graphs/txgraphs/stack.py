"""The base of encoders and decoders of tokens: embeddings, masks, rotations, relative positions."""

from typing import assert_never

import onnx_ir as ir

from txexport.contracts import names
from txexport.contracts.layer_outputs import LayerOutputs
from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    FourierMixingSpec,
    MaskedAttentionSpec,
    PageBiasSpec,
    PositionedAttentionSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RotarySpec,
    RoundedAlibiSpec,
    SinusoidVectorsSpec,
    StackSpec,
    TextStackSpec,
)
from txexport.spec.attention import Reach
from txgraphs._graph import Graph
from txgraphs.disentangled_attention import relative_vectors
from txgraphs.fourier_mixing import fourier_tables
from txgraphs.inputs.tokens import embedding
from txgraphs.mask import biased_mask, mutual_mask, padding_mask
from txgraphs.norm import norm
from txgraphs.position import alibi, query_growth, relative_bias, rotation, rounded_alibi
from txgraphs.transformer_xl_attention import other_segments, sinusoid_vectors

Values = dict[str, ir.Value | None]
Masks = dict[Reach, ir.Value]
Given = LayerOutputs[ir.Value]


def masked_attentions(spec: TextStackSpec) -> list[MaskedAttentionSpec]:
    """The attentions of a stack that read a mask of pairs."""
    return [block.attention for block in spec.blocks if isinstance(block.attention, MaskedAttentionSpec)]


def layer_context(
    block: BlockSpec,
    inputs: dict[str, ir.Value],
    masks: Masks,
    rotations: dict[RotarySpec | None, Values],
    relative: Values,
) -> Values:
    """The inputs of a block's attention but the hidden states.

    Masks of tokens (B,S), or one of pairs (B,1,S,T) and a rotation, or `relative` positions, or tables.
    """
    if isinstance(block.attention, PositionedAttentionSpec | FourierMixingSpec):
        return relative
    if not isinstance(block.attention, MaskedAttentionSpec):
        return {name: inputs[name] for name in block.attention.token_masks}
    return {"mask": masks.get(block.attention.reach)} | rotations[block.attention.rotary]


def embedded(
    spec: TextStackSpec, graph: Graph, stack: str, inputs: dict[str, ir.Value], places: ir.Value
) -> ir.Value:
    """Vectors (B,S,W) of token ids at `places` (B,S), or those that a contract takes in place of the ids.

    A mask is read only where the embedding needs it.
    """
    if names.INPUTS_EMBEDS in inputs:
        return inputs[names.INPUTS_EMBEDS]
    masked = spec.embedding.masked or spec.embedding.dropped is not None
    mask = inputs.get(names.ATTENTION_MASK) if masked else None
    tokens = inputs[names.INPUT_IDS], places, inputs.get(names.TOKEN_TYPE_IDS), mask
    reads = spec.embedding.image_token_id is not None and names.IMAGE_FEATURES in inputs
    images = {"image_features": inputs[names.IMAGE_FEATURES]} if reads else {}
    if spec.embedding.boxes is not None:
        images["boxes"] = inputs[names.BBOX]
    if spec.embedding.page is not None:
        images["pixel_values"] = inputs[names.PIXEL_VALUES]
    return embedding(spec.embedding, graph / f"{stack}.embedding", *tokens, **images)


def rotary_context(
    spec: TextStackSpec, graph: Graph, places: ir.Value, short: bool = False
) -> dict[RotarySpec | None, Values]:
    """Cosines and sines for every way of rotating that a layer has, of `short` sequences alone.

    A static cache has places of padding, which tell nothing of how long a sequence is.
    """
    rotations: dict[RotarySpec | None, Values] = {}
    for kind in dict.fromkeys(attention.rotary for attention in masked_attentions(spec)):
        cos = sin = None
        if kind is not None:
            turned = rotation(kind.of_short if short else kind, graph.dtype)
            cos, sin = graph.call(turned, places, name="rotation")
        rotations[kind] = {"cos": cos, "sin": sin}
        if kind is not None and kind.growth is not None:
            factors = query_growth(kind.growth, graph.dtype)
            rotations[kind]["growth"] = graph.call(factors, places, name="growth")
    return rotations


def relative_context(spec: TextStackSpec, graph: Graph, stack: str, inputs: dict[str, ir.Value]) -> Values:
    """Masks and vectors for attention over relative positions, of masks and token types (B,S)."""
    attention_mask = inputs[names.ATTENTION_MASK]
    match spec.relative:
        case RelativeVectorsSpec() as kind:
            place = graph / f"{stack}.relative"
            vectors, of_query, of_key = relative_vectors(kind, place, attention_mask)
            mask = graph.call(mutual_mask, attention_mask, name="mask")  # (B, 1, S, S)
            return {"mask": mask, "vectors": vectors, "of_query": of_query, "of_key": of_key}
        case SinusoidVectorsSpec() as kind:
            vectors, of_query = graph.call(
                sinusoid_vectors(kind, graph.dtype), attention_mask, name="vectors"
            )
            mask = graph.call(padding_mask, attention_mask, attention_mask, name="mask")  # (B, 1, S, S)
            apart = graph.call(other_segments, inputs[names.TOKEN_TYPE_IDS], name="apart")  # (B, 1, S, S)
            return {"mask": mask, "vectors": vectors, "of_query": of_query, "apart": apart}
    return {}


def fourier_context(spec: TextStackSpec, graph: Graph, tokens: ir.Value) -> Values:
    """The tables of Fourier transforms over tokens (B,S), where layers have any."""
    for block in spec.blocks:
        if isinstance(block.attention, FourierMixingSpec):
            tables = graph.call(fourier_tables(block.attention, graph.dtype), tokens, name="fourier")
            return dict(zip(block.attention.tables, tables, strict=True))
    return {}


def biased_masks(
    spec: TextStackSpec,
    graph: Graph,
    stack: str,
    masks: Masks,
    queries: ir.Value,
    keys: ir.Value,
    layers: range,
) -> list[Masks]:
    """Of each layer the masks (B,1,S,T), with its bias of relative positions (B,N,S,T) where there is one."""
    match spec.relative:
        case None | RelativeVectorsSpec() | SinusoidVectorsSpec() | PageBiasSpec():
            return [masks] * len(layers)
        case AlibiSpec() as kind:
            biases = [graph.call(alibi(kind, graph.dtype), queries, keys, name="alibi")]
        case RoundedAlibiSpec() as kind:
            biases = [graph.call(rounded_alibi(kind, graph.dtype), queries, keys, name="alibi")]
        case RelativeSpec() as kind:
            own = [f".{layer}" for layer in layers] if kind.every_layer else [""]
            biases = [relative_bias(kind, graph / f"{stack}.relative{part}", queries, keys) for part in own]
        case unknown:
            assert_never(unknown)
    biased: list[Masks] = [
        {window: graph.call(biased_mask, bias, mask, name="biased_mask") for window, mask in masks.items()}
        for bias in biases
    ]
    return biased if len(biased) > 1 else biased * len(layers)


def final_normed(spec: StackSpec, graph: Graph, stack: str, x: ir.Value, given: Given) -> ir.Value:
    """The last layer's output (B,S,W) -> the stack's, after the optional final norm."""
    y = x if spec.final_norm is None else norm(spec.final_norm, graph / f"{stack}.final_norm", x)
    given.last(x, y)
    return y
