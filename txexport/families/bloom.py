"""BLOOM (Le Scao et al. 2022): pre-norm decoder with ALiBi and a norm of the embedding."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal
from txexport.families._alibi import geometric
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AlibiSpec,
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

TASKS = _causal.tasks("Bloom")

NAMING = Naming("transformer.")
ALIASES = {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; "n_embed" is the older name of hidden_size."""
    config.expect(apply_residual_connection_post_layernorm=False, slow_but_exact=False)
    width = config.integer("hidden_size" if config.values.get("n_embed") is None else "n_embed")
    heads = config.integer("n_head")
    norm = NormSpec(width, config.number("layer_norm_epsilon", 1e-5))
    block = BlockSpec(
        AttentionSpec(
            width, heads, heads, config.head_dim(width, heads), causal=True, has_position_bias=True
        ),
        FeedForwardSpec(width, 4 * width, Activation.GELU_TANH),
        norm,
        NormPlacement.PRE,
    )
    stack = TextStackSpec(
        EmbeddingSpec(config.integer("vocab_size"), width, PositionSpec(PositionKind.NONE), norm=norm),
        (block,),
        config.count("n_layer"),
        final_norm=norm,
        relative=AlibiSpec(geometric(heads)),
    )
    return _causal.model(config, task, stack, tied=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; query, key and value are interleaved per head."""
    stack, heads = _causal.stack_name(spec), spec.stack.blocks[0].attention.num_heads
    layer, fused = f"{stack}.layers.{{i}}", "h.{i}.self_attention.query_key_value.*"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("word_embeddings.weight", also=_causal.copies(spec)),
        f"{stack}.embedding.norm.*": "word_embeddings_layernorm.*",
        f"{layer}.attention.q.*": Take(fused, part=0, parts=3, groups=heads),
        f"{layer}.attention.k.*": Take(fused, part=1, parts=3, groups=heads),
        f"{layer}.attention.v.*": Take(fused, part=2, parts=3, groups=heads),
        f"{layer}.attention.o.*": "h.{i}.self_attention.dense.*",
        f"{layer}.attention_norm.*": "h.{i}.input_layernorm.*",
        f"{layer}.feed_forward.up.*": "h.{i}.mlp.dense_h_to_4h.*",
        f"{layer}.feed_forward.down.*": "h.{i}.mlp.dense_4h_to_h.*",
        f"{layer}.feed_forward_norm.*": "h.{i}.post_attention_layernorm.*",
        f"{stack}.final_norm.*": "ln_f.*",
    }
    return Table(rules | _causal.head_rules(spec), NAMING, drop=_causal.other_heads(spec))
