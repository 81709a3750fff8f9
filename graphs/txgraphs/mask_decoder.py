"""Masks of an image for prompts, and scores of them."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import Activation, MaskDecoderSpec, StabilitySpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.activation import activation
from txgraphs.heads.boxes import perceptron
from txgraphs.norm import norm
from txgraphs.two_way import two_way


@component("masks", "scores", "objects")
def mask_decoder(
    spec: MaskDecoderSpec,
    g: Body,
    image: ir.Value,
    positions: ir.Value,
    prompts: ir.Value,
    **maps: ir.Value,
) -> tuple[ir.Value, ...]:
    """Logits of masks and their scores, of every group of prompts (Kirillov et al. 2023, A).

    image and positions (B,W,R,C), prompts (B,P,N,W) -> masks (B,P,M,4R,4C), scores (B,P,M). With
    object_score, `maps` has finer (B,W/4,2R,2C) and finest (B,W/8,4R,4C) of the image, and objects (B,P,1)
    follow. dense (B,Q,W,R,C) of it is of masks as prompts, where has_masks (B,Q) is 1.
    """
    op, gelu, doubling = g.op, activation(Activation.GELU), {"kernel_shape": [2, 2], "strides": [2, 2]}
    tokens_of = ["object_token"] * spec.object_score + ["score_token", "mask_tokens"]
    learned, first_mask = (
        op.Concat(*(g.weight(f"{token}.weight") for token in tokens_of), axis=0),
        len(tokens_of) - 1,
    )
    tokens = g.call(with_learned, learned, prompts)  # (B*P, T, W)
    shape = op.Constant(value_ints=[1, -1, 1, 1])
    no_mask = op.Reshape(g.weight("no_mask.weight"), shape)
    if "dense" in maps:
        plain = g.call(of_each_prompted, image, no_mask, maps["dense"], maps["has_masks"], prompts)
    else:
        plain = g.call(of_each, op.Add(image, no_mask), prompts)
    x, y = two_way(spec.layers, g / "layers", tokens, plain, g.call(of_each, positions, prompts))
    grid = g.call(as_map, y, image)  # (B*P, W, R, C)
    doubled = op.ConvTranspose(grid, g.weight("upscale.weight"), g.weight("upscale.bias"), **doubling)
    doubled = g.call(of_image, doubled, maps["finer"]) if spec.object_score else doubled
    normed = norm(spec.norm, g / "upscale_norm", op.Transpose(doubled, perm=[0, 2, 3, 1]))
    features = op.Transpose(g.call(gelu, normed), perm=[0, 3, 1, 2])
    features = op.ConvTranspose(
        features, g.weight("upscale_again.weight"), g.weight("upscale_again.bias"), **doubling
    )
    features = g.call(of_image, features, maps["finest"]) if spec.object_score else features
    features = g.call(gelu, features)  # (B*P, W/8, 4R, 4C)
    vectors = []
    for mask in range(spec.masks):
        token = op.Gather(x, op.Constant(value_ints=[first_mask + mask]), axis=1)  # (B*P, 1, W)
        vectors.append(perceptron(g, f"vectors.{mask}", 3, token))
    every = op.Concat(*vectors, axis=1)  # (B*P, M, W/8)
    flat = op.Reshape(features, op.Constant(value_ints=[0, 0, -1]))
    masks = g.call(grouped_masks, op.MatMul(every, flat, name="products"), features, prompts)
    first = op.Gather(x, op.Constant(value_int=first_mask - 1), axis=1)  # (B*P, W)
    scores = g.call(grouped, perceptron(g, "score", spec.score_layers, first), prompts)
    if not spec.object_score:
        return masks, scores
    token = op.Gather(x, op.Constant(value_int=0), axis=1)  # (B*P, W)
    scores, objects = op.Sigmoid(scores), g.call(grouped, perceptron(g, "object", 3, token), prompts)
    if spec.stability is not None:
        masks, scores = g.call(stable_first(spec.stability), masks, scores)
    return masks, scores, objects


@script(domain, default_opset=op)
def of_image(features, finer):
    """features (B*P,W,R,C) of every group of prompts, plus the map (B,W,R,C) of its image."""
    shape = op.Concat(op.Shape(finer, end=1), op.Constant(value_ints=[-1]), op.Shape(finer, start=1), axis=0)
    groups = op.Reshape(features, shape) + op.Unsqueeze(finer, op.Constant(value_ints=[1]))  # (B, P, W, R, C)
    y = op.Reshape(groups, op.Shape(features))
    return y


@cache
def stable_first(spec: StabilitySpec) -> OnnxFunction:
    """masks (B,P,M,R,C), scores (B,P,M) -> the same, an unstable first one replaced by the likeliest."""
    high, low, least = spec.delta, -spec.delta, spec.threshold

    @script(domain, default_opset=op)
    def stable_first(masks, scores):
        zero, one, axis = (
            op.Constant(value_ints=[0]),
            op.Constant(value_ints=[1]),
            op.Constant(value_ints=[2]),
        )
        size, sides = op.Shape(scores, start=2), op.Constant(value_ints=[3, 4])
        first, others = op.Slice(masks, zero, one, axis), op.Slice(masks, one, size, axis)
        first_score, other_scores = op.Slice(scores, zero, one, axis), op.Slice(scores, one, size, axis)
        above = op.Cast(op.Greater(first, op.CastLike(op.Constant(value_float=high), first)), to=1)
        below = op.Cast(op.Greater(first, op.CastLike(op.Constant(value_float=low), first)), to=1)
        inner = op.ReduceSum(above, sides, keepdims=0)  # (B, P, 1)
        outer = op.ReduceSum(below, sides, keepdims=0)
        unit, some = op.Constant(value=float32(1.0)), op.Greater(outer, op.Constant(value=float32(0.0)))
        share = op.Where(some, inner / op.Max(outer, unit), unit)
        stable = op.GreaterOrEqual(share, op.Constant(value=float32(least)))
        best = op.ArgMax(other_scores, axis=2)  # (B, P, 1)
        likeliest = op.Unsqueeze(op.GatherND(others, best, batch_dims=2), axis)  # (B, P, 1, R, C)
        score = op.Where(stable, first_score, op.GatherElements(other_scores, best, axis=2))
        mask = op.Where(op.Unsqueeze(stable, sides), first, likeliest)
        return op.Concat(mask, others, axis=2), op.Concat(score, other_scores, axis=2)

    return stable_first


@script(domain, default_opset=op)
def with_learned(learned, prompts):
    """learned (M+1,W), prompts (B,P,N,W) -> the decoder's tokens and each group's prompts (B*P,T,W)."""
    shape = op.Concat(op.Shape(prompts, end=2), op.Shape(learned), axis=0)
    tokens = op.Concat(op.Expand(learned, shape), prompts, axis=2)
    y = op.Reshape(tokens, op.Concat(op.Constant(value_ints=[-1]), op.Shape(tokens, start=2), axis=0))
    return y


@script(domain, default_opset=op)
def of_each(image, prompts):
    """image (B,W,R,C), prompts (B,P,N,W) -> the image's places for each group (B*P,S,W)."""
    flat = op.Reshape(image, op.Constant(value_ints=[0, 0, -1]))
    cells = op.Unsqueeze(op.Transpose(flat, perm=[0, 2, 1]), op.Constant(value_ints=[1]))  # (B, 1, S, W)
    shape = op.Concat(op.Shape(prompts, end=2), op.Shape(cells, start=2), axis=0)
    y = op.Reshape(
        op.Expand(cells, shape), op.Concat(op.Constant(value_ints=[-1]), op.Shape(cells, start=2), axis=0)
    )
    return y


