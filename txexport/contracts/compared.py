"""The names of what a dual encoder compares with texts: images or sounds."""

from collections.abc import Collection
from dataclasses import dataclass

from txexport.contracts import names, roles


@dataclass(frozen=True)
class Compared:
    """The names of an encoder beside that of texts: stack, graph, vectors, their scores, and their number."""

    stack: str
    role: str
    vectors: str
    scores: str
    rows: str


IMAGES = Compared(
    names.VISION, roles.VISION, names.IMAGE_EMBEDS, names.LOGITS_PER_IMAGE, names.IMAGE_BATCH_SIZE
)
SOUNDS = Compared(
    names.AUDIO, roles.AUDIO, names.AUDIO_EMBEDS, names.LOGITS_PER_AUDIO, names.AUDIO_BATCH_SIZE
)
BY_STACK = {kind.stack: kind for kind in (IMAGES, SOUNDS)}


def compared_in(ports: Collection[str]) -> Compared:
    """The signals that a dual encoder compares with texts, by the names of its inputs or outputs."""
    return SOUNDS if SOUNDS.vectors in ports else IMAGES
