"""What is proved: each row is exported and held against transformers, whole tensors, every cache.

A family is supported when each of its tasks has a row here; the README's table is made from them.
"""

from dataclasses import dataclass, field

FEATURES, FILL, NEXT = "feature-extraction", "fill-mask", "next-sentence-prediction"
CLASSIFY, TAG, ANSWER = "text-classification", "token-classification", "question-answering"
GENERATE, TRANSLATE = "text-generation", "text2text-generation"


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
        return ["static", "dynamic"] if self.task in (GENERATE, TRANSLATE) else [None]


LABELS = {"num_labels": 5}
UNTIED, TIED = {"tie_word_embeddings": False}, {"tie_word_embeddings": True}


def encoder(model_type: str, name: str) -> list[Row]:
    """An encoder with every head that BERT and its children share."""
    return [
        Row(model_type, f"{name}Model", FEATURES),
        Row(model_type, f"{name}ForMaskedLM", FILL),
        Row(model_type, f"{name}ForMaskedLM", FILL, "untied", UNTIED),
        Row(model_type, f"{name}ForSequenceClassification", CLASSIFY, "5 labels", LABELS),
        Row(model_type, f"{name}ForTokenClassification", TAG, "5 labels", LABELS),
        Row(model_type, f"{name}ForQuestionAnswering", ANSWER),
    ]


ENCODERS = [
    *encoder("bert", "Bert"),
    Row("bert", "BertForPreTraining", FEATURES, "from pretraining"),
    Row("bert", "BertForMaskedLM", FEATURES, "without pooler"),
    Row(
        "bert",
        "BertModel",
        FEATURES,
        "relu, eps, 3 segments",
        {"hidden_act": "relu", "layer_norm_eps": 1e-3, "type_vocab_size": 3},
    ),
    Row("bert", "BertModel", FEATURES, "tanh gelu", {"hidden_act": "gelu_new"}),
    Row("bert", "BertForMaskedLM", FILL, "silu", {"hidden_act": "silu"}),
    Row("bert", "BertForPreTraining", FILL, "from pretraining"),
    Row("bert", "BertForNextSentencePrediction", NEXT),
    Row("bert", "BertForPreTraining", NEXT, "from pretraining"),
    Row("bert", "BertForSequenceClassification", CLASSIFY, "regression", {"num_labels": 1}),
    *encoder("roberta", "Roberta"),
    Row(
        "roberta", "RobertaModel", FEATURES, "padding 7, segments", {"pad_token_id": 7, "type_vocab_size": 2}
    ),
    *encoder("xlm-roberta", "XLMRoberta"),
    *encoder("camembert", "Camembert"),
    *encoder("distilbert", "DistilBert"),
    Row("distilbert", "DistilBertForMaskedLM", FILL, "relu", {"activation": "relu"}),
    *encoder("albert", "Albert"),
    Row("albert", "AlbertForPreTraining", FEATURES, "from pretraining"),
    Row("albert", "AlbertForMaskedLM", FILL, "embeddings as wide", {"embedding_size": 48}),
    *encoder("electra", "Electra"),
    Row("electra", "ElectraForPreTraining", FEATURES, "from pretraining"),
    Row("electra", "ElectraForMaskedLM", FILL, "embeddings as wide", {"embedding_size": 48}),
]

LENGTH = {"original_max_position_embeddings": 16}
BANDS = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROPE = {
    "linear": {"rope_type": "linear", "factor": 2.5, "rope_theta": 5e3},
    "dynamic": {"rope_type": "dynamic", "factor": 2.5, "rope_theta": 5e3},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4} | LENGTH | BANDS,
    "yarn": {"rope_type": "yarn", "factor": 2.5, "rope_theta": 1e4} | LENGTH,
}
HALF = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3, "partial_rotary_factor": 0.5}}
LONG = {"head_dim": 64, "max_position_embeddings": 1024, "num_hidden_layers": 1}
BIASED = {"attention_bias": True, "mlp_bias": True, "head_dim": 10}

