"""CLIPSeg (Lüddecke and Ecker 2022): pixels that a text describes, by a decoder over CLIP's encoders."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _pictured, clip
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DescribedSegmentsSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    PatchSpec,
)
from txexport.spec.described_segments import SHARE

TASKS = {"image-segmentation": ("CLIPSegForImageSegmentation",)}

NAMING = Naming()
REFUSED = {"CLIPSegModel": "it compares texts with whole images; expected CLIPSegForImageSegmentation"}


def spec(config: Config, task: str, names: TensorNames) -> DescribedSegmentsSpec:
    """The architecture that config.json describes."""
    text, vision = (clip.tower(config, name) for name in ("text_config", "vision_config"))
    pick, mark = clip.ending(text)
    images = clip.vision_stack(vision)
    layers = _layers(config, images.num_layers)
    refined = config.flag("use_complex_transposed_convolution", False)
    assert isinstance(images.embedding, PatchSpec)
    if refined and images.embedding.patch_size < SHARE:
        raise UnsupportedError(
            f"{config.path}: use_complex_transposed_convolution is true and patch_size "
            f"{images.embedding.patch_size}, expected {SHARE} or more"
        )
    patches = replace(images.embedding, any_size=True)
    images = replace(images, embedding=patches, num_layers=max(layers) + 1, final_norm=None)
    return DescribedSegmentsSpec(
        text=clip.text_stack(text),
        vision=images,
        size=config.integer("projection_dim", 512),
        pick=pick,
        eos_token_id=mark,
        layers=layers,
        block=_block(config, vision),
        conditioned=_conditioned(config, len(layers)),
        refined=refined,
    )


def _layers(config: Config, count: int) -> tuple[int, ...]:
    """The layers of the image encoder that the decoder reads."""
    layers = config.with_defaults(extract_layers=[3, 6, 9]).values["extract_layers"]
    known = isinstance(layers, list) and all(type(one) is int and 0 <= one < count for one in layers)
    if not known or not layers:
        raise UnsupportedError(
            f"{config.path}: extract_layers is {layers}, expected numbers from 0 of the {count} layers of "
            "vision_config"
        )
    return tuple(layers)


def _conditioned(config: Config, count: int) -> int:
    """The layer of the decoder before which the text changes its input."""
    layer = config.integer("conditional_layer", 0)
    if not 0 <= layer < count:
        raise UnsupportedError(
            f"{config.path}: conditional_layer is {layer}, but the decoder has {count} layers, so that no "
            "text would change a mask"
        )
    return layer


def _block(config: Config, vision: Config) -> BlockSpec:
    """A layer of the decoder; its activation is always a ReLU."""
    width, heads = config.integer("reduce_dim", 64), config.integer("decoder_num_attention_heads", 4)
    norm = NormSpec(width, vision.number("layer_norm_eps", 1e-5))
    attention = AttentionSpec(width, heads, heads, config.head_dim(width, heads), causal=False, unmasked=True)
    inner = config.integer("decoder_intermediate_size", 2048)
    return BlockSpec(attention, FeedForwardSpec(width, inner, Activation.RELU), norm, NormPlacement.POST)


def table(spec: DescribedSegmentsSpec) -> Table:
    """Map parameters to the tensor names of transformers; what compares whole images is left out."""
    rules: Rules = clip.text_rules("text", "clip.text_model.")
    rules |= clip.vision_rules("vision", "clip.vision_model.")
    rules |= {
        "text_projection.*": "clip.text_projection.*",
        "states.projects.{i}.*": "decoder.reduces.{i}.*",
        "decoder.film.scale.*": "decoder.film_mul.*",
        "decoder.film.shift.*": "decoder.film_add.*",
    }
    pixels = "decoder.transposed_convolution"
    if spec.refined:
        layers = {"convolve": 0, "expand": 2, "expand_again": 4}
        rules |= {f"decoder.pixels.{part}.*": f"{pixels}.{layer}.*" for part, layer in layers.items()}
    else:
        rules["decoder.pixels.expand.*"] = f"{pixels}.*"
    rules |= clip.layer_rules("decoder.layers.{i}", "decoder.layers.{i}")
    numbers = range(spec.vision.num_layers, _pictured.MOST_LAYERS)
    later = (f"clip.vision_model.encoder.layers.{number}.*" for number in numbers)
    left_out = ("clip.visual_projection.*", "clip.logit_scale", "clip.vision_model.post_layernorm.*")
    return Table(rules, NAMING, (*later, *left_out, "*.position_ids"))
