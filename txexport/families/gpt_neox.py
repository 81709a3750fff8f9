"""GPT-NeoX (Black et al. 2022): parallel or sequential sublayers, partial RoPE."""

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

TASKS = _causal.tasks("GPTNeoX")

NAMING = Naming("gpt_neox.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm, head_dim = NormSpec(width, config.number("layer_norm_eps", 1e-5)), config.head_dim(width, heads)
    bias, parallel = config.flag("attention_bias", True), config.flag("use_parallel_residual", True)
    attention = AttentionSpec(
        width,
        heads,
        heads,
        head_dim,
        causal=True,
        bias=bias,
        output_bias=bias,
        rotary=rotary(config, head_dim, theta="rotary_emb_base", fraction="rotary_pct", default=0.25),
    )
    activation = config.activation("hidden_act", "gelu")
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
                NormPlacement.PARALLEL if parallel else NormPlacement.PRE,
            ),
        ),
        config.count("num_hidden_layers"),
        final_norm=norm,
    )
    return _causal.model(config, task, stack, tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; query, key and value are interleaved per head."""
    stack, heads = _causal.stack_name(spec), spec.stack.blocks[0].attention.num_heads
    layer = f"{stack}.layers.{{i}}"
    fused = "layers.{i}.attention.query_key_value.*"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("embed_in.weight", also=_causal.copies(spec, "embed_out")),
        f"{layer}.attention.q.*": Take(fused, part=0, parts=3, groups=heads),
        f"{layer}.attention.k.*": Take(fused, part=1, parts=3, groups=heads),
        f"{layer}.attention.v.*": Take(fused, part=2, parts=3, groups=heads),
        f"{layer}.attention.o.*": "layers.{i}.attention.dense.*",
        f"{layer}.attention_norm.*": "layers.{i}.input_layernorm.*",
        f"{layer}.feed_forward.up.*": "layers.{i}.mlp.dense_h_to_4h.*",
        f"{layer}.feed_forward.down.*": "layers.{i}.mlp.dense_4h_to_h.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.post_attention_layernorm.*",
        f"{stack}.final_norm.*": "final_layer_norm.*",
    }
    buffers = (
        "layers.*.attention.bias",
        "layers.*.attention.masked_bias",
        "layers.*.attention.rotary_emb.inv_freq",
    )
    drop = (*buffers, *_causal.other_heads(spec, "embed_out"))
    return Table(rules | _causal.head_rules(spec, "embed_out"), NAMING, drop)
