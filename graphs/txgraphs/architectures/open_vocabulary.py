"""Objects in images that texts describe (Minderer et al. 2022, 3.1)."""

from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.contracts import names, roles
from txexport.spec import Activation, Cache, OpenVocabularySpec, Pick
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.activation import activation
from txgraphs.architectures._model import Build, Signatures, Values, layers_of
from txgraphs.architectures.dual_encoder import unit
from txgraphs.encoder_stack import encoder, signal_encoder
from txgraphs.heads.pick import pick
from txgraphs.linear import linear
from txgraphs.norm import norm

LEAST = 1e-6  # added to the length that a vector is divided by
LOWEST = {ir.DataType.FLOAT16: -65504.0}  # of a number format, the score of a text that is padding
LOWEST_OF_FLOAT32 = -3.4028234663852886e38


@component("image_embeds", "pred_boxes")
def described_objects(spec: OpenVocabularySpec, g: Body, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A vector and a box for each patch of an image (Minderer et al. 2022, 3.1).

    x (B,S,W), the class token first -> image_embeds (B,R,C,W), pred_boxes (B,R * C,4).
    """
    op, act = g.op, activation(Activation.GELU)
    zero, one = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    first = op.Slice(x, zero, one, one, name="class")  # (B, 1, W)
    others = op.Slice(x, one, op.Shape(x, start=1, end=2), one, name="others")
    patches = norm(spec.norm, g / "norm", op.Mul(others, first))  # (B, R * C, W)
    box = patches
    for number in range(3):
        box = linear(True, g / f"box.{number}", g.call(act, box) if number else box)
    logits_of_boxes = onnx.numpy_helper.from_array(np.array(spec.box_logits(), g.dtype.numpy()))
    pred_boxes = op.Sigmoid(op.Add(box, op.Constant(value=logits_of_boxes)))
    grid = op.Constant(value_ints=[0, *spec.grid, spec.vision.hidden_size])
    return op.Reshape(patches, grid), pred_boxes


@component("logits")
def descriptions(
    spec: OpenVocabularySpec, g: Body, text_embeds: ir.Value, image_embeds: ir.Value
) -> ir.Value:
    """The score of each text for each patch of an image (Minderer et al. 2022, 3.1).

    text_embeds (T,D) or (B,T,D), image_embeds (B,R,C,W) -> logits (B,R * C,T).
    """
    op = g.op
    flat = op.Constant(value_ints=[0, -1, spec.vision.hidden_size])
    patches = op.Reshape(image_embeds, flat, name="patches")  # (B, R * C, W)
    vectors = g.call(near_unit, linear(True, g / "project", patches))
    texts = g.call(near_unit, text_embeds)
    cosines = op.MatMul(vectors, g.call(turned, texts), name="cosines")
    shifted = op.Add(cosines, linear(True, g / "shift", patches))
    scale = op.Add(op.Elu(linear(True, g / "scale", patches)), op.Constant(value_float=1.0))
    return op.Mul(shifted, scale)


@script(domain, default_opset=op)
def near_unit(x):
    """x (...,D) divided by a little more than its length."""
    y = x / (op.Sqrt(op.ReduceSum(x * x, op.Constant(value_ints=[-1]), keepdims=1)) + LEAST)
    return y


@script(domain, default_opset=op)
def turned(x):
    """x (T,D) or (B,T,D) -> a batch of (D,T)."""
    shape = op.Concat(op.Constant(value_ints=[-1]), op.Shape(x, start=-2), axis=0)
    y = op.Transpose(op.Reshape(x, shape), perm=[0, 2, 1])
    return y


@cache
def without_padding(lowest: float) -> OnnxFunction:
    """logits (B,P,T), input_ids (B * T,S) -> logits, the lowest for a text that begins with the id 0."""

    @script(domain, default_opset=op)
    def without_padding(logits, input_ids):
        first = op.Gather(input_ids, op.Constant(value_int=0), axis=1)  # (B * T)
        middle = op.Constant(value_ints=[1])
        shape = op.Concat(op.Shape(logits, end=1), middle, op.Shape(logits, start=2), axis=0)
        padding = op.Reshape(op.Equal(first, op.Constant(value_int=0)), shape)  # (B, 1, T)
        y = op.Where(padding, op.CastLike(op.Constant(value_float=lowest), logits), logits)
        return y

    return without_padding


def open_vocabulary_models(
    spec: OpenVocabularySpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """Graphs of both encoders, and of the comparison or of all; twin of txmodels' OpenVocabularyModel."""
    text, vision = new(roles.TEXT), new(roles.VISION)
    text.add_outputs({names.TEXT_EMBEDS: _text_embeds(spec, text, text.declare(signatures[roles.TEXT]))})
    vision.add_outputs(_objects(spec, vision, vision.declare(signatures[roles.VISION])))
    encoders = {roles.TEXT: text, roles.VISION: vision}
    if roles.MODEL in signatures:
        return {roles.MODEL: _whole(spec, new(roles.MODEL), signatures), **encoders}
    both = new(roles.SIMILARITY)
    inputs = both.declare(signatures[roles.SIMILARITY])
    vectors = inputs[names.TEXT_EMBEDS], inputs[names.IMAGE_EMBEDS]
    both.add_outputs({names.LOGITS: descriptions(spec, both / "descriptions", *vectors)})
    return {**encoders, roles.SIMILARITY: both}


def _whole(spec: OpenVocabularySpec, graph: Graph, signatures: Signatures) -> Graph:
    """Each image with its texts; those that begin with the id 0 are padding."""
    inputs, op = graph.declare(signatures[roles.MODEL]), graph.op
    images = _objects(spec, graph, inputs)
    rows = op.Shape(inputs[names.PIXEL_VALUES], start=0, end=1)
    shape = op.Concat(rows, graph.constant("vectors", [-1, spec.size]), axis=0)
    texts = op.Reshape(_text_embeds(spec, graph, inputs), shape)  # (B, T / B, D)
    logits = descriptions(spec, graph / "descriptions", texts, images[names.IMAGE_EMBEDS])
    lowest = LOWEST.get(graph.dtype, LOWEST_OF_FLOAT32)
    logits = graph.call(without_padding(lowest), logits, inputs[names.INPUT_IDS], name="scores")
    graph.add_outputs({names.LOGITS: logits, names.PRED_BOXES: images[names.PRED_BOXES]})
    graph.add_outputs({names.TEXT_EMBEDS: texts, names.IMAGE_EMBEDS: images[names.IMAGE_EMBEDS]})
    return graph


def _text_embeds(spec: OpenVocabularySpec, graph: Graph, inputs: Values) -> ir.Value:
    """input_ids and attention_mask (T,S) -> text_embeds (T,D)."""
    x = encoder(spec.text, graph, inputs, layers_of(spec, graph, spec.text, names.TEXT), "text")
    ids, mask = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    picked = graph.call(pick(Pick.ARGMAX_ID, None), x, ids, mask, name="text.pick")
    return graph.call(unit, linear(False, graph / "text_projection", picked), name="text.unit")


def _objects(spec: OpenVocabularySpec, graph: Graph, inputs: Values) -> Values:
    """pixel_values (B,channels,height,width) -> image_embeds (B,R,C,W), pred_boxes (B,R * C,4)."""
    layers = layers_of(spec, graph, spec.vision, names.VISION)
    pixels = {names.PIXEL_VALUES: inputs[names.PIXEL_VALUES]}
    x, _ = signal_encoder(spec.vision, graph, pixels, layers, "vision")
    image_embeds, pred_boxes = described_objects(spec, graph / "objects", x)
    return {names.IMAGE_EMBEDS: image_embeds, names.PRED_BOXES: pred_boxes}
