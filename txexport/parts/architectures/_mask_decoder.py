"""Parameters and operations of the decoder of masks."""

from itertools import pairwise

import numpy as np

from txexport.spec import FeedForwardSpec, MaskDecoderSpec, MaskPromptSpec, TwoWaySpec
from txexport.spec.parameters import dense_feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


def operations(decoder: MaskDecoderSpec, cells: int) -> int:
    """The operations of the mask decoder for one group of one point and one that is none."""
    spec, tokens = decoder.layers, decoder.masks + 3
    width, inner = spec.hidden_size, spec.hidden_size // spec.reduction
    tokens += decoder.object_score
    of_self = 4 * tokens * width**2 + 2 * tokens**2 * width
    of_network = 2 * tokens * width * spec.intermediate_size
    crossed = 2 * (tokens + cells) * width * inner + 2 * tokens * cells * inner
    layers = spec.num_layers * (of_self + of_network + 2 * crossed) + crossed
    doubled = cells * width * width + 4 * cells * (width // 4) * (width // 2)
    vectors = decoder.masks * (2 * width**2 + width * (width // 8))
    products = decoder.masks * (width // 8) * 16 * cells
    network = (2 * width**2 + width) * decoder.object_score
    return 2 * (layers + doubled + vectors + products + _scores(decoder) + network)


def of_one(decoder: MaskDecoderSpec) -> int:
    """Twice the number of weights of the decoder's matrices."""
    shapes = mask_decoder(decoder).values()
    return 2 * sum(int(np.prod(shape)) for shape in shapes if len(shape) == 2)


def _scores(decoder: MaskDecoderSpec) -> int:
    """The products of the dense layers that give the scores."""
    sizes = [decoder.layers.hidden_size, *[decoder.score_size] * (decoder.score_layers - 1), decoder.masks]
    return sum(inner * outer for inner, outer in pairwise(sizes))


def mask_decoder(spec: MaskDecoderSpec) -> Shapes:
    """The decoder's own vectors, its layers, both doublings, and the networks of masks and scores."""
    width = spec.layers.hidden_size
    shapes: Shapes = {"no_mask.weight": (1, width)}
    if spec.object_score:
        shapes["object_token.weight"] = (1, width)
    shapes |= {
        "score_token.weight": (1, width),
        "mask_tokens.weight": (spec.masks, width),
        **under("layers", _two_way(spec.layers)),
        "upscale.weight": (width, width // 4, 2, 2),
        "upscale.bias": (width // 4,),
        **under("upscale_norm", norm(spec.norm)),
        "upscale_again.weight": (width // 4, width // 8, 2, 2),
        "upscale_again.bias": (width // 8,),
    }
    for mask in range(spec.masks):
        for layer in range(3):
            shapes |= under(
                f"vectors.{mask}.{layer}", linear(width, width // 8 if layer == 2 else width, True)
            )
    sizes = [width, *[spec.score_size] * (spec.score_layers - 1), spec.masks]
    for layer, (inner, outer) in enumerate(pairwise(sizes)):
        shapes |= under(f"score.{layer}", linear(inner, outer, True))
    for layer in range(3 * spec.object_score):
        shapes |= under(f"object.{layer}", linear(width, 1 if layer == 2 else width, True))
    return shapes


def _two_way(spec: TwoWaySpec) -> Shapes:
    """Every layer, the last attention, and the final norm."""
    network = FeedForwardSpec(spec.hidden_size, spec.intermediate_size, spec.activation)
    shapes: Shapes = {}
    for layer in range(spec.num_layers):
        parts = {
            "self_attention": _narrow(spec, 1),
            "to_image": _narrow(spec, spec.reduction),
            "feed_forward": dense_feed_forward(network),
            "to_prompts": _narrow(spec, spec.reduction),
        }
        for name, part in parts.items():
            shapes |= under(f"layers.{layer}.{name}", part)
            shapes |= under(f"layers.{layer}.{name}_norm", norm(spec.norm))
    return (
        shapes | under("to_image", _narrow(spec, spec.reduction)) | under("final_norm", norm(spec.final_norm))
    )


def _narrow(spec: TwoWaySpec, reduction: int) -> Shapes:
    """Query, key, value and output projections."""
    width = spec.hidden_size
    inner, shapes = width // reduction, Shapes()
    for name in ("q", "k", "v"):
        shapes |= under(name, linear(width, inner, True))
    return shapes | under("o", linear(inner, width, True))


def mask_prompt(spec: MaskPromptSpec, width: int) -> Shapes:
    """The three convolutions, and the norms behind the first two."""
    quarter = spec.channels // 4
    return {
        "halve.weight": (quarter, 1, 2, 2),
        "halve.bias": (quarter,),
        **under("halve_norm", norm(spec.norm)),
        "halve_again.weight": (spec.channels, quarter, 2, 2),
        "halve_again.bias": (spec.channels,),
        **under("halve_again_norm", norm(spec.second_norm)),
        "project.weight": (width, spec.channels, 1, 1),
        "project.bias": (width,),
    }
