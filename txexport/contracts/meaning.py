"""The meaning of a graph's outputs: scores that are ranked, vectors with a direction, or plain numbers."""

from dataclasses import dataclass
from enum import Enum

from txexport.contracts import cache_names, names
from txexport.contracts.layer_outputs import kind_of


class Kind(Enum):
    """The ways in which the numbers of an output are read."""

    SCORES = "scores"  # of classes along an axis: the largest is the answer
    VECTOR = "vector"  # along an axis: its direction is the answer
    HIDDEN = "hidden states"  # vectors too, of a layer
    NUMBERS = "numbers"  # keys, values and attention weights: each number for itself
    UNKNOWN = "unknown"  # may be anything, so that nothing is ranked


@dataclass(frozen=True)
class Meaning:
    """The kind of an output and the axis of its classes or components, None where it has none.

    The axis is counted from the end, so that it is the same with and without the axis of a batch.
    """

    kind: Kind
    axis: int | None = None


SCORES = Meaning(Kind.SCORES, axis=-1)
VECTOR = Meaning(Kind.VECTOR, axis=-1)
HIDDEN = Meaning(Kind.HIDDEN, axis=-1)
NUMBERS = Meaning(Kind.NUMBERS)
UNKNOWN = Meaning(Kind.UNKNOWN)

MEANINGS = {
    names.LOGITS: SCORES,  # of labels or words; of the choices of multiple-choice
    names.START_LOGITS: SCORES,  # of tokens
    names.END_LOGITS: SCORES,
    names.PREDICTION_LOGITS: SCORES,
    names.SEQ_RELATIONSHIP_LOGITS: SCORES,
    names.CLS_LOGITS: SCORES,
    names.DISTILLATION_LOGITS: SCORES,
    names.LOGITS_PER_TEXT: SCORES,  # of images or sounds
    names.LOGITS_PER_IMAGE: SCORES,  # of texts
    names.LOGITS_PER_AUDIO: SCORES,
    names.POOLER_OUTPUT: VECTOR,
    names.TEXT_EMBEDS: VECTOR,
    names.IMAGE_EMBEDS: VECTOR,
    names.AUDIO_EMBEDS: VECTOR,
    names.EMBEDDINGS: VECTOR,
    names.LAST_HIDDEN_STATE: HIDDEN,
    names.ALIGNMENT_WEIGHTS: NUMBERS,
    names.ENCODER_ATTENTION_MASK: NUMBERS,
}


def meaning_of(output: str) -> Meaning:
    """The meaning of an output by its name; UNKNOWN for a name that no head of today gives."""
    if cache_names.is_present(output):
        return NUMBERS
    if (layer_output := kind_of(output)) is not None:
        return HIDDEN if layer_output == names.HIDDEN_STATES else NUMBERS
    return MEANINGS.get(output, UNKNOWN)
