"""OPT (Zhang et al. 2022): decoder with learned positions with an offset of 2, pre- or post-norm.

Word embeddings may be narrower than hidden_size, with projections in and out.
"""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal
from txexport.families._config import Config, TensorNames
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

TASKS = {"text-generation": ("OPTForCausalLM", "OPTModel")}

NAMING = Naming("model.")
EPS, OFFSET = 1e-5, 2  # fixed in the original, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    config.expect(layer_norm_elementwise_affine=True)
    embedding_size = config.integer("word_embed_proj_dim", width)
    factored = None if embedding_size == width else embedding_size
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
    stack = TextStackSpec(
        EmbeddingSpec(
            vocab_size=config.integer("vocab_size"),
            hidden_size=width,
            position=position,
            factored_size=factored,
            project_first=factored is not None,
        ),
        (block,),
        config.count("num_hidden_layers"),
        final_norm=norm if closed else None,
    )
    return _causal.model(config, task, stack, tied=True, factored_size=factored)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack, source = _causal.stack_name(spec), "decoder.layers.{i}"
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("decoder.embed_tokens.weight", also=_causal.copies(spec)),
        f"{stack}.embedding.project.*": "decoder.project_in.*",
        f"{stack}.embedding.position.*": "decoder.embed_positions.*",
        f"{layer}.attention.q.*": f"{source}.self_attn.q_proj.*",
        f"{layer}.attention.k.*": f"{source}.self_attn.k_proj.*",
        f"{layer}.attention.v.*": f"{source}.self_attn.v_proj.*",
        f"{layer}.attention.o.*": f"{source}.self_attn.out_proj.*",
        f"{layer}.attention_norm.*": f"{source}.self_attn_layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{source}.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.final_layer_norm.*",
        f"{stack}.final_norm.*": "decoder.final_layer_norm.*",
    }
    rules |= _causal.head_rules(spec) | {"head.narrow.*": "decoder.project_out.*"}
    return Table(rules, NAMING, drop=_causal.other_heads(spec))
