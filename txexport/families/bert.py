"""BERT (Devlin et al. 2019): post-norm encoder with learned positions and token types."""

from dataclasses import replace

from txexport import tasks
from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AlibiSpec,
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
    RelativeSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("BertModel",),
    "fill-mask": ("BertForMaskedLM",),
    "pretraining": ("BertForPreTraining",),
    "next-sentence-prediction": ("BertForNextSentencePrediction",),
    "text-classification": ("BertForSequenceClassification",),
    "token-classification": ("BertForTokenClassification",),
    "question-answering": ("BertForQuestionAnswering",),
    "multiple-choice": ("BertForMultipleChoice",),
}

NAMING = Naming("bert.", {".gamma": ".weight", ".beta": ".bias"})

LAYER, SOURCE = "encoder.layers.{i}", "encoder.layer.{i}"
NEXT_SENTENCE = "next-sentence-prediction"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    check_label_head(config, task, names)
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    return encoder_spec(config, task, names, position, config.activation("hidden_act", "gelu"))


def check_label_head(config: Config, task: str, names: TensorNames) -> None:
    """Raise CheckpointError where the checkpoint's head of labels is that of another task."""
    heads = {"text-classification": "classifier.weight", NEXT_SENTENCE: "cls.seq_relationship.weight"}
    if task not in heads:
        return
    needed, folder = heads.pop(task), config.path.parent
    ((other, rival),) = heads.items()
    if needed not in names and rival in names:
        raise CheckpointError(
            f"{folder} has no '{needed}', which {task} needs, but '{rival}'; export it with --task {other}"
        )
    if needed not in names:
        raise CheckpointError(
            f"{folder} has no '{needed}', which {task} needs; fine-tune the model for it first"
        )
    if task == NEXT_SENTENCE and rival in names:
        raise CheckpointError(
            f"{folder} has '{needed}' and '{rival}', expected one classification head; remove the other one"
        )


def encoder_spec(
    config: Config,
    task: str,
    names: TensorNames,
    position: PositionSpec,
    masked_lm: Activation,
    *,
    activation: Activation | None = None,
    factored_size: int | None = None,
    sequence: Activation = Activation.TANH,
    type_vocab_size: int | None = None,
    relative: RelativeSpec | AlibiSpec | None = None,
) -> EncoderSpec:
    """BERT's architecture with the options of its descendants; the activations are those of their heads."""
    config.expect(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-12))
    embedding = EmbeddingSpec(
        vocab_size=config.integer("vocab_size"),
        hidden_size=width,
        position=position,
        type_vocab_size=config.integer("type_vocab_size", 2) if type_vocab_size is None else type_vocab_size,
        norm=NormSpec(factored_size or width, norm.eps),
        factored_size=factored_size,
    )
    head_dim, biased = config.head_dim(width, heads), relative is not None
    block = BlockSpec(
        AttentionSpec(width, heads, heads, head_dim, causal=False, has_position_bias=biased),
        FeedForwardSpec(
            width, config.integer("intermediate_size"), activation or config.activation("hidden_act", "gelu")
        ),
        norm,
        NormPlacement.POST,
    )
    stack = TextStackSpec(embedding, (block,), config.count("num_hidden_layers"), relative=relative)
    if task == "feature-extraction":
        pooler = bool({"pooler.dense.weight", "pooler.weight"} & set(names))
        return EncoderSpec(encoder=stack, pooler=pooler)
    if task in ("fill-mask", "pretraining"):
        tied = config.flag("tie_word_embeddings", True)
        head = HeadSpec(HeadKind.MASKED_LM, tied=tied, bias=True, activation=masked_lm, norm=embedding.norm)
        pair = label_head(config, NEXT_SENTENCE, sequence) if task == "pretraining" else None
        return EncoderSpec(encoder=stack, head=head, next_sentence=pair)
    return EncoderSpec(encoder=stack, head=label_head(config, task, sequence))


def pre_norm(spec: EncoderSpec, *, embedding: bool) -> EncoderSpec:
    """BERT as pre-norm with a final norm; the norm of `embedding` is as passed."""
    stack = spec.encoder
    assert isinstance(stack, TextStackSpec)
    block = replace(stack.blocks[0], placement=NormPlacement.PRE)
    embedding_spec = stack.embedding if embedding else replace(stack.embedding, norm=None)
    stack = replace(stack, embedding=embedding_spec, blocks=(block,), final_norm=block.norm)
    return replace(spec, encoder=stack)


