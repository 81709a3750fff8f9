"""The parts of images that texts describe, by a decoder over the layers of an image encoder."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.embedding import EmbeddingSpec
from txexport.spec.enums import Architecture, NormPlacement, Pick
from txexport.spec.layer import BlockSpec
from txexport.spec.layer_checks import check_no_crossing
from txexport.spec.signal_embedding import PatchSpec
from txexport.spec.stack import SignalStackSpec, StackSpec, TextStackSpec

SHARE = 4  # of a patch's side, which each of two transposed convolutions makes of a place


@dataclass(frozen=True)
class DescribedSegmentsSpec:
    """A text encoder, one of images, and a decoder of the pixels that a text describes.

    As in CLIPSeg (Lüddecke and Ecker 2022, 3.1), `layers` of the image encoder are read, counted from 0: the
    output of each is projected to the decoder's width and added to what the next layer of the decoder reads,
    that of the last number first. Before the decoder's layer `conditioned`, each vector is multiplied by a
    projection of the text's vector, and another one is added (Perez et al. 2018, 2). That vector is the one
    that `pick` selects, projected to `size` numbers; `eos_token_id` is the id that ends a text.

    The patches' vectors are a square map, of which a transposed convolution makes a logit for each pixel. A
    `refined` map is convolved first, and two transposed convolutions make pixels of it.
    """

    text: TextStackSpec
    vision: SignalStackSpec
    size: int
    pick: Pick
    eos_token_id: int | None
    layers: tuple[int, ...]
    block: BlockSpec
    conditioned: int = 0
    refined: bool = False

    architecture: ClassVar[Architecture] = Architecture.DESCRIBED_SEGMENTS
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "size")
        check_no_crossing(self, (*self.text.blocks, self.block))
        self._check_inputs()
        picks = {Pick.ARGMAX_ID: False, Pick.FIRST_EOS: True}
        if picks.get(self.pick) != (self.eos_token_id is not None):
            raise SpecError(
                "DescribedSegmentsSpec: a text's vector is picked by the id that ends it, not "
                f"'{self.pick}' {self.eos_token_id}"
            )
        count = self.vision.num_layers
        if not self.layers or min(self.layers) < 0 or max(self.layers) != count - 1:
            raise SpecError(
                f"DescribedSegmentsSpec: reads layers {self.layers} of {count}; expected some from 0, "
                "and the last one among them"
            )
        if not 0 <= self.conditioned < len(self.layers):
            raise SpecError(
                f"DescribedSegmentsSpec: conditioned is {self.conditioned}, expected one of the "
                f"{len(self.layers)} layers of the decoder"
            )
        attention = self.block.attention
        unmasked = isinstance(attention, AttentionSpec) and attention.unmasked
        if not unmasked or self.block.placement != NormPlacement.POST:
            raise SpecError(
                f"DescribedSegmentsSpec: the decoder has {type(attention).__name__} and "
                f"'{self.block.placement}' norms; expected unmasked attention, and norms behind it"
            )
        if self.refined and min(self.patch_size // SHARE, self.width // 2) < 1:
            raise SpecError(
                f"DescribedSegmentsSpec: patches of {self.patch_size} pixels and {self.width} numbers are "
                f"refined; expected {SHARE} or more, and 2 or more"
            )

    def _check_inputs(self) -> None:
        patches = self.vision.embedding
        if not (isinstance(self.text.embedding, EmbeddingSpec) and isinstance(patches, PatchSpec)):
            read = f"{type(self.text.embedding).__name__} and {type(patches).__name__}"
            raise SpecError(f"DescribedSegmentsSpec: reads {read}, expected EmbeddingSpec and PatchSpec")
        if patches.tokens != 1 or patches.registers or patches.detection_tokens:
            raise SpecError(
                "DescribedSegmentsSpec: expected one class token before the patches, and no others"
            )
        if self.vision.final_norm is not None:
            raise SpecError("DescribedSegmentsSpec: expected an image encoder without a final norm")

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"text": self.text, "vision": self.vision}

    @property
    def patch_size(self) -> int:
        """The side in pixels of a patch."""
        assert isinstance(self.vision.embedding, PatchSpec)
        return self.vision.embedding.patch_size

    @property
    def width(self) -> int:
        """The numbers of a vector in the decoder."""
        return self.block.attention.hidden_size

    @property
    def strides(self) -> tuple[int, ...]:
        """The side of the square that each transposed convolution makes of a place."""
        return (self.patch_size // SHARE,) * 2 if self.refined else (self.patch_size,)
