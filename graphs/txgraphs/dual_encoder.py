"""Two encoders whose vectors of texts and images are compared."""

from collections.abc import Mapping

import onnx_ir as ir
from onnxscript import script

from txexport.spec import DualEncoderSpec, Pick
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs.heads import pick
from txgraphs.linear import linear

Tensors = Mapping[str, ir.TensorProtocol]


@script(domain, default_opset=op)
def unit(x):
    """x (B,W) -> vectors of length 1 (B,W)."""
    y = x / op.Sqrt(op.ReduceSum(x * x, op.Constant(value_ints=[1]), keepdims=1))
    return y


@script(domain, default_opset=op)
def similarity(text_embeds, image_embeds, scale):
    """How well texts and images fit (Radford et al. 2021, 2.3).

    text_embeds (T,W), image_embeds (I,W) -> logits_per_text (T,I), logits_per_image (I,T).
    """
    products = op.MatMul(text_embeds, op.Transpose(image_embeds, perm=[1, 0]))
    logits_per_text = products * op.Exp(scale)  # (T, I)
    logits_per_image = op.Transpose(logits_per_text, perm=[1, 0])  # (I, T)
    return logits_per_text, logits_per_image


def text_vectors(
    spec: DualEncoderSpec, graph: Graph, x: ir.Value, tokens: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Hidden states x (T,S,W), input_ids and attention_mask (T,S) -> text_embeds (T,size)."""
    picked = graph.call(pick(spec.pick, spec.eos_token_id), x, *tokens, name="text.pick")
    return graph.call(unit, graph.call(linear(False), picked, under="text_projection"), name="text.unit")


def image_vectors(graph: Graph, x: ir.Value) -> ir.Value:
    """Hidden states x (I,S,W) -> image_embeds (I,size)."""
    picked = graph.call(pick(Pick.FIRST, None), x, None, None, name="vision.pick")
    return graph.call(unit, graph.call(linear(False), picked, under="vision_projection"), name="vision.unit")


def similarity_model(spec: DualEncoderSpec, tensors: Tensors) -> Graph:
    """text_embeds (T,size), image_embeds (I,size) -> logits_per_text (T,I), logits_per_image (I,T)."""
    graph, number = Graph("similarity_model", tensors), ir.DataType.FLOAT
    texts = graph.input("text_embeds", number, ("text_batch_size", spec.size))
    images = graph.input("image_embeds", number, ("image_batch_size", spec.size))
    per_text, per_image = graph.call(similarity, texts, images, under="similarity")
    graph.output(per_text, "logits_per_text", number, ("text_batch_size", "image_batch_size"))
    graph.output(per_image, "logits_per_image", number, ("image_batch_size", "text_batch_size"))
    return graph
