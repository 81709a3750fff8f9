"""Decoders: stacks that read new tokens over a cache of past ones."""

from collections.abc import Callable, Mapping

import onnx_ir as ir

from txexport.contracts import cache_names, names
from txexport.spec import BlockSpec, Cache, MaskedAttentionSpec, TextStackSpec, TimeMixSpec
from txgraphs._graph import Graph
from txgraphs.block import decoder_block, hybrid_block, shared_block, stateful_block
from txgraphs.group_mask import grouped_cache_mask, grouped_causal_mask, prefix_groups
from txgraphs.joined_block import joined_block
from txgraphs.layer_inputs import layer_inputs
from txgraphs.mask import (
    cache_mask,
    causal_mask,
    filled_behind,
    filled_slots,
    filled_then,
    near_slots,
    padding_mask,
    single_token,
)
from txgraphs.mixing_block import mixing_block
from txgraphs.new_tokens import new_tokens, ones
from txgraphs.position import asked_positions, positions
from txgraphs.source_block import source_block
from txgraphs.stack import (
    Given,
    Masks,
    Values,
    biased_masks,
    final_normed,
    layer_context,
    masked_attentions,
    rotary_context,
)
from txgraphs.streams import expanded_streams, merged_streams

KeyValues = list[tuple[ir.Value, ...]]  # keys and values of each layer, and its states
Embed = Callable[[ir.Value | None], ir.Value]  # positions (B,S), or none -> x (B,S,W)


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
    groups: ir.Value | None = None,
) -> tuple[ir.Value, KeyValues]:
    """A stack that reads new tokens over a cache of past ones; the twin of txmodels' Decoder.

    `embed` gives the vectors of the new tokens at their positions. With logits_indices (B,L), over a static
    cache, the last layer writes the keys and values of all tokens, and computes the rest for those indices
    only: x is (B,L,W). New tokens of one of the `groups` (B,S), -1 for none, see each other, and so do those
    of a prefix, where the inputs have its length. Inputs DEEP_FEATURES (B,S,W), if there are any, are added
    to the output of the layer of their number. Layers that attend to images read IMAGE_MASK (B,S,E),
    SEES_IMAGES (B,S,1), and keys and values of images.
    """
    inputs = _with_ids(graph, inputs)
    input_ids, room = inputs[names.INPUT_IDS], {}
    slots = keys_of(spec, past) if spec.has_keys else None
    new = {}
    if spec.stateful:
        counted = map(inputs.get, (names.ATTENTION_MASK, names.NEW_LENGTHS, names.CACHE_LENGTHS))
        new = new_tokens(spec, graph, input_ids, slots, *counted)
    if slots is not None and cache == Cache.STATIC and names.CACHE_LENGTHS not in inputs:
        inputs, slots = _shared(graph, inputs)
        room = {"used": graph.op.Shape(slots, start=2, end=3)}
    cache_lengths = inputs.get(names.CACHE_LENGTHS)
    placed: tuple[ir.Value | None, list[Masks]] = None, no_masks(spec)
    new_slots: ir.Value | None = None
    if slots is not None and cache == Cache.STATIC:
        new_slots = graph.call(positions, input_ids, cache_lengths, name="positions")  # (B, S)
        placed = _over_slots(spec, graph, inputs, slots, new_slots, given.weighted, logits_indices, groups)
    elif slots is not None:
        placed = _over_past(spec, graph, inputs, slots, groups)
    places, masks = placed
    cross_mask = None
    if names.ENCODER_ATTENTION_MASK in inputs:
        mask = inputs[names.ENCODER_ATTENTION_MASK]
        cross_mask = graph.call(padding_mask, mask, input_ids, name="cross_mask")  # (B, 1, S, E)
    rotations = {} if places is None else rotary_context(spec, graph, places, short=cache == Cache.STATIC)
    x = tokens = embed(places)  # (B, S, W)
    vectors = _inputs_of_layers(spec, graph, input_ids, x)
    if spec.streams is not None:
        x = expanded_streams(spec.streams, graph / "decoder.expand", x)  # (B, S, A, W)
    present: KeyValues = []
    filled = single = None
    grouped = groups is not None or names.PREFIX_LENGTHS in inputs
    everywhere = room or grouped or given.weighted or graph.captured or spec.relative is not None
    by_window = new_slots is not None and not everywhere  # windows bound the slots that are read
    near: dict[int | None, dict[str, ir.Value]] = {}
    for layer, block in enumerate(spec.layers):
        context = layer_context(block, inputs, masks[layer], rotations, {})
        if logits_indices is not None and layer == spec.num_layers - 1:
            context[names.LOGITS_INDICES] = logits_indices
        if block.crosses:
            given.hidden(x)
            k, v = (inputs[name] for name in cache_names.past(layer, cache_names.ENCODER))
            images = inputs[names.IMAGE_MASK], inputs[names.SEES_IMAGES], k, v
            asked_for = context.get(names.LOGITS_INDICES)
            x = source_block(block, graph / f"decoder.layers.{layer}", x, *images, asked_for)
            present.append(())
            continue
        if not block.attends:
            given.hidden(x)
            states = {**_read(block, new), **dict(zip(block.states, past[layer], strict=True))}
            mix = mixing_block if isinstance(block.attention, TimeMixSpec) else stateful_block
            x, *states = mix(block, graph / f"decoder.layers.{layer}", x, **states, **context)
            present.append(tuple(states))
            continue
        every = graph.captured or names.LOGITS_INDICES not in context
        if cache == Cache.STATIC and not given.weighted and every:
            if block.masked.shares_keys and not room and not graph.captured:  # only our own graphs branch
                single = single or graph.call(single_token, input_ids, name="single")
                context["single"] = single
            if block.masked.maskless_static and not grouped:
                filled = filled or _filled(graph, input_ids, cache_lengths, new_slots)
                context |= {"mask": None, "filled": filled}
        window = block.masked.window if by_window else None
        if window is not None and window not in near:
            values = graph.call(near_slots(window), new_slots, slots, name="near")
            near[window] = dict(zip(("first", "end", "few"), values, strict=True))
        bounds = near.get(window, {})
        place = graph / f"decoder.layers.{layer}"
        if vectors is not None:
            context["layer_input"] = graph.op.Gather(vectors, graph.op.Constant(value_int=layer), axis=2)
        if block.shared_layer is not None:
            k, v, *_ = present[block.shared_layer]
            given.hidden(x)
            x, *weights = shared_block(block, given.weighted, place, x, k=k, v=v, **room, **context, **bounds)
            given.weights(*weights)
            present.append(())
            continue
        past_k, past_v, *held = past[layer]
        context |= {"past_k": past_k, "past_v": past_v, **room, **bounds}
        second, build = None if cross is None else _source(cross_mask, *cross[layer]), decoder_block
        if held:
            second, build = {**_read(block, new), **dict(zip(block.states, held, strict=True))}, hybrid_block
        if block.joins_embedding:
            context["embedded"], build = tokens, joined_block
        given.hidden(x)
        values = x, second
        x, *rest = build(block, given.weighted, cache, place, *values, cache_lengths=cache_lengths, **context)
        deep = inputs.get(f"{names.DEEP_FEATURES}.{layer}")
        x = x if deep is None else graph.op.Add(x, deep)
        given.weights(*rest[len(past[layer]) :])
        present.append(tuple(rest[: len(past[layer])]))
    if spec.streams is not None:
        x = merged_streams(spec.streams, graph / "decoder.merge", x)  # (B, S, W)
    return final_normed(spec, graph, "decoder", x, given), present


