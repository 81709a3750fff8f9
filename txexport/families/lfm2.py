"""LFM2 (Amini et al. 2025): short gated convolutions, and grouped-query attention in a few layers."""

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, ShortConvolutionSpec, TextStackSpec

TASKS = {"text-generation": ("Lfm2ForCausalLM",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; older files name the width of feed-forward networks
    block_ff_dim, adjust it, and list the layers with attention.
    """
    config.expect(block_use_swiglu=True)
    config = renamed(config).replaced(intermediate_size=_network_width(config))
    return _causal.model(config, task, stack_spec(config), tied=True)


def renamed(config: Config) -> Config:
    """The settings by LLaMA's names, with this family's defaults."""
    config.expect(use_pos_enc=True)
    config = config.with_defaults(num_key_value_heads=8, norm_eps=1e-5, max_position_embeddings=128_000)
    config = config.with_defaults(rope_theta=1e6) if config.values.get("rope_parameters") is None else config
    return config.replaced(
        rms_norm_eps=config.number("norm_eps"),
        tie_word_embeddings=config.values.get(
            "tie_embedding", config.values.get("tie_word_embeddings", True)
        ),
        hidden_act="silu",
    )


def stack_spec(config: Config) -> TextStackSpec:
    """LLaMA's stack of renamed settings, with convolutions in place of attention in most layers."""
    stack = llama.stack_spec(config, head_norm=True)
    convolution = ShortConvolutionSpec(
        stack.hidden_size, config.integer("conv_L_cache", 3), config.flag("conv_bias", False)
    )
    attends = _attends(config, stack.num_layers)
    return _causal.beside_attention(config, stack, attends, lambda: convolution)


def _network_width(config: Config) -> int:
    """Width of a feed-forward network: two thirds of the given one, times a factor, up to a multiple."""
    old = config.values.get("block_ff_dim") is not None
    width = config.integer("block_ff_dim" if old else "intermediate_size", 12_288)
    if not config.flag("block_auto_adjust_ff_dim", True):
        return width
    width = int(2 * width / 3)
    if "block_ffn_dim_multiplier" in config.values and config.values["block_ffn_dim_multiplier"] is None:
        return width
    width = int(config.number("block_ffn_dim_multiplier", 1.0) * width)
    multiple = config.count("block_multiple_of", 256)
    return multiple * -(-width // multiple)


def _attends(config: Config, count: int) -> list[bool]:
    """For each layer, tell whether it has attention."""
    kinds = config.layer_types("conv", "full_attention")
    if not kinds:
        listed = config.values.get("full_attn_idxs") is not None
        layers = config.numbers("full_attn_idxs") if listed else range(count)
        return [layer in layers for layer in range(count)]
    return [kind == "full_attention" for kind in kinds]


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{layer}.attention.o.*": "layers.{i}.self_attn.out_proj.*",
        f"{layer}.attention.q_norm.*": "layers.{i}.self_attn.q_layernorm.*",
        f"{layer}.attention.k_norm.*": "layers.{i}.self_attn.k_layernorm.*",
        f"{layer}.attention.project.*": "layers.{i}.conv.in_proj.*",
        f"{layer}.attention.convolution.*": "layers.{i}.conv.conv.*",
        f"{layer}.attention.output.*": "layers.{i}.conv.out_proj.*",
        f"{layer}.attention_norm.*": "layers.{i}.operator_norm.*",
        f"{layer}.feed_forward.gate.*": "layers.{i}.feed_forward.w1.*",
        f"{layer}.feed_forward.up.*": "layers.{i}.feed_forward.w3.*",
        f"{layer}.feed_forward.down.*": "layers.{i}.feed_forward.w2.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.ffn_norm.*",
        f"{stack}.final_norm.*": "embedding_norm.*",
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
