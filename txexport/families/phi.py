"""Phi-1 and 2 (Gunasekar et al. 2023): parallel sublayers after one norm, RoPE on half of a head, biases."""

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

TASKS = _causal.tasks("Phi", spans=False)

NAMING = Naming("model.")
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    head_dim, eps = config.head_dim(width, heads), config.number("layer_norm_eps", 1e-5)
    config.expect(head_dim=head_dim)
    norm = NormSpec(width, eps)
    attention = AttentionSpec(
        width,
        heads,
        config.integer("num_key_value_heads", heads),
        head_dim,
        causal=True,
        rotary=rotary(config, head_dim, fraction="partial_rotary_factor", default=0.5),
        head_norm=NormSpec(head_dim, eps) if config.flag("qk_layernorm", False) else None,
    )
    activation = config.activation("hidden_act", "gelu_new")
    stack = TextStackSpec(
        EmbeddingSpec(
            config.integer("vocab_size"),
            width,
            PositionSpec(PositionKind.NONE, longest(config)),
        ),
        (
            BlockSpec(
                attention,
                FeedForwardSpec(width, config.integer("intermediate_size"), activation),
                norm,
                NormPlacement.PARALLEL,
            ),
        ),
        config.count("num_hidden_layers"),
        final_norm=norm,
    )
    return _causal.model(config, task, stack, tied=False, bias=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; both sublayers share one norm, stored once."""
    stack = _causal.stack_name(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("embed_tokens.weight", also=_causal.copies(spec)),
        f"{layer}.attention.q.*": "layers.{i}.self_attn.q_proj.*",
        f"{layer}.attention.k.*": "layers.{i}.self_attn.k_proj.*",
        f"{layer}.attention.v.*": "layers.{i}.self_attn.v_proj.*",
        f"{layer}.attention.o.*": "layers.{i}.self_attn.dense.*",
        f"{layer}.attention.q_norm.*": "layers.{i}.self_attn.q_layernorm.*",
        f"{layer}.attention.k_norm.*": "layers.{i}.self_attn.k_layernorm.*",
        f"{layer}.attention_norm.*": "layers.{i}.input_layernorm.*",
        f"{layer}.feed_forward.up.*": "layers.{i}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": "layers.{i}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.input_layernorm.*",
        f"{stack}.final_norm.*": "final_layernorm.*",
    }
    return Table(rules | _causal.head_rules(spec), NAMING, drop=_causal.other_heads(spec))
