"""StarCoder2 (Lozhkov et al. 2024): pre-norm, grouped-query attention, RoPE, sliding window, biases."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal
from txexport.families._config import Config, TensorNames
from txexport.families._rope import longest, rotary
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = _causal.tasks("Starcoder2", spans=False)

NAMING = Naming("model.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    head_dim, bias = config.head_dim(width, heads), config.flag("use_bias", True)
    config.expect(head_dim=head_dim, layer_types=None)
    norm, most = NormSpec(width, config.number("norm_epsilon", 1e-5)), longest(config)
    window = config.integer("sliding_window", most)
    attention = AttentionSpec(
        width,
        heads,
        config.integer("num_key_value_heads", 2),
        head_dim,
        causal=True,
        bias=bias,
        output_bias=bias,
        rotary=rotary(config, head_dim),
        window=window if window < most else None,
    )
    feed_forward = FeedForwardSpec(
        width, config.integer("intermediate_size"), config.activation("hidden_act", "gelu_pytorch_tanh"), bias
    )
    stack = TextStackSpec(
        EmbeddingSpec(config.integer("vocab_size"), width, PositionSpec(PositionKind.NONE, most)),
        (BlockSpec(attention, feed_forward, norm, NormPlacement.PRE),),
        config.count("num_hidden_layers"),
        final_norm=norm,
    )
    return _causal.model(config, task, stack, tied=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack = _causal.stack_name(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("embed_tokens.weight", also=_causal.copies(spec)),
        f"{layer}.attention.q.*": "layers.{i}.self_attn.q_proj.*",
        f"{layer}.attention.k.*": "layers.{i}.self_attn.k_proj.*",
        f"{layer}.attention.v.*": "layers.{i}.self_attn.v_proj.*",
        f"{layer}.attention.o.*": "layers.{i}.self_attn.o_proj.*",
        f"{layer}.attention_norm.*": "layers.{i}.input_layernorm.*",
        f"{layer}.feed_forward.up.*": "layers.{i}.mlp.c_fc.*",
        f"{layer}.feed_forward.down.*": "layers.{i}.mlp.c_proj.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.post_attention_layernorm.*",
        f"{stack}.final_norm.*": "norm.*",
    }
    return Table(rules | _causal.head_rules(spec), NAMING, drop=_causal.other_heads(spec))
