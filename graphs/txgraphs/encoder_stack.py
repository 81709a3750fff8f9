"""Encoders: stacks that read a whole sequence, image or sound at once."""

from collections.abc import Callable, Sequence

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    PatchBiasAttentionSpec,
    RelativeSpec,
    RoundedAlibiSpec,
    SignalStackSpec,
    TextStackSpec,
)
from txgraphs._graph import Graph
from txgraphs._nodes import Place
from txgraphs.block import encoder_block
from txgraphs.conformer_block import conformer_block, distance_context
from txgraphs.inputs import signal_embedding
from txgraphs.inputs.packed import packed_embedding
from txgraphs.inputs.patches import layer_position
from txgraphs.length_adapter import length_adapter
from txgraphs.mask import causal_mask, from_first_token, near_mask, padding_mask
from txgraphs.packed import patch_places, window_mask
from txgraphs.position import (
    patch_coordinates,
    patch_rotation,
    positions,
    relative_bias,
    rotation,
    token_positions,
)
from txgraphs.squeeze import pooled_mask, squeeze, upsampling
from txgraphs.stack import (
    Given,
    Masks,
    Values,
    biased_masks,
    embedded,
    final_normed,
    fourier_context,
    layer_context,
    masked_attentions,
    relative_context,
    rotary_context,
)


def encoder(
    spec: TextStackSpec,
    graph: Graph,
    inputs: dict[str, ir.Value],
    given: Given,
    stack: str = "encoder",
    cross: Sequence[tuple[ir.Value, ...]] = (),
) -> ir.Value:
    """A stack that reads a whole sequence at once; the twin of txmodels' Encoder.

    `cross` has keys and values (B,K,E,H) of the image to which each layer attends, if there is one.
    """
    input_ids, attention_mask = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    op, padding = graph.op, spec.embedding.position.pad_token_id
    start = op.Expand(graph.constant("start", [0]), op.Shape(input_ids, start=0, end=1))  # (B)
    order = graph.call(positions, input_ids, start, name="order")  # (B, S)
    places = order if padding is None else graph.call(token_positions(padding), input_ids, name="positions")
    # How far apart tokens are: linear biases do not count the padding between them.
    linear = isinstance(spec.relative, AlibiSpec | RoundedAlibiSpec)
    apart = op.Sub(op.CumSum(attention_mask, 1), 1) if linear else order  # (B, S)
    masks: Masks = {}
    for reach in dict.fromkeys(kind.reach for kind in masked_attentions(spec)):
        if spec.causal:
            begun = (
                graph.call(from_first_token, attention_mask, order, name="begun") if reach.chunked else order
            )
            mask = graph.call(causal_mask(reach), attention_mask, input_ids, begun, name="mask")
        elif reach.window is not None:
            mask = graph.call(near_mask(reach.window), attention_mask, input_ids, order, name="mask")
        else:
            mask = graph.call(padding_mask, attention_mask, input_ids, name="mask")
        masks[reach] = mask  # (B, 1, S, S)
    biased = biased_masks(spec, graph, stack, masks, apart, apart, range(spec.num_layers))
    rotations, relative = rotary_context(spec, graph, order), relative_context(spec, graph, stack, inputs)
    relative |= fourier_context(spec, graph, input_ids)
    x = embedded(spec, graph, stack, inputs, places)  # (B, S, W)
    for layer, block in enumerate(spec.layers):
        context = layer_context(block, inputs, biased[layer], rotations, relative)
        image: Values = dict(zip(("seen_k", "seen_v"), cross[layer], strict=True)) if cross else {}
        given.hidden(x)
        x = _through(block, graph / f"{stack}.layers.{layer}", x, image | context, given)
    y = final_normed(spec, graph, stack, x, given)
    if not spec.masked_output:
        return y
    real = op.Unsqueeze(op.Cast(attention_mask, to=graph.dtype), graph.constant("vector", [2]))  # (B, S, 1)
    return op.Mul(y, real)


