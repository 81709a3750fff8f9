"""Stacks of layers, put together from a spec: one graph function call a component and layer."""

from typing import assert_never

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    Cache,
    ExpertsSpec,
    LogMelSpec,
    PatchSpec,
    RelativeSpec,
    RotarySpec,
    SignalStackSpec,
    TextStackSpec,
)
from txgraphs._graph import Graph
from txgraphs.block import decoder_block, encoder_block
from txgraphs.embedding import embedding
from txgraphs.experts import experts
from txgraphs.mask import biased_mask, cache_mask, causal_mask, near_mask, padding_mask
from txgraphs.norm import norm
from txgraphs.position import alibi, positions, relative_bias, rotation, token_positions
from txgraphs.signal import patch_embedding, sound_embedding
from txgraphs.sparse_block import sparse_encoder_block

KeyValues = list[tuple[ir.Value, ir.Value]]


def encoder(
    spec: TextStackSpec, graph: Graph, inputs: dict[str, ir.Value], word: str, stack: str = "encoder"
) -> ir.Value:
    """A stack that reads a whole sequence at once; the twin of txmodels' Encoder."""
    input_ids, attention_mask = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    op, padding = graph.builder.op, spec.embedding.position.pad_token_id
    start = op.Expand(graph.constant("start", [0]), op.Shape(input_ids, start=0, end=1))  # (B)
    order = graph.call(positions, input_ids, start, name="order")  # (B, S)
    places = order if padding is None else graph.call(token_positions(padding), input_ids, name="positions")
    # How far apart tokens are: linear biases do not count the padding between them.
    linear = isinstance(spec.relative, AlibiSpec)
    apart = op.Sub(op.CumSum(attention_mask, 1), 1) if linear else order  # (B, S)
    masks: dict[int | None, ir.Value] = {}
    for window in _windows(spec):
        if spec.causal:
            mask = graph.call(causal_mask(window), attention_mask, input_ids, order, name="mask")
        elif window is not None:
            mask = graph.call(near_mask(window), attention_mask, input_ids, order, name="mask")
        else:
            mask = graph.call(padding_mask, attention_mask, input_ids, name="mask")
        masks[window] = _bias(spec, graph, stack, apart, apart, mask)
    rotations = _rotations(spec, graph, order)
    x = _embed(spec, graph, stack, word, places, inputs)
    for layer, block in enumerate(spec.layers):
        name = f"{stack}.layers.{layer}"
        if block.sparse:
            x = sparse_encoder_block(block, graph, name, x, *(inputs[m] for m in block.attention.token_masks))
        else:
            mask, turns = masks[block.dense.window], rotations[block.dense.rotary]  # (B, 1, S, S)
            x = graph.call(encoder_block(block), x, mask, *turns, under=name)
            x = _mixture(block, graph, x, name)
    if spec.final_norm is not None:
        x = graph.call(norm(spec.final_norm), x, under=f"{stack}.final_norm")
    return x


def signal_encoder(spec: SignalStackSpec, graph: Graph, signal: ir.Value, name: str = "encoder") -> ir.Value:
    """A stack that reads a whole image or sound at once; the twin of txmodels' SignalEncoder."""
    match spec.embedding:
        case PatchSpec() as patches:
            x = graph.call(patch_embedding(patches), signal, under=f"{name}.embedding")
        case LogMelSpec() as sound:
            x = graph.call(sound_embedding(sound), signal, under=f"{name}.embedding")
        case kind:
            assert_never(kind)
    for layer, block in enumerate(spec.layers):
        x = graph.call(encoder_block(block), x, None, None, None, under=f"{name}.layers.{layer}")
    if spec.final_norm is not None:
        x = graph.call(norm(spec.final_norm), x, under=f"{name}.final_norm")
    return x


def decoder(
    spec: TextStackSpec,
    cache: Cache,
    graph: Graph,
    inputs: dict[str, ir.Value],
    word: str,
    past: KeyValues,
    cross: KeyValues | None,
) -> tuple[ir.Value, KeyValues]:
    """A stack that reads new tokens over a cache of past ones; the twin of txmodels' Decoder."""
    input_ids, cache_lengths = inputs[names.INPUT_IDS], inputs.get(names.CACHE_LENGTHS)
    places, masks = _over_cache(spec, cache, graph, inputs, past)
    cross_mask = None
    if names.ENCODER_ATTENTION_MASK in inputs:
        source = inputs[names.ENCODER_ATTENTION_MASK]
        cross_mask = graph.call(padding_mask, source, input_ids, name="cross_mask")  # (B, 1, S, E)
    rotations = _rotations(spec, graph, places)
    x = _embed(spec, graph, "decoder", word, places, inputs)
    present = []
    for layer, block in enumerate(spec.layers):
        mask = masks.get(block.dense.window)
        if cache == Cache.STATIC and block.dense.maskless_static:
            mask = None
        cross_k, cross_v = cross[layer] if cross else (None, None)
        turns, name = rotations[block.dense.rotary], f"decoder.layers.{layer}"
        x, k, v = graph.call(
            decoder_block(block, cache),
            *(x, mask, *turns, cache_lengths, *past[layer], cross_mask, cross_k, cross_v),
            under=name,
        )
        x = _mixture(block, graph, x, name)
        present.append((k, v))
    if spec.final_norm is not None:
        x = graph.call(norm(spec.final_norm), x, under="decoder.final_norm")
    return x, present


