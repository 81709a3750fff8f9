"""Two encoders whose vectors of texts and images are compared."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import DualEncoderSpec, Pick
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.attention_pool import attention_pool
from txgraphs.heads import pick
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
    """How well texts and images fit (Radford et al. 2021, 2.3; with a bias, Zhai et al. 2023, 3.2).

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
