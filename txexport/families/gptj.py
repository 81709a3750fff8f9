"""GPT-J (Wang and Komatsuzaki 2021): parallel sublayers after one norm, interleaved RoPE."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal, gpt2
from txexport.families._config import Config, TensorNames
from txexport.families._rope import plain_frequencies
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
    RotarySpec,
    TextStackSpec,
)

TASKS = _causal.tasks("GPTJ", tokens=False)

NAMING = Naming("transformer.")
ALIASES = gpt2.ALIASES


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("n_embd"), config.integer("n_head")
    norm = NormSpec(width, config.number("layer_norm_epsilon", 1e-5))
    turned = config.integer("rotary_dim", 64)
    config.check_width("rotary_dim", turned)
    rotary = RotarySpec(plain_frequencies(10000.0, turned), interleaved=True)
    attention = AttentionSpec(
        width,
        heads,
        heads,
        config.head_dim(width, heads),
        causal=True,
        bias=False,
        output_bias=False,
        rotary=rotary,
    )
    activation = config.activation("activation_function", "gelu_new")
    stack = TextStackSpec(
        EmbeddingSpec(
            config.integer("vocab_size"),
            width,
            PositionSpec(PositionKind.NONE, config.integer("n_positions")),
        ),
        (
            BlockSpec(
                attention,
                FeedForwardSpec(width, config.integer("n_inner", 4 * width), activation),
                norm,
                NormPlacement.PARALLEL,
            ),
        ),
        config.count("n_layer"),
        final_norm=norm,
    )
    return _causal.model(config, task, stack, tied=False, bias=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; both sublayers share one norm, stored once."""
    stack = _causal.stack_name(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("wte.weight", also=_causal.copies(spec)),
        f"{layer}.attention.q.*": "h.{i}.attn.q_proj.*",
        f"{layer}.attention.k.*": "h.{i}.attn.k_proj.*",
        f"{layer}.attention.v.*": "h.{i}.attn.v_proj.*",
        f"{layer}.attention.o.*": "h.{i}.attn.out_proj.*",
        f"{layer}.attention_norm.*": "h.{i}.ln_1.*",
        f"{layer}.feed_forward.up.*": "h.{i}.mlp.fc_in.*",
        f"{layer}.feed_forward.down.*": "h.{i}.mlp.fc_out.*",
        f"{layer}.feed_forward_norm.*": "h.{i}.ln_1.*",
        f"{stack}.final_norm.*": "ln_f.*",
    }
    buffers = ("h.*.attn.bias", "h.*.attn.masked_bias")
    return Table(rules | _causal.head_rules(spec), NAMING, drop=(*buffers, *_causal.other_heads(spec)))