@script(domain, default_opset=op)
def of_each_prompted(image, no_mask, dense, has_masks, prompts):
    """As `of_each`, with dense (B,Q,W,R,C) where has_masks (B,Q) is 1, and elsewhere no_mask (1,W,1,1)."""
    masked = op.Greater(has_masks, op.CastLike(op.Constant(value_int=0), has_masks))
    chosen = op.Where(op.Unsqueeze(masked, op.Constant(value_ints=[2, 3, 4])), dense, no_mask)
    sums = op.Unsqueeze(image, op.Constant(value_ints=[1])) + chosen  # (B, Q, W, R, C)
    flat = op.Reshape(sums, op.Constant(value_ints=[0, 0, 0, -1]))
    cells = op.Transpose(flat, perm=[0, 1, 3, 2])  # (B, Q, S, W)
    shape = op.Concat(op.Shape(prompts, end=2), op.Shape(cells, start=2), axis=0)
    y = op.Reshape(
        op.Expand(cells, shape), op.Concat(op.Constant(value_ints=[-1]), op.Shape(cells, start=2), axis=0)
    )
    return y


@script(domain, default_opset=op)
def as_map(y, image):
    """y (B*P,S,W), image (B,W,R,C) -> (B*P,W,R,C)."""
    shape = op.Concat(op.Constant(value_ints=[0, 0]), op.Shape(image, start=2), axis=0)
    x = op.Reshape(op.Transpose(y, perm=[0, 2, 1]), shape)
    return x


@script(domain, default_opset=op)
def grouped(scores, prompts):
    """scores (B*P,M), prompts (B,P,N,W) -> (B,P,M)."""
    y = op.Reshape(scores, op.Concat(op.Shape(prompts, end=2), op.Constant(value_ints=[-1]), axis=0))
    return y


@script(domain, default_opset=op)
def grouped_masks(products, features, prompts):
    """products (B*P,M,S), features (B*P,W,h,w), prompts (B,P,N,W) -> (B,P,M,h,w)."""
    inner = op.Concat(op.Shape(products, start=1, end=2), op.Shape(features, start=2), axis=0)
    y = op.Reshape(products, op.Concat(op.Shape(prompts, end=2), inner, axis=0))
    return y
