"""An encoder with a head: one graph, which reads its whole input at once."""

from collections.abc import Sequence
from functools import partial

import onnx_ir as ir

from txexport.contracts import names, roles
from txexport.parts.vectors import vector_name
from txexport.spec import Cache, EncoderSpec, HeadKind, TextStackSpec
from txexport.spec.lengths import resampled
from txgraphs._graph import Graph
from txgraphs.architectures._model import (
    Build,
    Signatures,
    Values,
    add_layers,
    layers_of,
    signal_states,
)
from txgraphs.encoder_stack import encoder
from txgraphs.heads import dense_outputs, head_outputs, map_outputs
from txgraphs.heads.sequence import sequence_head
from txgraphs.heads.vectors import pooler, sequence_vector
from txgraphs.layer_sum import layer_sum
from txgraphs.norm import norm


def encoder_models(spec: EncoderSpec, cache: Cache, signatures: Signatures, new: Build) -> dict[str, Graph]:
    """The twin of txmodels' EncoderModel: tokens (B,S) or a signal -> hidden states or scores."""
    graph = new(roles.MODEL)
    inputs = graph.declare(signatures[roles.MODEL])
    layers = layers_of(spec, graph, spec.encoder, None)
    if not isinstance(spec.encoder, TextStackSpec):
        x, mask = signal_states(spec.encoder, graph, inputs, layers)
        if spec.head.neck is not None:
            states = _read_by_head(spec, graph, spec.head.neck.layers, layers.states or {}, x)
            graph.add_outputs(dense_outputs(spec.head, graph / "head", states, *inputs.values()))
            add_layers(graph, layers)
            return {roles.MODEL: graph}
        if layers.maps is not None:
            if spec.head.map_pyramid or spec.head.instance_masks:
                layers.maps[names.PIXEL_VALUES] = inputs[names.PIXEL_VALUES]
            graph.add_outputs(map_outputs(spec.head, graph / "head", x, layers.maps))
            _vector(spec, graph, x, None, None)
            return {roles.MODEL: graph}
        if layers.states is not None:
            x = layer_sum(graph / "layer_sum", layers.states)
            if mask is not None and resampled(spec.encoder):
                mask = graph.op.Slice(mask, [0], graph.op.Shape(x, start=1, end=2), [1])  # (B, S/factor)
        _head_outputs(spec, graph, x, {} if mask is None else {names.ATTENTION_MASK: mask})
    elif spec.head.kind == HeadKind.CHOICES:
        rows, shape = _choices(graph, inputs)
        x = encoder(spec.encoder, graph, rows, layers)
        tokens = rows[names.INPUT_IDS], rows[names.ATTENTION_MASK]
        scores = sequence_head(spec.head, graph / "head", x, *tokens)  # (B*C, 1)
        graph.add_outputs({names.LOGITS: graph.op.Reshape(scores, shape)})
    else:
        x = encoder(spec.encoder, graph, inputs, layers)
        _head_outputs(spec, graph, x, inputs)
    add_layers(graph, layers)
    return {roles.MODEL: graph}


def _choices(graph: Graph, inputs: Values) -> tuple[Values, ir.Value]:
    """Inputs (B,C,S) as rows (B*C,S), and the shape (B,C) of their scores."""
    op, rows = graph.op, {}
    for name, value in inputs.items():
        length = op.Shape(value, start=2, end=3)
        rows[name] = op.Reshape(value, op.Concat([-1], length, axis=0))  # (B*C, S)
    return rows, op.Shape(inputs[names.INPUT_IDS], start=0, end=2)


def _read_by_head(
    spec: EncoderSpec, graph: Graph, read: Sequence[int], states: Values, x: ir.Value
) -> Values:
    """The states of the layers `read`, each after a final norm; x (B,S,W) is that of the last."""
    final, last, values = spec.encoder.final_norm, spec.encoder.num_layers, {}
    for layer in read:
        state = x if layer == last else states[str(layer)]
        if final is not None and layer != last:
            state = norm(final, graph / "encoder.final_norm", state)
        values[str(layer)] = state
    return values


def _head_outputs(spec: EncoderSpec, graph: Graph, x: ir.Value, inputs: Values) -> None:
    """Add the heads' outputs for hidden states x (B,S,W), or those states and a vector of the sequence."""
    tokens = inputs.get(names.INPUT_IDS), inputs.get(names.ATTENTION_MASK)
    word = partial(graph.matrix, "encoder.embedding.word.weight")
    outputs = head_outputs(spec.head, graph / "head", x, tokens, word)
    if spec.next_sentence is not None:
        graph.add_outputs({names.PREDICTION_LOGITS: outputs[names.LOGITS]})
        pair = sequence_head(spec.next_sentence, graph / "next_sentence", x, *tokens)
        graph.add_outputs({names.SEQ_RELATIONSHIP_LOGITS: pair})
        return
    graph.add_outputs(_distilled(spec, graph, x, outputs[names.LOGITS]) if spec.distilled else outputs)
    if spec.pooler:
        graph.add_outputs({names.POOLER_OUTPUT: pooler(graph / "pooler", x)})
    _vector(spec, graph, x, *tokens)


def _vector(
    spec: EncoderSpec, graph: Graph, x: ir.Value, input_ids: ir.Value | None, attention_mask: ir.Value | None
) -> None:
    """Add the vector beside hidden states x (B,S,W), if there is one."""
    if spec.vector is not None:
        vector = sequence_vector(spec.vector, graph / "vector", x, input_ids, attention_mask)
        graph.add_outputs({vector_name(spec): vector})


def _distilled(spec: EncoderSpec, graph: Graph, x: ir.Value, first: ir.Value) -> Values:
    """The average of the first token's scores (B,labels) and the second's, and both of them."""
    op = graph.op
    rest = op.Slice(x, [1], op.Shape(x, start=1, end=2), [1])  # (B, S - 1, W)
    second = sequence_head(spec.head, graph / "distilled", rest, None, None)
    logits = op.Div(op.Add(first, second), op.CastLike(graph.constant("two", [2]), first))
    return {names.CLS_LOGITS: first, names.DISTILLATION_LOGITS: second, names.LOGITS: logits}
