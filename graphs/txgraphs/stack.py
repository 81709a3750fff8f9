"""Stacks of layers, put together from a spec: one graph function call a component and layer."""

from collections.abc import Callable
from typing import assert_never

import onnx_ir as ir

from txexport.contracts import names
from txexport.contracts.layer_outputs import LayerOutputs
from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    Cache,
    MaskedAttentionSpec,
    PositionedAttentionSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RotarySpec,
    RoundedAlibiSpec,
    SignalStackSpec,
    SinusoidVectorsSpec,
    StackSpec,
    TextStackSpec,
)
from txgraphs._graph import Graph
from txgraphs._nodes import Place
from txgraphs.block import decoder_block, encoder_block
from txgraphs.disentangled_attention import relative_vectors
from txgraphs.inputs import signal_embedding
from txgraphs.inputs.tokens import embedding
from txgraphs.mask import (
    biased_mask,
    cache_mask,
    causal_mask,
    filled_slots,
    filled_then,
    mutual_mask,
    near_mask,
    padding_mask,
    single_token,
)
from txgraphs.norm import norm
from txgraphs.position import (
    alibi,
    asked_positions,
    patch_rotation,
    positions,
    relative_bias,
    rotation,
    rounded_alibi,
    token_positions,
)
from txgraphs.transformer_xl_attention import other_segments, sinusoid_vectors

Values = dict[str, ir.Value | None]
Masks = dict[int | None, ir.Value]
KeyValues = list[tuple[ir.Value, ir.Value]]
Given = LayerOutputs[ir.Value]
Embed = Callable[[ir.Value], ir.Value]  # positions (B,S) -> x (B,S,W)


def encoder(
    spec: TextStackSpec,
    graph: Graph,
    inputs: dict[str, ir.Value],
    given: Given,
    stack: str = "encoder",
) -> ir.Value:
    """A stack that reads a whole sequence at once; the twin of txmodels' Encoder."""
    input_ids, attention_mask = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    op, padding = graph.op, spec.embedding.position.pad_token_id
    start = op.Expand(graph.constant("start", [0]), op.Shape(input_ids, start=0, end=1))  # (B)
    order = graph.call(positions, input_ids, start, name="order")  # (B, S)
    places = order if padding is None else graph.call(token_positions(padding), input_ids, name="positions")
    # How far apart tokens are: linear biases do not count the padding between them.
    linear = isinstance(spec.relative, AlibiSpec | RoundedAlibiSpec)
    apart = op.Sub(op.CumSum(attention_mask, 1), 1) if linear else order  # (B, S)
    masks: Masks = {}
    for window in dict.fromkeys(kind.window for kind in _masked(spec)):
        if spec.causal:
            mask = graph.call(causal_mask(window), attention_mask, input_ids, order, name="mask")
        elif window is not None:
            mask = graph.call(near_mask(window), attention_mask, input_ids, order, name="mask")
        else:
            mask = graph.call(padding_mask, attention_mask, input_ids, name="mask")
        masks[window] = mask  # (B, 1, S, S)
    biased = _biased(spec, graph, stack, masks, apart, apart, range(spec.num_layers))
    rotations, relative = _rotations(spec, graph, order), _related(spec, graph, stack, inputs)
    x = embedded(spec, graph, stack, inputs, places)  # (B, S, W)
    for layer, block in enumerate(spec.layers):
        context = _context(block, inputs, biased[layer], rotations, relative)
        x = _through(block, graph / f"{stack}.layers.{layer}", x, context, given)
    return _normed(spec, graph, stack, x, given)


def signal_encoder(
    spec: SignalStackSpec, graph: Graph, signal: ir.Value, given: Given, stack: str = "encoder"
) -> ir.Value:
    """A stack that reads a whole image or sound at once; the twin of txmodels' SignalEncoder."""
    context: Values = {"mask": None, "cos": None, "sin": None}
    if spec.rotary is not None:
        turning = patch_rotation(spec.patches, spec.rotary, graph.dtype)
        context["cos"], context["sin"] = graph.call(turning, signal, name="rotation")  # (B, S, R)
    x = signal_embedding(spec, graph / f"{stack}.embedding", signal)  # (B, S, W)
    for layer, block in enumerate(spec.layers):
        x = _through(block, graph / f"{stack}.layers.{layer}", x, context, given)
    return _normed(spec, graph, stack, x, given)


