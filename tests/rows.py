"""What is proved: each row is exported and held against transformers, whole tensors, every cache.

A family is supported when it has rows here; the README's table is made from them.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One tiny checkpoint: `architecture` with tools/tiny_checkpoint.py's sizes changed by `config`."""

    model_type: str
    architecture: str
    task: str
    variant: str = ""
    config: dict = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Name of the row."""
        return "-".join(part for part in (self.model_type, self.task, self.variant) if part)

    @property
    def caches(self) -> list[str | None]:
        """The kinds of cache to export with."""
        return ["static", "dynamic"] if "generation" in self.task else [None]


BERT, GPT2, BART = "bert", "gpt2", "bart"
LLAMA, MISTRAL, QWEN2, QWEN3 = "llama", "mistral", "qwen2", "qwen3"
FEATURES, FILL, GENERATE, TRANSLATE = (
    "feature-extraction",
    "fill-mask",
    "text-generation",
    "text2text-generation",
)

ROWS = [
    Row(BERT, "BertModel", FEATURES),
    Row(BERT, "BertForPreTraining", FEATURES, "from pretraining"),
    Row(BERT, "BertForMaskedLM", FEATURES, "without pooler"),
    Row(
        BERT,
        "BertModel",
        FEATURES,
        "relu, eps, segments",
        {"hidden_act": "relu", "layer_norm_eps": 1e-3, "type_vocab_size": 3},
    ),
    Row(BERT, "BertModel", FEATURES, "gelu_new", {"hidden_act": "gelu_new"}),
    Row(BERT, "BertForMaskedLM", FILL),
    Row(BERT, "BertForMaskedLM", FILL, "untied, silu", {"tie_word_embeddings": False, "hidden_act": "silu"}),
    Row(BERT, "BertForPreTraining", FILL, "from pretraining"),
    Row(GPT2, "GPT2LMHeadModel", GENERATE),
    Row(GPT2, "GPT2LMHeadModel", GENERATE, "untied, wide", {"tie_word_embeddings": False, "n_inner": None}),
    Row(
        GPT2,
        "GPT2LMHeadModel",
        GENERATE,
        "unscaled, relu",
        {"scale_attn_weights": False, "activation_function": "relu"},
    ),
    Row(GPT2, "GPT2Model", FEATURES),
    Row(GPT2, "GPT2LMHeadModel", FEATURES, "without head"),
    Row(BART, "BartForConditionalGeneration", TRANSLATE),
    Row(BART, "BartForConditionalGeneration", TRANSLATE, "untied", {"tie_word_embeddings": False}),
    Row(
        BART,
        "BartForConditionalGeneration",
        TRANSLATE,
        "scaled, tanh gelu",
        {"scale_embedding": True, "activation_function": "gelu_new"},
    ),
    Row(BART, "BartModel", TRANSLATE, "without head"),
]

LENGTH = {"original_max_position_embeddings": 16}
ROPE = {
    "linear": {"rope_type": "linear", "factor": 2.5, "rope_theta": 5e3},
    "dynamic": {"rope_type": "dynamic", "factor": 2.5, "rope_theta": 5e3},
    "llama3": LENGTH
    | {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "rope_theta": 1e4,
    },
    "yarn": LENGTH | {"rope_type": "yarn", "factor": 2.5, "rope_theta": 1e4},
}
BIASED = {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "head_dim": 10}

ROWS += [
    Row(LLAMA, "LlamaForCausalLM", GENERATE),
    Row(LLAMA, "LlamaForCausalLM", GENERATE, "biases, tied, own head_dim", BIASED),
    *(
        Row(LLAMA, "LlamaForCausalLM", GENERATE, f"{kind} rope", {"rope_parameters": ROPE[kind]})
        for kind in ROPE
    ),
    Row(LLAMA, "LlamaModel", FEATURES),
    Row(MISTRAL, "MistralForCausalLM", GENERATE, "window of 5"),
    Row(MISTRAL, "MistralForCausalLM", GENERATE, "no window", {"sliding_window": None}),
    Row(MISTRAL, "MistralModel", FEATURES, "window of 5"),
    Row(QWEN2, "Qwen2ForCausalLM", GENERATE),
    Row(QWEN2, "Qwen2ForCausalLM", GENERATE, "tied", {"tie_word_embeddings": True}),
    Row(QWEN2, "Qwen2Model", FEATURES),
    Row(QWEN3, "Qwen3ForCausalLM", GENERATE),
    Row(QWEN3, "Qwen3ForCausalLM", GENERATE, "biases", {"attention_bias": True}),
    Row(QWEN3, "Qwen3Model", FEATURES),
]

CLASSIFY, TAG, ANSWER = "text-classification", "token-classification", "question-answering"
LABELS = {"num_labels": 5}
UNTIED = {"tie_word_embeddings": False}


def encoder_rows(model_type: str, name: str) -> list[Row]:
    """An encoder with every head that BERT's children share."""
    return [
        Row(model_type, f"{name}Model", FEATURES),
        Row(model_type, f"{name}ForMaskedLM", FILL),
        Row(model_type, f"{name}ForMaskedLM", FILL, "untied", UNTIED),
        Row(model_type, f"{name}ForSequenceClassification", CLASSIFY, "5 labels", LABELS),
        Row(model_type, f"{name}ForTokenClassification", TAG, "5 labels", LABELS),
        Row(model_type, f"{name}ForQuestionAnswering", ANSWER),
    ]