def label_head(config: Config, task: str, activation: Activation | None) -> HeadSpec:
    """The classification head of a task; `activation` is that of its dense layer, where there is one."""
    kind = tasks.TASKS[task].head
    if kind in (HeadKind.TOKENS, HeadKind.SPANS):
        return HeadSpec(kind, tied=False, bias=True, labels=config.labels())
    if kind == HeadKind.CHOICES:
        return HeadSpec(kind, tied=False, bias=True, activation=activation, labels=1)
    labels = 2 if task == NEXT_SENTENCE else config.labels()
    return HeadSpec(kind, tied=False, bias=True, activation=activation, labels=labels)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    # The last one is ColBERT's
    other_heads = ("pooler.*", "cls.*", "classifier.*", "qa_outputs.*", "linear.*")
    return Table(stack_rules() | task_rules(spec), NAMING, drop=("embeddings.position_ids", *other_heads))


def stack_rules() -> Rules:
    """The encoder and the pooler."""
    return {
        "encoder.embedding.word.weight": "embeddings.word_embeddings.weight",
        "encoder.embedding.position.*": "embeddings.position_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        f"{LAYER}.attention.q.*": f"{SOURCE}.attention.self.query.*",
        f"{LAYER}.attention.k.*": f"{SOURCE}.attention.self.key.*",
        f"{LAYER}.attention.v.*": f"{SOURCE}.attention.self.value.*",
        f"{LAYER}.attention.o.*": f"{SOURCE}.attention.output.dense.*",
        f"{LAYER}.attention_norm.*": f"{SOURCE}.attention.output.LayerNorm.*",
        f"{LAYER}.feed_forward.up.*": f"{SOURCE}.intermediate.dense.*",
        f"{LAYER}.feed_forward.down.*": f"{SOURCE}.output.dense.*",
        f"{LAYER}.feed_forward_norm.*": f"{SOURCE}.output.LayerNorm.*",
        "pooler.dense.*": "pooler.dense.*",
    }


def task_rules(spec: EncoderSpec) -> Rules:
    """Tensor names of all the heads of BERT."""
    word_embedding, decoder = "embeddings.word_embeddings.weight", "cls.predictions.decoder"
    masked_lm: Rules = {
        "head.dense.*": "cls.predictions.transform.dense.*",
        "head.norm.*": "cls.predictions.transform.LayerNorm.*",
    }
    # `spec` has checked the task
    labels = Take("classifier.*", fallback="cls.seq_relationship.*")
    if spec.next_sentence is not None:
        masked_lm |= {
            "next_sentence.dense.*": "pooler.dense.*",
            "next_sentence.*": "cls.seq_relationship.*",
        }
    return head_rules(
        spec,
        sequence={"head.dense.*": "pooler.dense.*", "head.*": labels},
        masked_lm=masked_lm | masked_lm_rules(spec, word_embedding, decoder, "cls.predictions.bias"),
    )


POOLED: Rules = {"head.dense.*": "pooler.dense.*", "head.*": "classifier.*"}


def head_rules(spec: EncoderSpec, *, sequence: Rules, masked_lm: Rules, choices: Rules = POOLED) -> Rules:
    """Tensor names of the spec's head; two heads are named alike in all descendants of BERT."""
    rules: dict[HeadKind, Rules] = {
        HeadKind.SPANS: {"head.*": "qa_outputs.*"},
        HeadKind.TOKENS: {"head.*": "classifier.*"},
        HeadKind.SEQUENCE: sequence,
        HeadKind.CHOICES: choices,
        HeadKind.MASKED_LM: masked_lm,
    }
    return rules.get(spec.head.kind, {})


def masked_lm_rules(spec: EncoderSpec, word_embedding: str, decoder: str, bias: str) -> Rules:
    """Tensor names of a masked LM's `decoder` and its `bias`, both of which may be stored twice."""
    if spec.head.kind != HeadKind.MASKED_LM:
        return {}
    if spec.head.tied:
        return {
            "encoder.embedding.word.weight": Take(word_embedding, also=(f"{decoder}.weight",)),
            "head.bias": Take(bias, also=(f"{decoder}.bias",)),
        }
    return {"head.weight": f"{decoder}.weight", "head.bias": Take(f"{decoder}.bias", fallback=bias)}