def _over_cache(
    spec: TextStackSpec, cache: Cache, graph: Graph, inputs: dict[str, ir.Value], past: KeyValues
) -> tuple[ir.Value, dict[int | None, ir.Value]]:
    """Positions of new tokens (B,S), and by window, where a layer needs one, the mask over the cache."""
    input_ids, op = inputs[names.INPUT_IDS], graph.builder.op
    masks: dict[int | None, ir.Value] = {}
    if cache == Cache.STATIC:
        cache_lengths, buffer = inputs[names.CACHE_LENGTHS], past[0][0]
        places = graph.call(positions, input_ids, cache_lengths, name="positions")  # (B, S)
        slots = op.Unsqueeze(op.Range(0, op.Squeeze(op.Shape(buffer, start=2, end=3)), 1), [0])  # (1, C)
        for window in _windows(spec, masked=True):
            mask = graph.call(
                cache_mask(window), cache_lengths, buffer, input_ids, name="mask"
            )  # (B, 1, S, C)
            masks[window] = _bias(spec, graph, "decoder", places, slots, mask)
        return places, masks
    attention_mask, given = inputs.get(names.ATTENTION_MASK), inputs.get(names.POSITION_IDS)
    length = op.Shape(past[0][0], start=2, end=3)  # P
    if attention_mask is None:
        attention_mask = _ones(graph, input_ids, length)
    if given is None:
        start = op.Expand(length, op.Shape(input_ids, start=0, end=1))  # (B)
        given = graph.call(positions, input_ids, start, name="positions")
    order = op.Sub(op.CumSum(attention_mask, 1), 1)  # (B, T): padding between tokens is no distance
    for window in _windows(spec):
        mask = graph.call(causal_mask(window), attention_mask, input_ids, order, name="mask")  # (B, 1, S, T)
        masks[window] = _bias(spec, graph, "decoder", given, order, mask)
    return given, masks


def _windows(spec: TextStackSpec, masked: bool = False) -> list[int | None]:
    """The windows of a stack's layers, each once; where `masked`, of those that lengths do not serve."""
    kinds = [block.dense for block in spec.blocks if not block.sparse]
    return list(dict.fromkeys(kind.window for kind in kinds if not (masked and kind.maskless_static)))


def _mixture(spec: BlockSpec, graph: Graph, x: ir.Value, under: str) -> ir.Value:
    """A mixture of experts in its residual, for a block that ends in one."""
    if not isinstance(spec.feed_forward, ExpertsSpec):
        return x
    inner = graph.call(norm(spec.norm), x, under=f"{under}.feed_forward_norm")
    return graph.builder.op.Add(x, experts(spec.feed_forward, graph, inner, f"{under}.feed_forward"))


def _embed(
    spec: TextStackSpec, graph: Graph, stack: str, word: str, places: ir.Value, inputs: dict[str, ir.Value]
) -> ir.Value:
    """The embedding call; its word matrix may be another stack's."""
    segments = inputs.get(names.TOKEN_TYPE_IDS)
    masked = spec.embedding.masked or spec.embedding.dropped is not None
    mask = inputs.get(names.ATTENTION_MASK) if masked else None
    tokens = inputs[names.INPUT_IDS], places, segments, mask
    return graph.call(embedding(spec.embedding), *tokens, graph.weight(word), under=f"{stack}.embedding")


def _rotations(
    spec: TextStackSpec, graph: Graph, places: ir.Value
) -> dict[RotarySpec | None, tuple[ir.Value | None, ir.Value | None]]:
    """Cosines and sines for every way of rotating that a layer has."""
    found: dict[RotarySpec | None, tuple[ir.Value | None, ir.Value | None]] = {}
    for kind in dict.fromkeys(block.dense.rotary for block in spec.blocks if not block.sparse):
        found[kind] = (None, None) if kind is None else graph.call(rotation(kind), places, name="rotation")
    return found


def _bias(
    spec: TextStackSpec, graph: Graph, stack: str, queries: ir.Value, keys: ir.Value, mask: ir.Value
) -> ir.Value:
    """The mask, with the bias of relative positions where there is one."""
    match spec.relative:
        case None:
            return mask
        case AlibiSpec() as kind:
            bias = graph.call(alibi(kind), queries, keys, name="alibi")
        case RelativeSpec() as kind:
            bias = graph.call(relative_bias(kind), queries, keys, under=f"{stack}.relative")
        case unknown:
            assert_never(unknown)
    return graph.call(biased_mask, bias, mask, name="biased_mask")


def _ones(graph: Graph, input_ids: ir.Value, length: ir.Value) -> ir.Value:
    """A mask (B,P+S) that hides nothing."""
    op = graph.builder.op
    batch, new = op.Shape(input_ids, start=0, end=1), op.Shape(input_ids, start=1, end=2)
    return op.Expand(graph.constant("one", [1]), op.Concat(batch, op.Add(length, new), axis=0))
