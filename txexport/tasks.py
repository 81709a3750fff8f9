"""What bundles are for: a row a task, which export, runtime and proof read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from txexport.contracts import DYNAMIC, ONE_PASS, STATIC, Contract
from txexport.spec import HeadKind


class GlobalTokens(StrEnum):
    """The tokens that see all others and that all see (Beltagy et al. 2020, 3.1)."""

    NONE = "none"
    FIRST = "first"
    QUESTION = "question"  # those before a pair's separator
    CHOICE = "choice"  # those after it


@dataclass(frozen=True)
class Task:
    """One thing that a bundle may be for, by the name that model hubs have for it.

    `head` stands on its stack. `auto_class` is the class of transformers whose model judges it,
    `auto_classes` those of model types that have another. `methods` are those of Model that serve it, its own
    first. `contracts` are those that it may be exported by, the first one unless another is asked for.
    `global_tokens` are those that a model which takes any is given.
    """

    name: str
    head: HeadKind
    auto_class: str
    methods: tuple[str, ...]
    contracts: tuple[Contract, ...] = (ONE_PASS,)
    auto_classes: Mapping[str, str] = field(default_factory=dict)
    global_tokens: GlobalTokens = GlobalTokens.NONE

    @property
    def command(self) -> str:
        """The command that a person types for it: that of its own method."""
        return self.methods[0].replace("_", "-")

    @property
    def caches(self) -> bool:
        """Whether it generates, over a cache of keys and values."""
        return all(contract.cache is not None for contract in self.contracts)

    def judge(self, model_type: str) -> str:
        """The class of transformers whose model judges one of that type."""
        return self.auto_classes.get(model_type, self.auto_class)


@dataclass(frozen=True)
class Method:
    """How a method of Model is asked for many inputs at once, and what it answers each with.

    `inputs` are the arguments of which every input has its own: where there are several, each is a list.
    `pairs` of texts may stand for texts. `answer` is what an answer is called, and `kind` its type, as SQL
    spells it. `placed` methods draw for an input by its place, and are told that of the first.
    """

    inputs: tuple[str, ...]
    answer: str
    kind: str
    pairs: bool = False
    placed: bool = False


VECTOR, LABELS = "array<float>", "array<struct<label:string,score:double>>"
METHODS = {
    "embed": Method(("text",), "embedding", VECTOR),
    "fill_mask": Method(  # a list of words for each mask
        ("text",),
        "words",
        "array<array<struct<score:double,token:bigint,token_str:string,sequence:string>>>",
    ),
    "classify": Method(("text",), "labels", LABELS, pairs=True),
    "zero_shot": Method(("text",), "labels", LABELS),
    "rerank": Method(("query",), "ranking", "array<struct<corpus_id:bigint,score:double,text:string>>"),
    "tag": Method(
        ("text",),
        "entities",
        "array<struct<label:string,score:double,word:string,start:bigint,end:bigint>>",
    ),
    "answer": Method(
        ("question", "context"),
        "answers",
        "array<struct<score:double,start:bigint,end:bigint,answer:string>>",
    ),
    "choose": Method(("question", "choices"), "probabilities", "array<double>"),
    "next_sentence": Method(("first", "second"), "probability", "double"),
    "generate": Method(("text",), "generated", "string", placed=True),
    "transcribe": Method(("sound",), "transcript", "string", placed=True),
    "image_to_text": Method(("image",), "generated", "string", placed=True),
    "embed_image": Method(("image",), "embedding", VECTOR),
    "classify_image": Method(("image",), "labels", LABELS),
    "match": Method(("image",), "labels", LABELS),
    "classify_audio": Method(("sound",), "labels", LABELS),
}

CACHED = (STATIC, DYNAMIC)
# Of encoder-decoders, AutoModel would load the whole.
ENCODERS = dict.fromkeys(("t5", "mt5", "umt5"), "AutoModelForTextEncoding")

ROWS = (
    Task("feature-extraction", HeadKind.NONE, "AutoModel", ("embed",), auto_classes=ENCODERS),
    Task("fill-mask", HeadKind.MASKED_LM, "AutoModelForMaskedLM", ("fill_mask",)),
    Task(
        "text-classification",
        HeadKind.SEQUENCE,
        "AutoModelForSequenceClassification",
        ("classify", "zero_shot", "rerank"),
        global_tokens=GlobalTokens.FIRST,
    ),
    Task("token-classification", HeadKind.TOKENS, "AutoModelForTokenClassification", ("tag",)),
    Task(
        "question-answering",
        HeadKind.SPANS,
        "AutoModelForQuestionAnswering",
        ("answer",),
        global_tokens=GlobalTokens.QUESTION,
    ),
    Task(
        "multiple-choice",
        HeadKind.CHOICES,
        "AutoModelForMultipleChoice",
        ("choose",),
        global_tokens=GlobalTokens.CHOICE,
    ),
    Task(
        "next-sentence-prediction",
        HeadKind.SEQUENCE,
        "AutoModelForNextSentencePrediction",
        ("next_sentence",),
    ),
    Task("pretraining", HeadKind.MASKED_LM, "AutoModelForPreTraining", ("fill_mask", "next_sentence")),
    Task("text-generation", HeadKind.CAUSAL_LM, "AutoModelForCausalLM", ("generate",), CACHED),
    Task("text2text-generation", HeadKind.CAUSAL_LM, "AutoModelForSeq2SeqLM", ("generate",), CACHED),
    Task(
        "automatic-speech-recognition",
        HeadKind.CAUSAL_LM,
        "AutoModelForSpeechSeq2Seq",
        ("transcribe", "generate"),
        CACHED,
    ),
    Task(
        "image-to-text",
        HeadKind.CAUSAL_LM,
        "AutoModelForImageTextToText",
        ("image_to_text", "generate"),
        CACHED,
    ),
    Task("image-feature-extraction", HeadKind.NONE, "AutoModel", ("embed_image",)),
    Task("image-classification", HeadKind.SEQUENCE, "AutoModelForImageClassification", ("classify_image",)),
    Task(
        "zero-shot-image-classification",
        HeadKind.NONE,
        "AutoModelForZeroShotImageClassification",
        ("match", "embed_image", "embed"),
    ),
    Task("audio-classification", HeadKind.SEQUENCE, "AutoModelForAudioClassification", ("classify_audio",)),
)
TASKS = {task.name: task for task in ROWS}


def served_by(method: str) -> tuple[str, ...]:
    """The tasks that a method of Model serves; the first is the one to export for."""
    return tuple(task.name for task in ROWS if method in task.methods)


def of_head(kind: HeadKind) -> Task:
    """The plainest task of a head: the first, which reads texts."""
    return next(task for task in ROWS if task.head == kind)