def _inputs_of_layers(spec: TextStackSpec, graph: Graph, input_ids: ir.Value, x: ir.Value) -> ir.Value | None:
    """The layers' own inputs (B,S,D,P) for input_ids (B,S) and their vectors x (B,S,W), if they have any."""
    if spec.layer_inputs is None:
        return None
    sizes = spec.hidden_size, spec.num_layers
    return layer_inputs(spec.layer_inputs, *sizes, graph / "decoder.layer_inputs", input_ids, x)


def _with_ids(graph: Graph, inputs: dict[str, ir.Value]) -> dict[str, ir.Value]:
    """The inputs with ids (B,S), of zeros where vectors (B,S,W) come in their place: they tell B and S."""
    if names.INPUT_IDS in inputs:
        return inputs
    op = graph.op
    size = op.Shape(inputs[names.INPUTS_EMBEDS], start=0, end=2)
    return {**inputs, names.INPUT_IDS: op.Expand(graph.constant("no_id", [0]), size)}


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
    slots: ir.Value,
    weighted: bool,
    logits_indices: ir.Value | None,
    groups: ir.Value | None,
) -> tuple[ir.Value, list[Masks]]:
    """Positions of new tokens (B,S), and of each layer by window the masks (B,1,S,C) that are read.

    past_k (B,K,C,H), or what else tells C as the third dimension; `slots` (B,S) of the new tokens. With
    logits_indices (B,L) the last layer's masks are (B,1,L,C).
    """
    cache_lengths = inputs[names.CACHE_LENGTHS]
    places = inputs.get(names.POSITION_IDS, slots)  # those of the slots, unless they are given
    bounded = names.PREFIX_LENGTHS not in inputs
    if not bounded:
        groups = graph.call(prefix_groups, slots, inputs[names.PREFIX_LENGTHS], name="groups")  # (B, S)
    every, all_read = range(spec.num_layers), weighted or groups is not None
    together = () if groups is None else (groups, groups, cache_lengths)
    if logits_indices is None:
        return places, _slot_masks(spec, graph, every, slots, past_k, all_read, bounded, *together)
    asked = graph.call(asked_positions, logits_indices, cache_lengths, name="positions")  # (B, L)
    before = _slot_masks(spec, graph, every[:-1], slots, past_k, all_read, bounded, *together)
    if groups is not None:
        together = graph.op.GatherElements(groups, logits_indices, axis=1), groups, cache_lengths
    all_read = all_read or not graph.captured
    return places, before + _slot_masks(spec, graph, every[-1:], asked, past_k, all_read, bounded, *together)


