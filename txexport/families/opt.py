"""OPT (Zhang et al. 2022): decoder with learned positions from the third row on, pre- or post-norm."""

from collections.abc import Set

from txexport.families._config import Config
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    ModelSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    StackSpec,
)
from txexport.weights import Naming, Rules, Table, Take

TASKS = {"text-generation": ("OPTForCausalLM", "OPTModel")}

NAMING = Naming("model.")
EPS, OFFSET = 1e-5, 2  # fixed in the original, in no config


def spec(config: Config, task: str, names: Set[str]) -> ModelSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    config.expect(word_embed_proj_dim=width, layer_norm_elementwise_affine=True)
    norm, bias = NormSpec(width, EPS), config.flag("enable_bias", True)
    pre = config.flag("do_layer_norm_before", True)
    closed = pre and not config.flag("_remove_final_layer_norm", False)
    size = config.integer("max_position_embeddings") + OFFSET
    head_dim = config.head_dim(width, heads)
    block = BlockSpec(
        AttentionSpec(width, heads, heads, head_dim, causal=True, bias=bias, output_bias=bias),
        FeedForwardSpec(
            width, config.integer("ffn_dim"), config.activation("activation_function", "relu"), bias
        ),
        norm,
        NormPlacement.PRE if pre else NormPlacement.POST,
    )
    position = PositionSpec(PositionKind.LEARNED, size, OFFSET)
    stack = StackSpec(
        EmbeddingSpec(config.integer("vocab_size"), width, position),
        (block,),
        config.integer("num_hidden_layers"),
        final_norm=norm if closed else None,
    )
    head = HeadSpec(HeadKind.CAUSAL_LM, tied=config.flag("tie_word_embeddings", True))
    return ModelSpec(decoder=stack, head=head)


def table(spec: ModelSpec) -> Table:
    """Where transformers keeps each parameter."""
    layer = "decoder.layers.{i}"
    copies = ("lm_head.weight",) if spec.head.tied else ()
    rules: Rules = {
        "decoder.embedding.word.weight": Take("decoder.embed_tokens.weight", also=copies),
        "decoder.embedding.position.*": "decoder.embed_positions.*",
        f"{layer}.attention.q.*": f"{layer}.self_attn.q_proj.*",
        f"{layer}.attention.k.*": f"{layer}.self_attn.k_proj.*",
        f"{layer}.attention.v.*": f"{layer}.self_attn.v_proj.*",
        f"{layer}.attention.o.*": f"{layer}.self_attn.out_proj.*",
        f"{layer}.attention_norm.*": f"{layer}.self_attn_layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{layer}.fc1.*",
        f"{layer}.feed_forward.down.*": f"{layer}.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{layer}.final_layer_norm.*",
        "decoder.final_norm.*": "decoder.final_layer_norm.*",
        "head.weight": "lm_head.weight",
    }
    return Table(rules, NAMING)
