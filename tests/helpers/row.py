"""A row: one tiny checkpoint to verify, and the usual rows of an encoder and of a decoder."""

from dataclasses import dataclass, field, replace
from typing import Any

from txexport import families

FEATURES, FILL, NEXT = "feature-extraction", "fill-mask", "next-sentence-prediction"
CLASSIFY, TAG, ANSWER = "text-classification", "token-classification", "question-answering"
CHOOSE, PRETRAIN = "multiple-choice", "pretraining"
SOUNDS, FRAMES, SPEAKER = "audio-classification", "audio-frame-classification", "audio-xvector"
SEE, LABEL, MATCH = "image-feature-extraction", "image-classification", "zero-shot-image-classification"
MATCH_SOUND = "zero-shot-audio-classification"
ANSWER_PAGE = "document-question-answering"
FIND, RANK = "zero-shot-object-detection", "visual-document-retrieval"
DETECT = "object-detection"
DEPTH, SEGMENT, MASKS = "depth-estimation", "image-segmentation", "mask-generation"
POSE = "pose-estimation"
HEAR, DESCRIBE, CONVERSE = "automatic-speech-recognition", "image-to-text", "image-text-to-text"
LISTEN = "audio-text-to-text"
GENERATE, TRANSLATE = "text-generation", "text2text-generation"


@dataclass(frozen=True)
class Row:
    """A tiny checkpoint: `architecture` with the sizes of tools/tiny_checkpoint changed by `config`.

    A row that covers nothing beyond cheaper rows, such as BERT's head on another stack, is `slow`.
    """

    model_type: str
    architecture: str
    task: str
    variant: str = ""
    config: dict = field(default_factory=dict)
    slow: bool = False

    @property
    def id(self) -> str:
        """Name of the row."""
        return "-".join(part for part in (self.model_type, self.task, self.variant) if part)

    @property
    def caches(self) -> list[str | None]:
        """The kinds of cache to export with."""
        generating = self.task in (GENERATE, TRANSLATE, HEAR, DESCRIBE, CONVERSE, LISTEN)
        return ["static", "dynamic"] if generating and not self.architecture.endswith("ForCTC") else [None]


LABELS = {"num_labels": 5}
TIME_DELAYS = {
    **{"tdnn_dim": [16, 20, 18], "tdnn_kernel": [3, 2, 1], "tdnn_dilation": [1, 2, 1]},
    **{"xvector_output_dim": 14, "num_labels": 5},
}
UNTIED, TIED = {"tie_word_embeddings": False}, {"tie_word_embeddings": True}


def encoder(model_type: str, name: str, choices: bool = True) -> list[Row]:
    """An encoder with every head that BERT and its descendants share."""
    return [
        Row(model_type, f"{name}Model", FEATURES),
        Row(model_type, f"{name}ForMaskedLM", FILL),
        Row(model_type, f"{name}ForMaskedLM", FILL, "untied", UNTIED),
        Row(model_type, f"{name}ForSequenceClassification", CLASSIFY, "5 labels", LABELS),
        Row(model_type, f"{name}ForTokenClassification", TAG, "5 labels", LABELS),
        Row(model_type, f"{name}ForQuestionAnswering", ANSWER),
        *([Row(model_type, f"{name}ForMultipleChoice", CHOOSE)] if choices else []),
    ]


def document(model_type: str, name: str, **config: Any) -> list[Row]:
    """A model of words in their boxes, with every head."""
    return [
        Row(model_type, f"{name}Model", FEATURES, config=config),
        Row(model_type, f"{name}ForSequenceClassification", CLASSIFY, "5 labels", config | LABELS),
        Row(model_type, f"{name}ForTokenClassification", TAG, "5 labels", config | LABELS),
        Row(model_type, f"{name}ForQuestionAnswering", ANSWER_PAGE, config=config),
    ]


def sound_heads(
    model_type: str, name: str, *, speakers: bool = True, slow: bool = True, **config: Any
) -> list[Row]:
    """Labels of recordings and of vectors, and vectors of speakers, of a stack and of a sum of its layers."""
    projected, summed = {"classifier_proj_size": 12}, {"use_weighted_layer_sum": True}
    classes = (
        (f"{name}ForSequenceClassification", SOUNDS, LABELS | projected),
        (f"{name}ForAudioFrameClassification", FRAMES, LABELS),
        (f"{name}ForXVector", SPEAKER, TIME_DELAYS),
    )[: 3 if speakers else 1]
    return [
        Row(model_type, architecture, task, variant, config | sizes | change, slow)
        for architecture, task, sizes in classes
        for variant, change in (("", {}), ("sum of all layers", summed))
    ]


def labelled(model_type: str, *, slow: bool = True) -> list[Row]:
    """The token classification heads of a family, which are one component on any stack."""
    classes = families.module(model_type).TASKS
    rows = [Row(model_type, *classes[TAG], TAG, "5 labels", LABELS, slow)] if TAG in classes else []
    answers = [Row(model_type, *classes[ANSWER], ANSWER, slow=slow)] if ANSWER in classes else []
    return rows + answers


def decoder(model_type: str, name: str) -> list[Row]:
    """A decoder-only model: text generation, hidden states, sequence and token classification."""
    return [
        *labelled(model_type),
        Row(model_type, f"{name}ForCausalLM", GENERATE),
        Row(model_type, f"{name}ForSequenceClassification", CLASSIFY, "5 labels", LABELS),
        Row(model_type, f"{name}Model", FEATURES),
    ]


def heads(rows: list[Row]) -> list[Row]:
    """Rows of which the fast tests run only the first: the heads are another family's, renamed."""
    return [rows[0], *(replace(row, slow=True) for row in rows[1:])]
