"""RWKV (Peng et al. 2023), version 4: weighted means of past values, and networks over two tokens."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.spec import (
    BlockSpec,
    ChannelMixSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
    TimeMixSpec,
)

TASKS = {"text-generation": ("RwkvForCausalLM",)}

NAMING = Naming("rwkv.")
ALIASES = {"max_position_embeddings": "context_length"}
HEAD = "head"  # the tensor names of the language model's head begin with
LAST_EPS = 1e-5  # of the norm behind the last layer, whatever the configuration
WITHOUT_OUTPUTS = {
    "hidden_states": "the original returns them behind each layer, and halves them every rescale_every layers"
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; there is no limit of positions."""
    return _causal.model(config, task, stack_spec(config), tied=False)


def stack_spec(config: Config) -> TextStackSpec:
    """Layers of time mixing and channel mixing, behind a norm of the embedding.

    To avoid overflows in float16, the original halves hidden states behind every `rescale_every` layers, and
    what later layers add to them accordingly. Only norms read hidden states, and a norm of x / 2 is that of x
    with four times the epsilon: the same numbers, as powers of two are exact. So the epsilon grows instead.
    """
    config = config.with_defaults(vocab_size=50_277, hidden_size=4096, num_hidden_layers=32)
    width, count = config.integer("hidden_size"), config.count("num_hidden_layers")
    config.expect(attention_hidden_size=width)
    eps, every = config.number("layer_norm_epsilon", 1e-5), config.integer("rescale_every", 6)
    mixing = TimeMixSpec(width), ChannelMixSpec(width, config.integer("intermediate_size", 4 * width))

    def halved(layers: int, eps: float) -> NormSpec:
        return NormSpec(width, eps * 4.0 ** (layers // every if every > 0 else 0))

    blocks = (BlockSpec(*mixing, halved(layer, eps), NormPlacement.PRE) for layer in range(count))
    position = PositionSpec(PositionKind.NONE)
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, position, norm=NormSpec(width, eps))
    final_norm = halved(count, LAST_EPS)
    return TextStackSpec(embedding, minimal_cycle(blocks), count, final_norm=final_norm)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack, width = _causal.stack_name(spec), spec.stack.hidden_size
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("embeddings.weight", also=_causal.copies(spec, HEAD)),
        f"{stack}.embedding.norm.*": "blocks.0.pre_ln.*",
        f"{layer}.attention_norm.*": "blocks.{i}.ln1.*",
        f"{layer}.feed_forward_norm.*": "blocks.{i}.ln2.*",
        f"{layer}.attention.decay": "blocks.{i}.attention.time_decay",
        f"{layer}.attention.bonus": "blocks.{i}.attention.time_first",
        f"{stack}.final_norm.*": "ln_out.*",
    }
    projections = {
        "attention": {"k": "key", "v": "value", "gate": "receptance"},
        "feed_forward": {"up": "key", "gate": "receptance"},
    }
    for part, named in projections.items():
        for ours, theirs in named.items():
            source = f"blocks.{{i}}.{part}"
            rules[f"{layer}.{part}.{ours}.*"] = f"{source}.{theirs}.*"
            rules[f"{layer}.{part}.mix_{ours}"] = Take(f"{source}.time_mix_{theirs}", apart=(1, 1, width))
    rules |= {
        f"{layer}.attention.output.*": "blocks.{i}.attention.output.*",
        f"{layer}.feed_forward.down.*": "blocks.{i}.feed_forward.value.*",
    }
    return Table(rules | _causal.head_rules(spec, HEAD), NAMING, _causal.other_heads(spec, HEAD))
