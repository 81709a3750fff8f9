"""MPT (MosaicML 2023): pre-norm decoder with ALiBi and no biases."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal
from txexport.families._alibi import halving
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

TASKS = {"text-generation": ("MptForCausalLM", "MptModel", "MPTForCausalLM")}

NAMING = Naming("transformer.")
ALIASES = {"num_attention_heads": "n_heads", "hidden_size": "d_model", "num_hidden_layers": "n_layers"}
PUBLISHED_WITH_CODE = True
LONGEST = 8  # of alibi; the original reads no other key


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config.expect(no_bias=True, norm_type="low_precision_layernorm", embedding_fraction=1.0)
    attention = config.table("attn_config")
    attention.expect(attn_type="multihead_attention", clip_qkv=None, prefix_lm=False, qk_ln=False, alibi=True)
    attention.expect(attn_uses_sequence_id=False, alibi_bias_max=LONGEST)
    width, heads = config.integer("d_model"), config.integer("n_heads")
    norm = NormSpec(width, config.number("layer_norm_epsilon", 1e-5), bias=False)
    scale = attention.values.get("softmax_scale")
    block = BlockSpec(
        AttentionSpec(
            hidden_size=width,
            num_heads=heads,
            num_kv_heads=heads,
            head_dim=config.head_dim(width, heads),
            causal=True,
            bias=False,
            output_bias=False,
            scale=None if scale is None else attention.number("softmax_scale"),
            has_position_bias=True,
        ),
        FeedForwardSpec(width, config.integer("expansion_ratio", 4) * width, Activation.GELU, bias=False),
        norm,
        NormPlacement.PRE,
    )
    stack = TextStackSpec(
        EmbeddingSpec(
            config.integer("vocab_size"),
            width,
            PositionSpec(PositionKind.NONE, config.integer("max_seq_len", 2048)),
        ),
        (block,),
        config.count("n_layers"),
        final_norm=norm,
        relative=AlibiSpec(halving(heads, LONGEST)),
    )
    return _causal.model(config, task, stack, tied=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack = _causal.stack_name(spec)
    layer, fused = f"{stack}.layers.{{i}}", "blocks.{i}.attn.Wqkv.*"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("wte.weight", also=_causal.copies(spec)),
        f"{layer}.attention.q.*": Take(fused, part=0, parts=3),
        f"{layer}.attention.k.*": Take(fused, part=1, parts=3),
        f"{layer}.attention.v.*": Take(fused, part=2, parts=3),
        f"{layer}.attention.o.*": "blocks.{i}.attn.out_proj.*",
        f"{layer}.attention_norm.*": "blocks.{i}.norm_1.*",
        f"{layer}.feed_forward.up.*": "blocks.{i}.ffn.up_proj.*",
        f"{layer}.feed_forward.down.*": "blocks.{i}.ffn.down_proj.*",
        f"{layer}.feed_forward_norm.*": "blocks.{i}.norm_2.*",
        f"{stack}.final_norm.*": "norm_f.*",
    }
    return Table(rules | _causal.head_rules(spec), NAMING)
