"""DINOv3 (Siméoni et al. 2025): DINOv2 with registers and 2-D RoPE over the patches."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take, zeros
from txexport.errors import CheckpointError
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.families._rope import plain_frequencies
from txexport.spec import (
    EncoderSpec,
    FeedForwardSpec,
    PatchSpec,
    RotarySpec,
    SignalStackSpec,
    VectorSpec,
)

TASKS = {"image-feature-extraction": ("DINOv3ViTModel",)}

NAMING = Naming(others=("model.",))
LAYER, SOURCE = "encoder.layers.{i}", "layer.{i}"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; an image's vector is that of CLS."""
    config = config.with_defaults(layer_norm_eps=1e-5)
    stack = vit.image_spec(config, task, names, tokens=1, any_size=True).encoder
    assert isinstance(stack, SignalStackSpec)
    assert isinstance(stack.embedding, PatchSpec)
    (block,) = stack.blocks
    once = plain_frequencies(config.number("rope_theta", 100.0), block.dense.head_dim // 2)
    attention = replace(
        block.dense,
        bias=_biased(config, names, stack.num_layers),
        output_bias=config.flag("proj_bias", True),
        rotary=RotarySpec(2 * once),  # rows, then columns
    )
    assert isinstance(block.feed_forward, FeedForwardSpec)
    gated, bias = config.flag("use_gated_mlp", False), config.flag("mlp_bias", True)
    feed_forward = replace(block.feed_forward, gated=gated, bias=bias)
    block = replace(block, attention=attention, feed_forward=feed_forward, layer_scale=True)
    registers = config.integer("num_register_tokens", 0)
    patches = replace(stack.embedding, positioned=False, registers=registers)
    return EncoderSpec(encoder=replace(stack, embedding=patches, blocks=(block,)), vector=VectorSpec())


def _biased(config: Config, names: TensorNames, layers: int) -> bool:
    """Tell whether query, key or value has a bias. Raises CheckpointError for biases that are missing."""
    result = False
    for name in ("query", "key", "value"):
        biased, leaf = config.flag(f"{name}_bias", name != "key"), f"attention.{name[0]}_proj.bias"
        stored = sum(stored.endswith(leaf) for stored in names)
        if stored != layers * biased:
            raise CheckpointError(
                f"{config.path}: {name}_bias={biased} over {layers} layers, but there are {stored} tensors "
                f"'{leaf}'; expected {layers * biased}"
            )
        result |= biased
    return result


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; absent biases of projections are 0."""
    rules: Rules = {
        "encoder.embedding.tokens.0.weight": Take("embeddings.cls_token", leading_axis=True),
        "encoder.embedding.registers.weight": Take("embeddings.register_tokens", leading_axis=True),
        "encoder.embedding.project.*": "embeddings.patch_embeddings.*",
        f"{LAYER}.attention.o.*": f"{SOURCE}.attention.o_proj.*",
        f"{LAYER}.attention_norm.*": f"{SOURCE}.norm1.*",
        f"{LAYER}.attention_scale.weight": f"{SOURCE}.layer_scale1.lambda1",
        f"{LAYER}.feed_forward.gate.*": f"{SOURCE}.mlp.gate_proj.*",
        f"{LAYER}.feed_forward.up.*": f"{SOURCE}.mlp.up_proj.*",
        f"{LAYER}.feed_forward.down.*": f"{SOURCE}.mlp.down_proj.*",
        f"{LAYER}.feed_forward_norm.*": f"{SOURCE}.norm2.*",
        f"{LAYER}.feed_forward_scale.weight": f"{SOURCE}.layer_scale2.lambda1",
        "encoder.final_norm.*": "norm.*",
    }
    for name in "qkv":
        source = f"{SOURCE}.attention.{name}_proj"
        rules[f"{LAYER}.attention.{name}.weight"] = f"{source}.weight"
        rules[f"{LAYER}.attention.{name}.bias"] = Take(f"{source}.bias", computed=zeros)
    return Table(rules, NAMING, drop=("embeddings.mask_token", "embeddings.register_tokens"))