DECODERS = [
    Row("gpt2", "GPT2LMHeadModel", GENERATE),
    Row("gpt2", "GPT2LMHeadModel", GENERATE, "untied, 4 times as wide", UNTIED | {"n_inner": None}),
    Row(
        "gpt2",
        "GPT2LMHeadModel",
        GENERATE,
        "unscaled, relu",
        {"scale_attn_weights": False, "activation_function": "relu"},
    ),
    Row("gpt2", "GPT2Model", FEATURES),
    Row("gpt2", "GPT2LMHeadModel", FEATURES, "from a language model"),
    Row("gptj", "GPTJForCausalLM", GENERATE),
    Row("gptj", "GPTJModel", FEATURES),
    Row("gpt_neox", "GPTNeoXForCausalLM", GENERATE),
    Row(
        "gpt_neox",
        "GPTNeoXForCausalLM",
        GENERATE,
        "sequential, half rotary",
        {"use_parallel_residual": False} | HALF,
    ),
    Row("gpt_neox", "GPTNeoXForCausalLM", GENERATE, "no attention biases", {"attention_bias": False}),
    Row("gpt_neox", "GPTNeoXModel", FEATURES),
    Row("opt", "OPTForCausalLM", GENERATE),
    Row(
        "opt",
        "OPTForCausalLM",
        GENERATE,
        "post-norm, no biases",
        {"do_layer_norm_before": False, "enable_bias": False},
    ),
    Row("opt", "OPTForCausalLM", GENERATE, "untied", UNTIED),
    Row("llama", "LlamaForCausalLM", GENERATE),
    Row("llama", "LlamaForCausalLM", GENERATE, "biases, tied, own head_dim", BIASED | TIED),
    *(
        Row("llama", "LlamaForCausalLM", GENERATE, f"{kind} rope", {"rope_parameters": ROPE[kind]})
        for kind in ROPE
    ),
    Row("llama", "LlamaModel", FEATURES),
    Row("mistral", "MistralForCausalLM", GENERATE, "window of 5"),
    Row("mistral", "MistralForCausalLM", GENERATE, "no window", {"sliding_window": None}),
    Row("mistral", "MistralModel", FEATURES, "window of 5"),
    Row("qwen2", "Qwen2ForCausalLM", GENERATE),
    Row("qwen2", "Qwen2ForCausalLM", GENERATE, "tied", TIED),
    Row("qwen2", "Qwen2Model", FEATURES),
    Row("qwen3", "Qwen3ForCausalLM", GENERATE),
    Row("qwen3", "Qwen3ForCausalLM", GENERATE, "biases", {"attention_bias": True}),
    Row("qwen3", "Qwen3Model", FEATURES),
]

FIRST = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
SCALED = {"scale_embedding": True}

ENCODER_DECODERS = [
    Row("t5", "T5ForConditionalGeneration", TRANSLATE),
    Row("t5", "T5ForConditionalGeneration", TRANSLATE, "32 buckets to 128", FIRST),
    Row("t5", "T5ForConditionalGeneration", TRANSLATE, "v1.1", UNTIED | {"feed_forward_proj": "gated-gelu"}),
    Row("t5", "T5ForConditionalGeneration", TRANSLATE, "gated silu", {"feed_forward_proj": "gated-silu"}),
    Row("mt5", "MT5ForConditionalGeneration", TRANSLATE),
    Row("bart", "BartForConditionalGeneration", TRANSLATE),
    Row("bart", "BartForConditionalGeneration", TRANSLATE, "untied", UNTIED),
    Row(
        "bart",
        "BartForConditionalGeneration",
        TRANSLATE,
        "scaled, tanh gelu",
        SCALED | {"activation_function": "gelu_new"},
    ),
    Row("bart", "BartModel", TRANSLATE, "without head"),
    Row("mbart", "MBartForConditionalGeneration", TRANSLATE),
    Row("mbart", "MBartForConditionalGeneration", TRANSLATE, "untied, scaled", UNTIED | SCALED),
]

ROWS = [*ENCODERS, *DECODERS, *ENCODER_DECODERS]


def readme_table() -> str:
    """The README's table of proved families: a line a family, with its tasks and what its rows vary."""
    lines = ["| family | tasks | variants with a row of their own |", "|---|---|---|"]
    for model_type in dict.fromkeys(row.model_type for row in ROWS):
        rows = [row for row in ROWS if row.model_type == model_type]
        tasks = ", ".join(dict.fromkeys(row.task for row in rows))
        variants = "; ".join(dict.fromkeys(row.variant for row in rows if row.variant))
        lines.append(f"| `{model_type}` | {tasks} | {variants} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(readme_table())
