"""GPT-2 (Radford et al. 2019): pre-norm decoder, learned positions, matrices stored (in, out)."""

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

TASKS = _causal.tasks("GPT2") | {"text-generation": ("GPT2LMHeadModel", "GPT2DoubleHeadsModel")}

NAMING = Naming("transformer.")
ALIASES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return decoder_spec(config, task, key_heads=config.integer("n_head"))


def decoder_spec(config: Config, task: str, *, key_heads: int) -> EncoderSpec | DecoderSpec:
    """GPT-2's architecture with that number of key/value heads."""
    config.expect(scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    width, heads = config.integer("n_embd"), config.integer("n_head")
    norm = NormSpec(width, config.number("layer_norm_epsilon", 1e-5))
    scale = None if config.flag("scale_attn_weights", True) else 1.0
    embedding = EmbeddingSpec(
        vocab_size=config.integer("vocab_size"),
        hidden_size=width,
        position=PositionSpec(PositionKind.LEARNED, config.integer("n_positions")),
    )
    block = BlockSpec(
        AttentionSpec(width, heads, key_heads, config.head_dim(width, heads), causal=True, scale=scale),
        FeedForwardSpec(
            width,
            config.integer("n_inner", 4 * width),
            config.activation("activation_function", "gelu_new"),
        ),
        norm,
        NormPlacement.PRE,
    )
    stack = TextStackSpec(embedding, (block,), config.count("n_layer"), final_norm=norm)
    return _causal.model(config, task, stack, tied=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack = _causal.stack_name(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("wte.weight", also=_causal.copies(spec)),
        f"{stack}.embedding.position.*": "wpe.*",
        f"{layer}.attention.q.*": Take("h.{i}.attn.c_attn.*", transpose=True, part=0, parts=3),
        f"{layer}.attention.k.*": Take("h.{i}.attn.c_attn.*", transpose=True, part=1, parts=3),
        f"{layer}.attention.v.*": Take("h.{i}.attn.c_attn.*", transpose=True, part=2, parts=3),
        f"{layer}.attention.o.*": Take("h.{i}.attn.c_proj.*", transpose=True),
        f"{layer}.attention_norm.*": "h.{i}.ln_1.*",
        f"{layer}.feed_forward.up.*": Take("h.{i}.mlp.c_fc.*", transpose=True),
        f"{layer}.feed_forward.down.*": Take("h.{i}.mlp.c_proj.*", transpose=True),
        f"{layer}.feed_forward_norm.*": "h.{i}.ln_2.*",
        f"{stack}.final_norm.*": "ln_f.*",
    }
    buffers = ("h.*.attn.bias", "h.*.attn.masked_bias")
    drop = (*buffers, "multiple_choice_head.*", *_causal.other_heads(spec))
    return Table(rules | _causal.head_rules(spec), NAMING, drop)
