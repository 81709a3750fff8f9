"""Layers in which an image and a text read one another."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import GroundedSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.deformable_attention import deformable_attention
from txgraphs.feedforward import feed_forward
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.separate_attention import separate_attention


@component("image", "text")
def fusion(
    spec: GroundedSpec, g: Body, image: ir.Value, text: ir.Value, real: ir.Value, tokens: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Places that read tokens, and tokens that read places, by the same scores (Li et al. 2022, 3.2).

    image (B,P,W), text (B,S,W), without padding where real (B,P) and tokens (B,S) -> both.
    """
    op, size = g.op, spec.inner // spec.mutual_heads
    image, text = norm(spec.norm, g / "image_norm", image), norm(spec.norm, g / "text_norm", text)
    shape = op.Constant(value_ints=[0, 0, spec.mutual_heads, size])
    pairs = ("q", image), ("k", text), ("text_v", text), ("image_v", image)
    q, k, of_text, of_image = (
        g.call(split, linear(True, g / part, x), shape) for part, x in pairs
    )  # (B, N, P or S, H)
    scale = op.CastLike(op.Constant(value_float=size**-0.5), q)
    scores = op.MatMul(op.Mul(q, scale), op.Transpose(k, perm=[0, 1, 3, 2]), name="scores")  # (B, N, P, S)
    of_places = g.call(seen_softmax, scores, tokens)
    turned = op.Transpose(scores, perm=[0, 1, 3, 2])
    of_tokens = g.call(seen_softmax, turned, real)  # (B, N, S, P)
    read = linear(True, g / "image_o", g.call(merge, op.MatMul(of_places, of_text)))  # (B, P, W)
    seen = linear(True, g / "text_o", g.call(merge, op.MatMul(of_tokens, of_image)))  # (B, S, W)
    image = op.Add(image, op.Mul(g.weight("image_scale"), read))
    text = op.Add(text, op.Mul(g.weight("text_scale"), seen))
    return image, text


@script(domain, default_opset=op)
def seen_softmax(s, seen):
    """Scores s (B,N,S,T), which keys count (B,T) -> weights (B,N,S,T)."""
    mask = op.Unsqueeze(seen, op.Constant(value_ints=[1, 2]))  # (B, 1, 1, T)
    y = op.Softmax(op.Where(mask, s, op.CastLike(op.Constant(value_float=-3.0e38), s)), axis=-1)
    return y


@component("image", "text")
def grounded_layer(
    spec: GroundedSpec,
    g: Body,
    image: ir.Value,
    text: ir.Value,
    image_positions: ir.Value,
    text_positions: ir.Value,
    references: ir.Value,
    sizes: dict[str, ir.Value],
    real: ir.Value,
    tokens: ir.Value,
    mask: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Fusion, then attention of tokens to tokens and of places to places (Liu et al. 2023, 3.1).

    image (B,P,W), text (B,S,W) and their positions, points (B,P,L,2), sizes of levels -> both. Without
    padding where real (B,P) and tokens (B,S); mask (B,1,S,S) of tokens that see one another.
    """
    op, heads, networks = (
        g.op,
        (spec.mutual_heads, spec.hidden_size),
        (spec.inner, spec.cells.intermediate_size),
    )
    of_text, of_image = (spec.network(size) for size in networks)
    image, text = fusion(spec, g / "fusion", image, text, real, tokens)
    query = op.Add(text, text_positions)
    mixed = separate_attention(*heads, g / "text_attention", query, query, text, mask)
    text = norm(spec.norm, g / "text_attention_norm", op.Add(text, mixed))
    mixed = feed_forward(of_text, g / "text_feed_forward", text)
    text = norm(spec.norm, g / "text_feed_forward_norm", op.Add(text, mixed))
    query = op.Add(image, image_positions)
    read = deformable_attention(
        spec.cell_attention, g / "attention", query, references, image, sizes, real=real
    )
    image = norm(spec.norm, g / "attention_norm", op.Add(image, read))
    mixed = feed_forward(of_image, g / "feed_forward", image)
    image = norm(spec.norm, g / "feed_forward_norm", op.Add(image, mixed))
    return image, text


@component("y")
def object_layer(
    spec: GroundedSpec,
    g: Body,
    x: ir.Value,
    positions: ir.Value,
    references: ir.Value,
    image: ir.Value,
    text: ir.Value,
    sizes: dict[str, ir.Value],
    real: ir.Value,
    mask: ir.Value,
) -> ir.Value:
    """Queries that attend to one another, to the text, and to places near a box (Liu et al. 2023, 3.3).

    x and positions (B,Q,W), boxes (B,Q,L,4), image (B,P,W), text (B,S,W), sizes -> y (B,Q,W). Values are
    zeros where not real (B,P); mask (B,1,Q,S) of tokens.
    """
    op, heads = g.op, (spec.objects.num_heads, spec.hidden_size)
    query = op.Add(x, positions)
    mixed = separate_attention(*heads, g / "attention", query, query, x)
    x = norm(spec.norm, g / "attention_norm", op.Add(x, mixed))
    query = op.Add(x, positions)
    mixed = separate_attention(*heads, g / "text_attention", query, text, text, mask)
    x = norm(spec.norm, g / "text_attention_norm", op.Add(x, mixed))
    query = op.Add(x, positions)
    read = deformable_attention(
        spec.object_attention, g / "cross_attention", query, references, image, sizes, real=real
    )
    x = norm(spec.norm, g / "cross_attention_norm", op.Add(x, read))
    network = spec.network(spec.objects.intermediate_size)
    y = norm(spec.norm, g / "feed_forward_norm", op.Add(x, feed_forward(network, g / "feed_forward", x)))
    return y