def decoder(
    spec: TextStackSpec,
    cache: Cache,
    graph: Graph,
    inputs: dict[str, ir.Value],
    past: KeyValues,
    cross: KeyValues | None,
    given: Given,
    embed: Embed,
    logits_indices: ir.Value | None = None,
) -> tuple[ir.Value, KeyValues]:
    """A stack that reads new tokens over a cache of past ones; the twin of txmodels' Decoder.

    `embed` gives the vectors of the new tokens at their positions. With logits_indices (B,L), over a static
    cache, the last layer computes of those tokens alone what is not kept: x is (B,L,W).
    """
    inputs = _with_ids(graph, inputs)
    input_ids, slots, room = inputs[names.INPUT_IDS], past[0][0], {}
    if cache == Cache.STATIC and names.CACHE_LENGTHS not in inputs:
        inputs, slots = _shared(graph, inputs)
        room = {"used": graph.op.Shape(slots, start=2, end=3)}
    cache_lengths = inputs.get(names.CACHE_LENGTHS)
    if cache == Cache.STATIC:
        places, masks = _over_slots(spec, graph, inputs, slots, given.weighted, logits_indices)
    else:
        places, masks = _over_past(spec, graph, inputs, slots)
    cross_mask = None
    if names.ENCODER_ATTENTION_MASK in inputs:
        mask = inputs[names.ENCODER_ATTENTION_MASK]
        cross_mask = graph.call(padding_mask, mask, input_ids, name="cross_mask")  # (B, 1, S, E)
    rotations = _rotations(spec, graph, places, short=cache == Cache.STATIC)
    x = embed(places)  # (B, S, W)
    present, filled, single = [], None, None
    for layer, block in enumerate(spec.layers):
        context = _context(block, inputs, masks[layer], rotations, {})
        if logits_indices is not None and layer == spec.num_layers - 1:
            context[names.LOGITS_INDICES] = logits_indices
        elif cache == Cache.STATIC and not given.weighted:
            if block.masked.shares_keys and not room:  # graphs for other clients do not branch
                single = single or graph.call(single_token, input_ids, name="single")
                context["single"] = single
            if block.masked.maskless_static:
                filled = filled or graph.call(filled_then, input_ids, cache_lengths, name="filled")
                context |= {"mask": None, "filled": filled}
        past_k, past_v = past[layer]
        context |= {"past_k": past_k, "past_v": past_v, **room}
        place = graph / f"decoder.layers.{layer}"
        source = None if cross is None else _source(cross_mask, *cross[layer])
        given.hidden(x)
        x, k, v, *weights = decoder_block(
            block, given.weighted, cache, place, x, source, cache_lengths=cache_lengths, **context
        )
        given.weights(*weights)
        present.append((k, v))
    return _normed(spec, graph, "decoder", x, given), present


def _through(
    block: BlockSpec, place: Place, x: ir.Value, context: dict[str, ir.Value | None], given: Given
) -> ir.Value:
    """x (B,S,W) -> what an encoder's layer makes of it (B,S,W)."""
    given.hidden(x)
    x, *weights = encoder_block(block, given.weighted, place, x, **context)
    given.weights(*weights)
    return x


def _normed(spec: StackSpec, graph: Graph, stack: str, x: ir.Value, given: Given) -> ir.Value:
    """What the last layer made (B,S,W) -> the same in the stack's final norm, where there is one."""
    y = x if spec.final_norm is None else norm(spec.final_norm, graph / f"{stack}.final_norm", x)
    given.last(x, y)
    return y


def _shared(graph: Graph, inputs: dict[str, ir.Value]) -> tuple[dict[str, ir.Value], ir.Value]:
    """Of a shared buffer: inputs with cache_lengths in place of the mask (B,T), and that mask as (B,1,T)."""
    mask = inputs[names.ATTENTION_MASK]
    filled = graph.call(filled_slots, mask, inputs[names.INPUT_IDS], name=names.CACHE_LENGTHS)
    others = {name: value for name, value in inputs.items() if name != names.ATTENTION_MASK}
    return {**others, names.CACHE_LENGTHS: filled}, graph.op.Unsqueeze(mask, [1])


def _over_slots(
    spec: TextStackSpec,
    graph: Graph,
    inputs: dict[str, ir.Value],
    past_k: ir.Value,
    weighted: bool,
    logits_indices: ir.Value | None,
) -> tuple[ir.Value, list[Masks]]:
    """Positions of new tokens (B,S), and of each layer by window the masks (B,1,S,C) that are read.

    past_k (B,K,C,H), or what else tells C as the third dimension. With logits_indices (B,L) the last layer's
    masks are (B,1,L,C).
    """
    input_ids, cache_lengths = inputs[names.INPUT_IDS], inputs[names.CACHE_LENGTHS]
    slots = graph.call(positions, input_ids, cache_lengths, name="positions")  # (B, S)
    places = inputs.get(names.POSITION_IDS, slots)  # those of the slots, unless they are given
    every = range(spec.num_layers)
    if logits_indices is None:
        return places, _slot_masks(spec, graph, every, slots, past_k, weighted)
    asked = graph.call(asked_positions, logits_indices, cache_lengths, name="positions")  # (B, L)
    before = _slot_masks(spec, graph, every[:-1], slots, past_k, weighted)
    return places, before + _slot_masks(spec, graph, every[-1:], asked, past_k, True)


