"""Dual encoders: vectors of texts and images, or of texts and sounds, are compared."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names, roles
from txexport.contracts.compared import BY_STACK, Compared
from txexport.spec import Activation, Cache, DualEncoderSpec, Pick
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.activation import activation
from txgraphs.architectures._model import Build, Signatures, Values, add_layers, layers_of, signal_states
from txgraphs.attention_pool import attention_pool
from txgraphs.encoder_stack import encoder
from txgraphs.heads.pick import pick
from txgraphs.linear import linear


@script(domain, default_opset=op)
def unit(x):
    """x (B,W) -> vectors of length 1 (B,W)."""
    y = x / op.Sqrt(op.ReduceSum(x * x, op.Constant(value_ints=[1]), keepdims=1))
    return y


@component("logits_per_text", "logits_per_signal")
def similarity(
    bias: bool, two_scales: bool, g: Body, text_embeds: ir.Value, signal_embeds: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The similarity of texts and images (Radford et al. 2021, 2.3; with a bias, Zhai et al. 2023, 3.2).

    text_embeds (T,W), signal_embeds (I,W) -> logits_per_text (T,I), those per signal (I,T). With two scales,
    the scores of each sound have another than those of each text (Wu et al. 2023, 3).
    """
    op = g.op
    products = op.MatMul(text_embeds, op.Transpose(signal_embeds, perm=[1, 0]), name="products")
    logits_per_text = op.Mul(products, op.Exp(g.weight("scale")))  # (T, I)
    if bias:
        logits_per_text = op.Add(logits_per_text, g.weight("bias"))
    if two_scales:
        turned = op.Transpose(products, perm=[1, 0])
        return logits_per_text, op.Mul(turned, op.Exp(g.weight("signal_scale")))
    logits_per_signal = op.Transpose(logits_per_text, perm=[1, 0])  # (I, T)
    return logits_per_text, logits_per_signal


@component("y")
def two_layers(between: Activation, g: Body, x: ir.Value) -> ir.Value:
    """A projection, a non-linearity and another projection (Wu et al. 2023, 3): x (B,W) -> y (B,size)."""
    y = linear(True, g / "down", g.call(activation(between), linear(True, g / "up", x)))
    return y


def text_vectors(
    spec: DualEncoderSpec, graph: Graph, x: ir.Value, tokens: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Hidden states x (T,S,W), input_ids and attention_mask (T,S) -> text_embeds (T,size)."""
    picked = graph.call(pick(spec.pick, spec.eos_token_id), x, *tokens, name="text.pick")
    if spec.activation is not None:
        pooled = graph.op.Tanh(linear(True, graph / "text_pooler", picked))
        return graph.call(
            unit, two_layers(spec.activation, graph / "text_projection", pooled), name="text.unit"
        )
    return graph.call(unit, linear(spec.text_bias, graph / "text_projection", picked), name="text.unit")


def signal_vectors(
    spec: DualEncoderSpec, graph: Graph, x: ir.Value, mask: ir.Value | None = None
) -> ir.Value:
    """Hidden states x (I,S,W), and their mask (I,S) if any -> vectors of images or sounds (I,size)."""
    if spec.activation is not None:
        mean = graph.call(pick(Pick.GLOBAL_AVERAGE, None), x, None, None, name="audio.pick")
        return graph.call(
            unit, two_layers(spec.activation, graph / "audio_projection", mean), name="audio.unit"
        )
    if spec.vision_pool is not None:
        masks = {} if mask is None else {names.ATTENTION_MASK: mask}
        pooled = attention_pool(spec.vision_pool, graph / "vision_pool", x, **masks)
        return graph.call(unit, pooled, name="vision.unit")
    picked = graph.call(pick(Pick.FIRST, None), x, None, None, name="vision.pick")
    return graph.call(unit, linear(False, graph / "vision_projection", picked), name="vision.unit")


def dual_encoder_models(
    spec: DualEncoderSpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """Graphs of both encoders and the comparison; the twin of txmodels' DualEncoderModel.

    The comparison has a graph of its own, or is part of one graph that reads texts and images too.
    """
    other = BY_STACK[spec.signal_name]
    text, signal = new(roles.TEXT), new(other.role)
    inputs = text.declare(signatures[roles.TEXT])
    text.add_outputs({names.TEXT_EMBEDS: _text_embeds(spec, text, inputs)})
    inputs = signal.declare(signatures[other.role])
    signal.add_outputs({other.vectors: _signal_embeds(spec, other, signal, inputs)})
    towers = {roles.TEXT: text, other.role: signal}
    if roles.SIMILARITY in signatures:
        both = new(roles.SIMILARITY)
        inputs = both.declare(signatures[roles.SIMILARITY])
        both.add_outputs(_scores(spec, other, both, inputs[names.TEXT_EMBEDS], inputs[other.vectors]))
        return {**towers, roles.SIMILARITY: both}
    model = new(roles.MODEL)
    inputs = model.declare(signatures[roles.MODEL])
    texts, signals = _text_embeds(spec, model, inputs), _signal_embeds(spec, other, model, inputs)
    scores = _scores(spec, other, model, texts, signals)
    model.add_outputs(
        {
            other.scores: scores[other.scores],
            names.LOGITS_PER_TEXT: scores[names.LOGITS_PER_TEXT],
            names.TEXT_EMBEDS: texts,
            other.vectors: signals,
        }
    )
    return {roles.MODEL: model, **towers}


def _text_embeds(spec: DualEncoderSpec, graph: Graph, inputs: Values) -> ir.Value:
    """input_ids and attention_mask (T,S) -> text_embeds (T,W)."""
    layers = layers_of(spec, graph, spec.text, names.TEXT)
    x = encoder(spec.text, graph, inputs, layers, "text")
    add_layers(graph, layers)
    return text_vectors(spec, graph, x, (inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]))


def _signal_embeds(spec: DualEncoderSpec, other: Compared, graph: Graph, inputs: Values) -> ir.Value:
    """Pixels or spectrograms (I,channels,...) -> their vectors (I,W)."""
    layers = layers_of(spec, graph, spec.signal, other.stack)
    texts = names.INPUT_IDS, names.ATTENTION_MASK
    signals = {name: value for name, value in inputs.items() if name not in texts}
    x, mask = signal_states(spec.signal, graph, signals, layers, other.stack)
    add_layers(graph, layers)
    return signal_vectors(spec, graph, x, mask)


def _scores(
    spec: DualEncoderSpec, other: Compared, graph: Graph, texts: ir.Value, signals: ir.Value
) -> Values:
    """text_embeds (T,W), vectors of signals (I,W) -> logits_per_text (T,I), those per signal (I,T)."""
    two_scales, place = spec.audio is not None, graph / "similarity"
    per_text, per_signal = similarity(spec.sigmoid_scores, two_scales, place, texts, signals)
    return {names.LOGITS_PER_TEXT: per_text, other.scores: per_signal}
