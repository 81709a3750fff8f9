"""Dual encoders: vectors of texts and images are compared."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names, roles
from txexport.spec import Cache, DualEncoderSpec, Pick
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, Values, add_layers, layers_of
from txgraphs.attention_pool import attention_pool
from txgraphs.encoder_stack import encoder, signal_encoder
from txgraphs.heads.pick import pick
from txgraphs.linear import linear


@script(domain, default_opset=op)
def unit(x):
    """x (B,W) -> vectors of length 1 (B,W)."""
    y = x / op.Sqrt(op.ReduceSum(x * x, op.Constant(value_ints=[1]), keepdims=1))
    return y


@component("logits_per_text", "logits_per_image")
def similarity(
    bias: bool, g: Body, text_embeds: ir.Value, image_embeds: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The similarity of texts and images (Radford et al. 2021, 2.3; with a bias, Zhai et al. 2023, 3.2).

    text_embeds (T,W), image_embeds (I,W) -> logits_per_text (T,I), logits_per_image (I,T).
    """
    op = g.op
    products = op.MatMul(text_embeds, op.Transpose(image_embeds, perm=[1, 0]), name="products")
    logits_per_text = op.Mul(products, op.Exp(g.weight("scale")))  # (T, I)
    if bias:
        logits_per_text = op.Add(logits_per_text, g.weight("bias"))
    logits_per_image = op.Transpose(logits_per_text, perm=[1, 0])  # (I, T)
    return logits_per_text, logits_per_image


def text_vectors(
    spec: DualEncoderSpec, graph: Graph, x: ir.Value, tokens: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Hidden states x (T,S,W), input_ids and attention_mask (T,S) -> text_embeds (T,size)."""
    picked = graph.call(pick(spec.pick, spec.eos_token_id), x, *tokens, name="text.pick")
    return graph.call(unit, linear(spec.text_bias, graph / "text_projection", picked), name="text.unit")


def image_vectors(spec: DualEncoderSpec, graph: Graph, x: ir.Value) -> ir.Value:
    """Hidden states x (I,S,W) -> image_embeds (I,size)."""
    if spec.vision_pool is not None:
        pooled = attention_pool(spec.vision_pool, graph / "vision_pool", x)
        return graph.call(unit, pooled, name="vision.unit")
    picked = graph.call(pick(Pick.FIRST, None), x, None, None, name="vision.pick")
    return graph.call(unit, linear(False, graph / "vision_projection", picked), name="vision.unit")


def dual_encoder_models(
    spec: DualEncoderSpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """Graphs of both encoders and the comparison; the twin of txmodels' DualEncoderModel.

    The comparison has a graph of its own, or is part of one graph that reads texts and images too.
    """
    text, vision = new(roles.TEXT), new(roles.VISION)
    inputs = text.declare(signatures[roles.TEXT])
    text.add_outputs({names.TEXT_EMBEDS: _text_embeds(spec, text, inputs)})
    inputs = vision.declare(signatures[roles.VISION])
    vision.add_outputs({names.IMAGE_EMBEDS: _image_embeds(spec, vision, inputs)})
    towers = {roles.TEXT: text, roles.VISION: vision}
    if roles.SIMILARITY in signatures:
        both = new(roles.SIMILARITY)
        inputs = both.declare(signatures[roles.SIMILARITY])
        texts, images = inputs[names.TEXT_EMBEDS], inputs[names.IMAGE_EMBEDS]
        both.add_outputs(_compared(spec, both, texts, images))
        return {**towers, roles.SIMILARITY: both}
    model = new(roles.MODEL)
    inputs = model.declare(signatures[roles.MODEL])
    texts, images = _text_embeds(spec, model, inputs), _image_embeds(spec, model, inputs)
    scores = _compared(spec, model, texts, images)
    model.add_outputs(
        {
            names.LOGITS_PER_IMAGE: scores[names.LOGITS_PER_IMAGE],
            names.LOGITS_PER_TEXT: scores[names.LOGITS_PER_TEXT],
            names.TEXT_EMBEDS: texts,
            names.IMAGE_EMBEDS: images,
        }
    )
    return {roles.MODEL: model, **towers}


def _text_embeds(spec: DualEncoderSpec, graph: Graph, inputs: Values) -> ir.Value:
    """input_ids and attention_mask (T,S) -> text_embeds (T,W)."""
    layers = layers_of(spec, graph, spec.text, names.TEXT)
    x = encoder(spec.text, graph, inputs, layers, "text")
    add_layers(graph, layers)
    return text_vectors(spec, graph, x, (inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]))


def _image_embeds(spec: DualEncoderSpec, graph: Graph, inputs: Values) -> ir.Value:
    """pixel_values (I,channels,height,width) -> image_embeds (I,W)."""
    layers = layers_of(spec, graph, spec.vision, names.VISION)
    pixels = {names.PIXEL_VALUES: inputs[names.PIXEL_VALUES]}
    x, _ = signal_encoder(spec.vision, graph, pixels, layers, "vision")
    add_layers(graph, layers)
    return image_vectors(spec, graph, x)


def _compared(spec: DualEncoderSpec, graph: Graph, texts: ir.Value, images: ir.Value) -> Values:
    """text_embeds (T,W), image_embeds (I,W) -> logits_per_text (T,I), logits_per_image (I,T)."""
    per_text, per_image = similarity(spec.sigmoid_scores, graph / "similarity", texts, images)
    return {names.LOGITS_PER_TEXT: per_text, names.LOGITS_PER_IMAGE: per_image}
