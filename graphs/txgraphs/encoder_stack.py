"""Encoders: stacks that read a whole sequence, image or sound at once."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import AlibiSpec, BlockSpec, RoundedAlibiSpec, SignalStackSpec, TextStackSpec
from txgraphs._graph import Graph
from txgraphs._nodes import Place
from txgraphs.block import encoder_block
from txgraphs.inputs import signal_embedding
from txgraphs.mask import causal_mask, near_mask, padding_mask
from txgraphs.position import patch_rotation, positions, token_positions
from txgraphs.stack import (
    Given,
    Masks,
    Values,
    biased_masks,
    embedded,
    final_normed,
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
    for window in dict.fromkeys(kind.window for kind in masked_attentions(spec)):
        if spec.causal:
            mask = graph.call(causal_mask(window), attention_mask, input_ids, order, name="mask")
        elif window is not None:
            mask = graph.call(near_mask(window), attention_mask, input_ids, order, name="mask")
        else:
            mask = graph.call(padding_mask, attention_mask, input_ids, name="mask")
        masks[window] = mask  # (B, 1, S, S)
    biased = biased_masks(spec, graph, stack, masks, apart, apart, range(spec.num_layers))
    rotations, relative = rotary_context(spec, graph, order), relative_context(spec, graph, stack, inputs)
    x = embedded(spec, graph, stack, inputs, places)  # (B, S, W)
    for layer, block in enumerate(spec.layers):
        context = layer_context(block, inputs, biased[layer], rotations, relative)
        x = _through(block, graph / f"{stack}.layers.{layer}", x, context, given)
    return final_normed(spec, graph, stack, x, given)


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
    return final_normed(spec, graph, stack, x, given)


def _through(
    block: BlockSpec, place: Place, x: ir.Value, context: dict[str, ir.Value | None], given: Given
) -> ir.Value:
    """x (B,S,W) -> what an encoder's layer makes of it (B,S,W)."""
    given.hidden(x)
    x, *weights = encoder_block(block, given.weighted, place, x, **context)
    given.weights(*weights)
    return x
