"""GPT-Neo (Black et al. 2021): GPT-3's alternation of full and local attention, unscaled scores."""

from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import _causal
from txexport.families._config import Config, TensorNames, minimal_cycle, shortened
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

TASKS = _causal.tasks("GPTNeo")

NAMING = Naming("transformer.")
ALIASES = {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("hidden_size"), config.integer("num_heads")
    norm, head_dim = NormSpec(width, config.number("layer_norm_epsilon", 1e-5)), config.head_dim(width, heads)
    feed_forward = FeedForwardSpec(
        width,
        config.integer("intermediate_size", 4 * width),
        config.activation("activation_function", "gelu_new"),
    )
    layers, window = _layers(config), config.integer("window_size", 256)
    blocks = [
        BlockSpec(
            AttentionSpec(
                hidden_size=width,
                num_heads=heads,
                num_kv_heads=heads,
                head_dim=head_dim,
                causal=True,
                bias=False,
                scale=1.0,
                window=window if kind == "local" else None,
            ),
            feed_forward,
            norm,
            NormPlacement.PRE,
        )
        for kind in layers
    ]
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, position)
    stack = TextStackSpec(embedding, minimal_cycle(blocks), len(layers), final_norm=norm)
    return _causal.model(config, task, stack, tied=True)


def _layers(config: Config) -> list[str]:
    """ "global" or "local" for each layer, from a list, or from patterns and their repetitions."""
    listed = config.strings("attention_layers")
    runs: Any = (
        [[listed, 1]] if listed else config.values.get("attention_types") or [[["global", "local"], 12]]
    )
    count = config.count("num_layers")
    try:
        # Compare lengths before the lists are built: a file may say a billion times.
        total = sum(len(kinds) * times for kinds, times in runs)
        layers = [kind for kinds, times in runs for kind in list(kinds) * times] if total == count else []
        known = set(layers) <= {"global", "local"}
    except (TypeError, ValueError):
        raise CheckpointError(
            f"{config.path}: attention_types is {shortened(runs)}, expected pairs of kinds and counts"
        ) from None
    if len(layers) != count or not known:
        raise UnsupportedError(
            f"{config.path}: attention_types {shortened(runs)} is not supported; expected global or local "
            f"for each of {count} layers"
        )
    return layers


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack = _causal.stack_name(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("wte.weight", also=_causal.copies(spec)),
        f"{stack}.embedding.position.*": "wpe.*",
        f"{layer}.attention.q.*": "h.{i}.attn.attention.q_proj.*",
        f"{layer}.attention.k.*": "h.{i}.attn.attention.k_proj.*",
        f"{layer}.attention.v.*": "h.{i}.attn.attention.v_proj.*",
        f"{layer}.attention.o.*": "h.{i}.attn.attention.out_proj.*",
        f"{layer}.attention_norm.*": "h.{i}.ln_1.*",
        f"{layer}.feed_forward.up.*": "h.{i}.mlp.c_fc.*",
        f"{layer}.feed_forward.down.*": "h.{i}.mlp.c_proj.*",
        f"{layer}.feed_forward_norm.*": "h.{i}.ln_2.*",
        f"{stack}.final_norm.*": "ln_f.*",
    }
    buffers = ("h.*.attn.attention.bias", "h.*.attn.attention.masked_bias")
    return Table(rules | _causal.head_rules(spec), NAMING, drop=(*buffers, *_causal.other_heads(spec)))
