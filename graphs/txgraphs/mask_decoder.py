"""Masks of an image for prompts, and scores of them."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import Activation, MaskDecoderSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.heads.boxes import perceptron
from txgraphs.norm import norm
from txgraphs.two_way import two_way


@component("masks", "scores")
def mask_decoder(
    spec: MaskDecoderSpec, g: Body, image: ir.Value, positions: ir.Value, prompts: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Logits of masks and their scores, of every group of prompts (Kirillov et al. 2023, A).

    image and positions (B,W,R,C), prompts (B,P,N,W) -> masks (B,P,M,4R,4C), scores (B,P,M).
    """
    op, gelu, doubling = g.op, activation(Activation.GELU), {"kernel_shape": [2, 2], "strides": [2, 2]}
    learned = op.Concat(g.weight("score_token.weight"), g.weight("mask_tokens.weight"), axis=0)
    tokens = g.call(with_learned, learned, prompts)  # (B*P, T, W)
    shape = op.Constant(value_ints=[1, -1, 1, 1])
    plain = g.call(of_each, op.Add(image, op.Reshape(g.weight("no_mask.weight"), shape)), prompts)
    x, y = two_way(spec.layers, g / "layers", tokens, plain, g.call(of_each, positions, prompts))
    grid = g.call(as_map, y, image)  # (B*P, W, R, C)
    doubled = op.ConvTranspose(grid, g.weight("upscale.weight"), g.weight("upscale.bias"), **doubling)
    normed = norm(spec.norm, g / "upscale_norm", op.Transpose(doubled, perm=[0, 2, 3, 1]))
    features = op.Transpose(g.call(gelu, normed), perm=[0, 3, 1, 2])
    features = op.ConvTranspose(
        features, g.weight("upscale_again.weight"), g.weight("upscale_again.bias"), **doubling
    )
    features = g.call(gelu, features)  # (B*P, W/8, 4R, 4C)
    vectors = []
    for mask in range(spec.masks):
        token = op.Gather(x, op.Constant(value_ints=[1 + mask]), axis=1)  # (B*P, 1, W)
        vectors.append(perceptron(g, f"vectors.{mask}", 3, token))
    every = op.Concat(*vectors, axis=1)  # (B*P, M, W/8)
    flat = op.Reshape(features, op.Constant(value_ints=[0, 0, -1]))
    masks = g.call(grouped_masks, op.MatMul(every, flat, name="products"), features, prompts)
    first = op.Gather(x, op.Constant(value_int=0), axis=1)  # (B*P, W)
    scores = g.call(grouped, perceptron(g, "score", spec.score_layers, first), prompts)
    return masks, scores


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