def signal_encoder(
    spec: SignalStackSpec, graph: Graph, inputs: dict[str, ir.Value], given: Given, stack: str = "encoder"
) -> tuple[ir.Value, ir.Value | None]:
    """A stack that reads a whole image or sound at once; the twin of txmodels' SignalEncoder.

    `inputs` are the signal, and the attention_mask of a masked stack, or the grids of packed patches ->
    last_hidden_state (B,S,W), and its mask (B,S), None where the stack is not masked.
    """
    signal, *masks = inputs.values()
    context: Values = {"mask": None, "cos": None, "sin": None}
    rotary, patches, packed = spec.rotary, spec.patches, spec.packed
    windows: dict[int | None, ir.Value] = {}
    if rotary is not None and packed is not None:
        coordinates, *groups = graph.call(patch_places(packed.merged), masks.pop(), signal, name="places")
        context["cos"], context["sin"] = graph.call(
            rotation(rotary, graph.dtype), coordinates, name="rotation"
        )
        for window in dict.fromkeys(block.attention.window for block in spec.blocks):
            windows[window] = graph.call(
                window_mask(window), coordinates, *groups, name="mask"
            )  # (1, 1, N, N)
    if rotary is not None and rotary.axes and patches is not None:
        coordinates = graph.call(patch_coordinates(patches.patch_size), signal, name="places")
        turning = rotation(rotary, graph.dtype)
        context["cos"], context["sin"] = graph.call(turning, coordinates, name="rotation")  # (B, S, R)
    elif rotary is not None and patches is not None:
        turning = patch_rotation(patches, rotary, graph.dtype)
        context["cos"], context["sin"] = graph.call(turning, signal, name="rotation")  # (B, S, R)
    place = graph / f"{stack}.embedding"
    if packed is not None:
        x, vectors = packed_embedding(packed, place, signal, coordinates, groups[0]), None  # (1, N, W)
    else:
        x, vectors = signal_embedding(spec, place, signal, *masks)  # (B, S, W), (B, S)
    frames, real = x, vectors
    if spec.squeeze is not None:
        place = graph / f"{stack}.squeeze"
        x = squeeze(spec.squeeze, place, x)  # (B, S/factor, W)
        vectors = None if vectors is None else pooled_mask(spec.squeeze, place, vectors)  # (B, S/factor)
    if vectors is not None:
        context["mask"] = graph.call(padding_mask, vectors, x, name="mask")  # (B, 1, S, S)
    if rotary is not None and patches is None and packed is None:
        start = graph.op.Expand(graph.constant("start", [0]), graph.op.Shape(x, start=0, end=1))  # (B)
        order = graph.call(positions, x, start, name="order")  # (B, S)
        turning = rotation(rotary, graph.dtype)
        context["cos"], context["sin"] = graph.call(turning, order, name="rotation")  # (B, S, R)
    if isinstance(spec.relative, RelativeSpec):
        order = graph.call(positions, x, graph.constant("start", [0]), name="order")  # (1, S)
        context["relative"] = relative_bias(spec.relative, graph / f"{stack}.relative", order, order)
    distances = distance_context(spec, graph, x)
    for layer, block in enumerate(spec.layers):
        if block.convolution is not None:
            context = {"attention_mask": vectors, "mask": context["mask"]} | distances[block]
        if isinstance(block.attention, PatchBiasAttentionSpec):
            context = {}  # it reads nothing else
        if packed is not None:
            context["mask"] = windows[block.attention.window]
        given.hidden(x)
        if spec.layer_positions and layer and patches is not None:
            x = layer_position(patches, graph / f"{stack}.layer_positions.{layer - 1}", x, signal)
        x = _through(block, graph / f"{stack}.layers.{layer}", x, context, given)
    y = final_normed(spec, graph, stack, x, given)
    if spec.length_adapter is not None:
        y, real = length_adapter(spec.length_adapter, graph / f"{stack}.length_adapter", y, real)
    if spec.squeeze is not None:
        y = upsampling(spec.squeeze, graph / f"{stack}.upsampling", y, frames)
    return y, real


def _through(
    block: BlockSpec,
    place: Place,
    x: ir.Value,
    context: Values,
    given: Given,
) -> ir.Value:
    """x (B,S,W) -> what an encoder's layer makes of it (B,S,W)."""
    build: Callable[..., tuple[ir.Value, ...]] = encoder_block
    if block.convolution is not None:
        build = conformer_block
    x, *weights = build(block, given.weighted, place, x, **context)
    given.weights(*weights)
    return x
