"""GPT-1 (Radford et al. 2018): post-norm decoder, learned positions."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal, gpt2
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
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

TASKS = {
    "text-generation": ("OpenAIGPTLMHeadModel", "OpenAIGPTDoubleHeadsModel"),
    "text-classification": ("OpenAIGPTForSequenceClassification",),
    "feature-extraction": ("OpenAIGPTModel",),
}

NAMING = Naming("transformer.")
ALIASES = gpt2.ALIASES


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; here "gelu" means gelu_new."""
    width, heads = config.integer("n_embd"), config.integer("n_head")
    activation = config.activation("afn", "gelu")
    if activation == Activation.GELU:
        activation = Activation.GELU_TANH
    embedding = EmbeddingSpec(
        config.integer("vocab_size"),
        width,
        PositionSpec(PositionKind.LEARNED, config.integer("n_positions")),
    )
    block = BlockSpec(
        AttentionSpec(width, heads, heads, config.head_dim(width, heads), causal=True),
        FeedForwardSpec(width, 4 * width, activation),
        NormSpec(width, config.number("layer_norm_epsilon", 1e-5)),
        NormPlacement.POST,
    )
    stack = TextStackSpec(embedding, (block,), config.count("n_layer"))
    return _causal.model(config, task, stack, tied=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers: GPT-2's, but for the embeddings."""
    stack, inherited = _causal.stack_name(spec), gpt2.table(spec)
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("tokens_embed.weight", also=_causal.copies(spec)),
        f"{stack}.embedding.position.*": "positions_embed.*",
    }
    return Table(inherited.rules | rules, NAMING, drop=(*inherited.drop, "position_ids"))
