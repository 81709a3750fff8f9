"""Falcon (Almazrouei et al. 2023): parallel sublayers, multi- or grouped-query attention, RoPE or ALiBi."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal
from txexport.families._alibi import geometric
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
    RoundedAlibiSpec,
    TextStackSpec,
)

TASKS = _causal.tasks("Falcon")

NAMING = Naming("transformer.")
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes.

    ALiBi is computed in bfloat16, whatever the weights' dtype, and excludes RoPE.
    """
    width = config.integer("hidden_size" if config.values.get("n_embed") is None else "n_embed")
    config.expect(output_attentions=False)  # with it, transformers adds a mask of booleans to the scores
    heads = config.integer("num_attention_heads", config.values.get("n_head"))
    head_dim, bias = config.head_dim(width, heads), config.flag("bias", False)
    norm = NormSpec(width, config.number("layer_norm_epsilon", 1e-5))
    parallel = config.flag("parallel_attn", True) or config.flag("new_decoder_architecture", False)
    if config.flag("new_decoder_architecture", False):
        config.expect(parallel_attn=True)
    biased, limit = config.flag("alibi", False), longest(config, 2048)
    if biased:
        config.expect(new_decoder_architecture=False, multi_query=False)
    block = BlockSpec(
        AttentionSpec(
            hidden_size=width,
            num_heads=heads,
            num_kv_heads=_key_heads(config, heads),
            head_dim=head_dim,
            causal=True,
            bias=bias,
            output_bias=bias,
            rotary=None if biased else rotary(config, head_dim),
            has_position_bias=biased,
        ),
        FeedForwardSpec(
            width,
            config.integer("ffn_hidden_size", 4 * width),
            config.activation("activation", "gelu"),
            bias,
        ),
        norm,
        NormPlacement.PARALLEL if parallel else NormPlacement.PRE,
    )
    stack = TextStackSpec(
        EmbeddingSpec(
            config.integer("vocab_size"),
            width,
            PositionSpec(PositionKind.NONE, limit),
        ),
        (block,),
        config.count("num_hidden_layers", config.values.get("n_layer")),
        final_norm=norm,
        relative=RoundedAlibiSpec(geometric(heads), limit, head_dim**-0.5) if biased else None,
    )
    return _causal.model(config, task, stack, tied=True)


def _key_heads(config: Config, heads: int) -> int:
    if config.flag("new_decoder_architecture", False):
        return config.integer("num_kv_heads", heads)
    return 1 if config.flag("multi_query", True) else heads


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers.

    The queries that share a key head are stored together, then their key, then their value. Parallel
    sublayers have a norm each, or share one.
    """
    stack, attention = _causal.stack_name(spec), spec.stack.blocks[0].dense
    layer, groups = f"{stack}.layers.{{i}}", attention.num_kv_heads
    shared, fused = attention.num_heads // groups, "h.{i}.self_attention.query_key_value.*"

    def cut(part: int, width: int = 1) -> Take:
        return Take(fused, part=part, parts=shared + 2, width=width, groups=groups)

    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("word_embeddings.weight", also=_causal.copies(spec)),
        f"{layer}.attention.q.*": cut(0, shared),
        f"{layer}.attention.k.*": cut(shared),
        f"{layer}.attention.v.*": cut(shared + 1),
        f"{layer}.attention.o.*": "h.{i}.self_attention.dense.*",
        f"{layer}.attention_norm.*": Take("h.{i}.ln_attn.*", fallback="h.{i}.input_layernorm.*"),
        f"{layer}.feed_forward.up.*": "h.{i}.mlp.dense_h_to_4h.*",
        f"{layer}.feed_forward.down.*": "h.{i}.mlp.dense_4h_to_h.*",
        f"{layer}.feed_forward_norm.*": _second_norm(spec),
        f"{stack}.final_norm.*": "ln_f.*",
    }
    return Table(rules | _causal.head_rules(spec), NAMING, drop=_causal.other_heads(spec))


def _second_norm(spec: EncoderSpec | DecoderSpec) -> str | Take:
    if spec.stack.blocks[0].placement == NormPlacement.PARALLEL:
        return Take("h.{i}.ln_mlp.*", fallback="h.{i}.input_layernorm.*")
    return "h.{i}.post_attention_layernorm.*"