ROWS += [
    Row(BERT, "BertForNextSentencePrediction", "next-sentence-prediction"),
    Row(BERT, "BertForPreTraining", "next-sentence-prediction", "from pretraining"),
    Row(BERT, "BertForSequenceClassification", CLASSIFY, "5 labels", LABELS),
    Row(BERT, "BertForSequenceClassification", CLASSIFY, "regression", {"num_labels": 1}),
    Row(BERT, "BertForTokenClassification", TAG, "5 labels", LABELS),
    Row(BERT, "BertForQuestionAnswering", ANSWER),
    *encoder_rows("roberta", "Roberta"),
    Row(
        "roberta", "RobertaModel", FEATURES, "padding 7, segments", {"pad_token_id": 7, "type_vocab_size": 2}
    ),
    *encoder_rows("xlm-roberta", "XLMRoberta"),
    *encoder_rows("camembert", "Camembert"),
    *encoder_rows("distilbert", "DistilBert"),
    Row("distilbert", "DistilBertForMaskedLM", FILL, "relu", {"activation": "relu"}),
]

PARTLY = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3, "partial_rotary_factor": 0.5}}

ROWS += [
    Row("opt", "OPTForCausalLM", GENERATE),
    Row(
        "opt",
        "OPTForCausalLM",
        GENERATE,
        "post-norm, no biases",
        {"do_layer_norm_before": False, "enable_bias": False},
    ),
    Row("opt", "OPTForCausalLM", GENERATE, "untied", UNTIED),
    Row("gptj", "GPTJForCausalLM", GENERATE),
    Row("gptj", "GPTJModel", FEATURES),
    Row("gpt_neox", "GPTNeoXForCausalLM", GENERATE),
    Row(
        "gpt_neox",
        "GPTNeoXForCausalLM",
        GENERATE,
        "sequential, half rotary",
        {"use_parallel_residual": False} | PARTLY,
    ),
    Row("gpt_neox", "GPTNeoXForCausalLM", GENERATE, "no attention biases", {"attention_bias": False}),
    Row("gpt_neox", "GPTNeoXModel", FEATURES),
    Row("mbart", "MBartForConditionalGeneration", TRANSLATE),
    Row(
        "mbart",
        "MBartForConditionalGeneration",
        TRANSLATE,
        "untied, scaled",
        UNTIED | {"scale_embedding": True},
    ),
]

ROWS += [
    *encoder_rows("albert", "Albert"),
    Row("albert", "AlbertForPreTraining", FEATURES, "from pretraining"),
    Row("albert", "AlbertForMaskedLM", FILL, "word vectors as wide", {"embedding_size": 48}),
    *encoder_rows("electra", "Electra"),
    Row("electra", "ElectraForPreTraining", FEATURES, "from pretraining"),
    Row("electra", "ElectraForMaskedLM", FILL, "word vectors as wide", {"embedding_size": 48}),
]


def readme_table() -> str:
    """The README's table of proved families: a line a family and task, with what varies in its rows."""
    lines = ["| family | task | proved | also |", "|---|---|---|---|"]
    for model_type, task in dict.fromkeys((row.model_type, row.task) for row in ROWS):
        rows = [row for row in ROWS if (row.model_type, row.task) == (model_type, task)]
        caches = " and ".join(f"{cache} cache" for cache in rows[0].caches if cache) or "padded batches"
        also = "; ".join(row.variant for row in rows if row.variant)
        lines.append(f"| `{model_type}` | `{task}` | {caches} | {also} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(readme_table())