def _slot_masks(
    spec: TextStackSpec,
    graph: Graph,
    layers: range,
    places: ir.Value,
    past_k: ir.Value,
    all_read: bool,
    bounded: bool,
    *together: ir.Value,
) -> list[Masks]:
    """Of some layers by window the masks (B,1,S,C), of queries at `places` (B,S), that are read.

    With groups, `together` are those of the queries, of the new tokens, and the latter's first slots;
    windows limit them if they are `bounded`.
    """
    op, masks = graph.op, Masks()
    kinds = [spec.layers[layer].attention for layer in layers]
    read = [
        kind
        for kind in kinds
        if isinstance(kind, MaskedAttentionSpec) and (all_read or not kind.maskless_static)
    ]
    for reach in dict.fromkeys(kind.reach for kind in read):
        mask = grouped_cache_mask(reach.window, bounded, graph.captured) if together else cache_mask(reach)
        masks[reach] = graph.call(mask, places, past_k, *together, name="mask")  # (B, 1, S, C)
    if spec.relative is None or not layers:
        return [masks] * len(layers)
    slots = op.Unsqueeze(op.Range(0, op.Squeeze(op.Shape(past_k, start=2, end=3)), 1), [0])  # (1, C)
    return biased_masks(spec, graph, "decoder", masks, places, slots, layers)


def _over_past(
    spec: TextStackSpec,
    graph: Graph,
    inputs: dict[str, ir.Value],
    past_k: ir.Value,
    groups: ir.Value | None,
) -> tuple[ir.Value, list[Masks]]:
    """Positions of new tokens (B,S), and of each layer by window the mask over a growing cache (B,1,S,T)."""
    input_ids, op = inputs[names.INPUT_IDS], graph.op
    attention_mask, position_ids = inputs.get(names.ATTENTION_MASK), inputs.get(names.POSITION_IDS)
    length = op.Shape(past_k, start=2, end=3)  # P
    if attention_mask is None:
        attention_mask = ones(graph, input_ids, length)
        if position_ids is None:
            start = op.Expand(length, op.Shape(input_ids, start=0, end=1))  # (B)
            position_ids = graph.call(positions, input_ids, start, name="positions")
    order = op.Sub(op.CumSum(attention_mask, 1), 1)  # (B, T): padding between tokens is no distance
    prefix_lengths = inputs.get(names.PREFIX_LENGTHS)
    if position_ids is None or prefix_lengths is not None:
        new = op.Slice(order, length, op.Shape(order, start=1, end=2), [1])  # (B, S)
    if position_ids is None:
        position_ids = op.Max(new, graph.constant("first_position", [0]))
    if prefix_lengths is not None:
        groups = graph.call(prefix_groups, new, prefix_lengths, name="groups")  # (B, S)
    masks: Masks = {}
    for reach in dict.fromkeys(kind.reach for kind in masked_attentions(spec)):
        if groups is None:
            seen = graph.call(causal_mask(reach), attention_mask, input_ids, order, name="mask")
        else:
            kind = grouped_causal_mask(reach.window, prefix_lengths is None)
            seen = graph.call(kind, attention_mask, order, groups, name="mask")
        masks[reach] = seen  # (B, 1, S, T)
    layers = range(spec.num_layers)
    return position_ids, biased_masks(spec, graph, "decoder", masks, position_ids, order, layers)


def no_masks(spec: TextStackSpec) -> list[Masks]:
    """The masks of a stack without attention: none in any layer."""
    return [{}] * spec.num_layers


def _filled(
    graph: Graph, input_ids: ir.Value, cache_lengths: ir.Value | None, new_slots: ir.Value | None
) -> ir.Value:
    """The slots (B) that each row has filled when they are read."""
    if graph.captured:
        return graph.call(filled_behind, new_slots, name="filled")
    return graph.call(filled_then, input_ids, cache_lengths, name="filled")


def keys_of(spec: TextStackSpec, past: KeyValues) -> ir.Value:
    """The keys (B,K,P,H) of the first layer that has them."""
    return next(one[0] for block, one in zip(spec.layers, past, strict=True) if block.has_keys)


def _read(block: BlockSpec, new: Mapping[str, ir.Value]) -> Values:
    """The inputs of a layer's states, of those that any layer reads of new tokens."""
    return {name: new[name] for name in block.new_tokens}


def _source(mask: ir.Value | None, k: ir.Value, v: ir.Value) -> Values:
    """The inputs of cross-attention: a mask (B,1,S,E), keys and values (B,K,E,H)."""
    return {"mask": mask, "k": k, "v": v}