def _slot_masks(
    spec: TextStackSpec, graph: Graph, layers: range, places: ir.Value, past_k: ir.Value, all_read: bool
) -> list[Masks]:
    """Of some layers by window the masks (B,1,S,C), of queries at `places` (B,S), that are read."""
    op, masks = graph.op, Masks()
    kinds = [spec.layers[layer].masked for layer in layers]
    for window in dict.fromkeys(kind.window for kind in kinds if all_read or not kind.maskless_static):
        masks[window] = graph.call(cache_mask(window), places, past_k, name="mask")  # (B, 1, S, C)
    if spec.relative is None or not layers:
        return [masks] * len(layers)
    slots = op.Unsqueeze(op.Range(0, op.Squeeze(op.Shape(past_k, start=2, end=3)), 1), [0])  # (1, C)
    return _biased(spec, graph, "decoder", masks, places, slots, layers)


def _over_past(
    spec: TextStackSpec, graph: Graph, inputs: dict[str, ir.Value], past_k: ir.Value
) -> tuple[ir.Value, list[Masks]]:
    """Positions of new tokens (B,S), and of each layer by window the mask over a growing cache (B,1,S,T)."""
    input_ids, op = inputs[names.INPUT_IDS], graph.op
    attention_mask, position_ids = inputs.get(names.ATTENTION_MASK), inputs.get(names.POSITION_IDS)
    length = op.Shape(past_k, start=2, end=3)  # P
    if attention_mask is None:
        attention_mask = _ones(graph, input_ids, length)
    if position_ids is None:
        start = op.Expand(length, op.Shape(input_ids, start=0, end=1))  # (B)
        position_ids = graph.call(positions, input_ids, start, name="positions")
    order = op.Sub(op.CumSum(attention_mask, 1), 1)  # (B, T): padding between tokens is no distance
    masks: Masks = {}
    for window in dict.fromkeys(kind.window for kind in _masked(spec)):
        mask = graph.call(causal_mask(window), attention_mask, input_ids, order, name="mask")  # (B, 1, S, T)
        masks[window] = mask
    return position_ids, _biased(spec, graph, "decoder", masks, position_ids, order, range(spec.num_layers))


def _masked(spec: TextStackSpec) -> list[MaskedAttentionSpec]:
    """The attentions of a stack that read a mask of pairs."""
    return [block.attention for block in spec.blocks if isinstance(block.attention, MaskedAttentionSpec)]


def _context(
    block: BlockSpec,
    inputs: dict[str, ir.Value],
    masks: Masks,
    rotations: dict[RotarySpec | None, Values],
    relative: Values,
) -> Values:
    """What a block's attention reads.

    Masks of tokens (B,S), or one of pairs (B,1,S,T) and a rotation, or `relative` positions.
    """
    if isinstance(block.attention, PositionedAttentionSpec):
        return relative
    if not isinstance(block.attention, MaskedAttentionSpec):
        return {name: inputs[name] for name in block.attention.token_masks}
    return {"mask": masks.get(block.attention.window)} | rotations[block.attention.rotary]


def _with_ids(graph: Graph, inputs: dict[str, ir.Value]) -> dict[str, ir.Value]:
    """The inputs with ids (B,S), of zeros where vectors (B,S,W) come in their place: they tell B and S."""
    if names.INPUT_IDS in inputs:
        return inputs
    op = graph.op
    size = op.Shape(inputs[names.INPUTS_EMBEDS], start=0, end=2)
    return {**inputs, names.INPUT_IDS: op.Expand(graph.constant("no_id", [0]), size)}


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
    return embedding(spec.embedding, graph / f"{stack}.embedding", *tokens)


def _rotations(
    spec: TextStackSpec, graph: Graph, places: ir.Value, short: bool = False
) -> dict[RotarySpec | None, Values]:
    """Cosines and sines for every way of rotating that a layer has, of `short` sequences alone.

    A static cache has places of padding, which tell nothing of how long a sequence is.
    """
    rotations: dict[RotarySpec | None, Values] = {}
    for kind in dict.fromkeys(attention.rotary for attention in _masked(spec)):
        cos = sin = None
        if kind is not None:
            turned = rotation(kind.of_short if short else kind, graph.dtype)
            cos, sin = graph.call(turned, places, name="rotation")
        rotations[kind] = {"cos": cos, "sin": sin}
    return rotations


def _related(spec: TextStackSpec, graph: Graph, stack: str, inputs: dict[str, ir.Value]) -> Values:
    """What attention that reads vectors of relative positions has of masks and types of tokens (B,S)."""
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


def _biased(
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
        case None | RelativeVectorsSpec() | SinusoidVectorsSpec():
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


def _ones(graph: Graph, input_ids: ir.Value, length: ir.Value) -> ir.Value:
    """A mask (B,P+S) that hides nothing."""
    op = graph.op
    batch, new = op.Shape(input_ids, start=0, end=1), op.Shape(input_ids, start=1, end=2)
    return op.Expand(graph.constant("one", [1]), op.Concat(batch, op.Add(length, new), axis=0))


def _source(mask: ir.Value | None, k: ir.Value, v: ir.Value) -> Values:
    """What cross-attention reads: a mask (B,1,S,E), keys and values (B,K,E,H)."""
    return {"mask": mask, "k": k, "v": v}
