"""Objects in images that texts describe."""

import math
from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.embedding import EmbeddingSpec
from txexport.spec.enums import Architecture
from txexport.spec.layer_checks import check_no_crossing
from txexport.spec.norm import NormSpec
from txexport.spec.signal_embedding import PatchSpec
from txexport.spec.stack import SignalStackSpec, StackSpec, TextStackSpec

CLOSEST = 1e-4  # added to shares of an image before their logarithms


@dataclass(frozen=True)
class OpenVocabularySpec:
    """A text encoder and one of images, each of whose patches may be an object (Minderer et al. 2022, 3.1).

    A patch's vector is multiplied by that of the class token and normalised by `norm`. Three dense layers
    give its box, beside the patch's own place. Its projection to `size` numbers is compared with a text's
    vector, that of the largest id, projected too; the cosine is shifted and scaled by numbers of the patch.
    """

    text: TextStackSpec
    vision: SignalStackSpec
    size: int
    norm: NormSpec

    architecture: ClassVar[Architecture] = Architecture.OPEN_VOCABULARY
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "size")
        check_no_crossing(self, self.text.blocks)
        patches = self.vision.embedding
        if not (isinstance(self.text.embedding, EmbeddingSpec) and isinstance(patches, PatchSpec)):
            read = f"{type(self.text.embedding).__name__} and {type(patches).__name__}"
            raise SpecError(f"OpenVocabularySpec: reads {read}, expected EmbeddingSpec and PatchSpec")
        if patches.tokens != 1 or patches.registers or patches.detection_tokens:
            raise SpecError("OpenVocabularySpec: expected one class token before the patches, and no others")
        if self.norm.size != self.vision.hidden_size:
            raise SpecError(
                f"OpenVocabularySpec: norm is {self.norm.size} wide, patches {self.vision.hidden_size}"
            )

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"text": self.text, "vision": self.vision}

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        assert isinstance(self.vision.embedding, PatchSpec)
        return self.vision.embedding.grid

    def box_logits(self) -> list[list[float]]:
        """The logits of a box at each patch: its lower right corner as the centre, and its size."""
        rows, columns = self.grid
        size = [_logit(1 / columns), _logit(1 / rows)]
        return [
            [_logit((column + 1) / columns), _logit((row + 1) / rows), *size]
            for row in range(rows)
            for column in range(columns)
        ]


def _logit(share: float) -> float:
    """The logit of a share of an image, finite for 0 and 1."""
    return math.log(share + CLOSEST) - math.log1p(-share + CLOSEST)
