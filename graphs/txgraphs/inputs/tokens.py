"""Token ids to vectors."""

import onnx_ir as ir

from txexport.spec import EmbeddingSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.page import box_tables, page_image
from txgraphs.splice import spliced
from txgraphs.trigrams import trigrams

KEPT = 1 - 0.15 * 0.8  # the share of tokens that ESM's training did not mask


@component("x")
def embedding(
    spec: EmbeddingSpec,
    g: Body,
    input_ids: ir.Value,
    positions: ir.Value,
    token_type_ids: ir.Value | None,
    attention_mask: ir.Value | None,
    **images: ir.Value,
) -> ir.Value:
    """Word, position and token type embeddings, added (Vaswani et al. 2017, 3.4; Devlin et al. 2019, 3).

    Tables narrower than the stack are projected to its width (Lan et al. 2020, 3.1). All (B,S), or positions
    (1,S) -> x (B,S,W). With one token type, token_type_ids are not needed; only token dropout and masked
    vectors need the mask. Where tokens stand for images, image_features (N,W) are their vectors. boxes
    (B,S,4) are the words' on a page; the P patches of its pixel_values (B,channels,height,width) follow:
    (B,S+P,W).
    """
    op = g.op
    x = g.table("word.weight").lookup(op, input_ids)  # (B, S, W)
    if spec.project_first:
        read = g.call(trigrams, x, name="trigrams") if spec.trigrams else x  # (B, S, 3*W)
        x = linear(spec.trigrams, g / "project", read)
    if spec.dropped is not None:
        x = _rescaled(spec.dropped, g, x, input_ids, attention_mask)
    if spec.scale != 1 or spec.image_token_id is not None:
        x = _scaled(spec, g, x, input_ids, images.get("image_features"))
    if spec.norm is not None and spec.norm_first:
        x = norm(spec.norm, g / "norm", x)
    if spec.position.table:
        places = positions
        if spec.position.offset:  # OpenVINO removes an addition of 0 and gives its name to the input
            places = op.Add(positions, op.Constant(value_int=spec.position.offset))
        x = op.Add(x, op.Gather(g.weight("position.weight"), places), name="words")
    if spec.type_vocab_size == 1:
        x = op.Add(x, g.weight("segment.weight"), name="words")
    elif spec.type_vocab_size:
        x = op.Add(x, op.Gather(g.weight("segment.weight"), token_type_ids), name="words")
    if spec.task_type_vocab_size:
        x = op.Add(x, op.Gather(g.weight("task.weight"), op.Constant(value_int=0)), name="words")
    if spec.boxes is not None:
        x = op.Add(x, box_tables(spec.boxes, g / "boxes", images["boxes"]), name="words")
    if spec.norm is not None and not spec.norm_first:
        x = norm(spec.norm, g / "norm", x)
    if spec.masked:
        real = op.Unsqueeze(op.Cast(attention_mask, to=g.dtype), op.Constant(value_ints=[2]))  # (B, S, 1)
        x = op.Mul(x, real, name="words")
    if spec.factored_size is not None and not spec.project_first:
        x = linear(True, g / "project", x)
    return x if spec.page is None else page_image(spec.page, g / "page", x, images["pixel_values"])


def _scaled(
    spec: EmbeddingSpec, g: Body, x: ir.Value, input_ids: ir.Value, image_features: ir.Value | None
) -> ir.Value:
    """Word embeddings x (B,S,W) multiplied by the scale, with the vectors (N,W) of images in their places."""
    y = x if spec.scale == 1 else g.op.Mul(x, g.op.Constant(value_float=spec.scale), name="words")
    if spec.image_token_id is not None and image_features is not None:
        y = g.call(spliced(spec.image_token_id), y, input_ids, image_features, name="words")
    return y


def _rescaled(
    dropped_id: int, g: Body, words: ir.Value, input_ids: ir.Value, attention_mask: ir.Value | None
) -> ir.Value:
    """Word embeddings (B,S,W), zero for the id `dropped_id`, the others scaled as in ESM's training."""
    op = g.op
    dropped = op.Cast(
        op.Equal(input_ids, op.Constant(value_int=dropped_id)), to=g.dtype, name="dropped"
    )  # (B, S)
    axis, one = op.Constant(value_ints=[1]), op.Constant(value_float=1.0)
    real = op.Cast(op.ReduceSum(attention_mask, axis), to=g.dtype, name="real")  # (B, 1)
    share = op.Unsqueeze(op.Div(op.ReduceSum(dropped, axis), real), axis, name="share")  # (B, 1, 1)
    left = op.Unsqueeze(op.Sub(one, dropped), op.Constant(value_ints=[2]), name="left")  # (B, S, 1)
    kept = op.Mul(op.Mul(words, left), op.Constant(value_float=KEPT))
    return op.Div(kept, op.Sub(one, share), name="words")
