"""XLM (Conneau and Lample 2019): post-norm encoder, without embeddings of languages."""

from txexport import tasks
from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("XLMModel",),
    "fill-mask": ("XLMWithLMHeadModel",),
    "text-classification": ("XLMForSequenceClassification",),
    "token-classification": ("XLMForTokenClassification",),
    "question-answering": ("XLMForQuestionAnsweringSimple",),
}
REFUSED = {
    "XLMForQuestionAnswering": "it finds answers by beam search, and has no scores for every token",
    "XLMForMultipleChoice": "its scores pass through a vector of as many numbers as labels",
}

NAMING = Naming("transformer.")
ALIASES = {
    "hidden_size": "emb_dim",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "n_words": "vocab_size",
    "bos_index": "bos_token_id",
    "eos_index": "eos_token_id",
    "pad_index": "pad_token_id",
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; sinusoidal positions are stored like learned ones."""
    config.expect(is_encoder=True, causal=False, asm=False)
    languages = config.integer("n_langs", 1)
    if languages > 1 and config.flag("use_lang_emb", True):
        raise UnsupportedError(
            f"{config.path}: n_langs={languages} with use_lang_emb=True is not supported; expected "
            "n_langs=1, or use_lang_emb=False: with them the original reads the language of each token"
        )
    width, heads = config.integer("emb_dim", 2048), config.integer("n_heads", 16)
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-12))
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings", 512))
    activation = Activation.GELU if config.flag("gelu_activation", True) else Activation.RELU
    block = BlockSpec(
        AttentionSpec(width, heads, heads, config.head_dim(width, heads), causal=False),
        FeedForwardSpec(width, 4 * width, activation),
        norm,
        NormPlacement.POST,
    )
    stack = TextStackSpec(
        EmbeddingSpec(config.integer("vocab_size", 30145), width, position, norm=norm),
        (block,),
        config.count("n_layers", 12),
        masked_output=True,
    )
    if task == "feature-extraction":
        return EncoderSpec(stack)
    if task == "fill-mask":
        tied = config.flag("tie_word_embeddings", True)
        return EncoderSpec(stack, head=HeadSpec(HeadKind.MASKED_LM, tied=tied, bias=True))
    if tasks.TASKS[task].head == HeadKind.SEQUENCE:
        config.expect(summary_type="first", summary_use_proj=True, summary_activation=None)
    return EncoderSpec(stack, head=bert.label_head(config, task, None))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, word_embedding, decoder = "encoder.layers.{i}", "embeddings.weight", "pred_layer.proj"
    rules: Rules = {
        "encoder.embedding.word.weight": word_embedding,
        "encoder.embedding.position.*": "position_embeddings.*",
        "encoder.embedding.norm.*": "layer_norm_emb.*",
        f"{layer}.attention.q.*": "attentions.{i}.q_lin.*",
        f"{layer}.attention.k.*": "attentions.{i}.k_lin.*",
        f"{layer}.attention.v.*": "attentions.{i}.v_lin.*",
        f"{layer}.attention.o.*": "attentions.{i}.out_lin.*",
        f"{layer}.attention_norm.*": "layer_norm1.{i}.*",
        f"{layer}.feed_forward.up.*": "ffns.{i}.lin1.*",
        f"{layer}.feed_forward.down.*": "ffns.{i}.lin2.*",
        f"{layer}.feed_forward_norm.*": "layer_norm2.{i}.*",
        **bert.head_rules(
            spec,
            sequence={"head.*": "sequence_summary.summary.*"},
            masked_lm=bert.masked_lm_rules(spec, word_embedding, decoder, f"{decoder}.bias"),
        ),
    }
    drop = ("position_ids", "pred_layer.*", "sequence_summary.*", "classifier.*", "qa_outputs.*")
    return Table(rules, NAMING, drop)
