"""An image encoder, and a decoder of masks that are prompted by points and boxes."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation, Architecture
from txexport.spec.norm import NormSpec
from txexport.spec.patch_grid import PatchGridSpec
from txexport.spec.stack import StackSpec
from txexport.spec.staged import StagedStackSpec


@dataclass(frozen=True)
class NeckSpec:
    """A grid's vectors projected to `size` numbers, normalised, convolved 3 by 3, and normalised.

    Neither the projection nor the convolution has a bias (Li et al. 2022, 3).
    """

    hidden_size: int
    norm: NormSpec

    def __post_init__(self) -> None:
        positive(self, "hidden_size")

    @property
    def size(self) -> int:
        """The width of the vectors that it returns."""
        return self.norm.size


@dataclass(frozen=True)
class TwoWaySpec:
    """Layers in which prompts and the places of an image attend to each other (Kirillov et al. 2023, A).

    The attention between them has an inner width `reduction` times smaller. `norm` is that of a layer's
    sublayers, `final_norm` that of the prompts behind the last attention to the image.
    """

    hidden_size: int
    num_heads: int
    num_layers: int
    intermediate_size: int
    activation: Activation
    norm: NormSpec
    final_norm: NormSpec
    reduction: int = 2

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "num_layers", "intermediate_size", "reduction")
        for name, part in (("norm", self.norm), ("final_norm", self.final_norm)):
            if part.size != self.hidden_size:
                raise SpecError(f"TwoWaySpec: {name} is {part.size} wide, expected {self.hidden_size}")
        if self.hidden_size % (self.num_heads * self.reduction):
            raise SpecError(
                f"TwoWaySpec: {self.hidden_size} numbers, {self.reduction} times fewer in {self.num_heads} "
                "heads; expected a multiple"
            )


@dataclass(frozen=True)
class MaskDecoderSpec:
    """Masks of an image and scores of them (Kirillov et al. 2023, A).

    A token for each of `masks` masks, the first of which is for unambiguous prompts, and one for the scores
    go through `layers` with the prompts. Places are made four times as many in each direction, a norm after
    the first doubling; the products with each mask's vector are its logits. Scores have `score_layers` dense
    layers of `score_size` numbers between.
    """

    layers: TwoWaySpec
    masks: int
    norm: NormSpec
    score_layers: int = 3
    score_size: int = 256

    def __post_init__(self) -> None:
        positive(self, "masks", "score_layers", "score_size")
        width = self.layers.hidden_size
        if width % 8 or self.norm.size != width // 4:
            raise SpecError(
                f"MaskDecoderSpec: norm is {self.norm.size} wide for layers of {width}; expected a "
                "multiple of 8, and a quarter of it"
            )
        if self.masks < 2:
            raise SpecError(f"MaskDecoderSpec: masks is {self.masks}, expected 2 or more")
        if self.score_layers < 2:
            raise SpecError(f"MaskDecoderSpec: score_layers is {self.score_layers}, expected 2 or more")


@dataclass(frozen=True)
class PromptableSpec:
    """An encoder of images, and a decoder of masks for prompts (Kirillov et al. 2023, 3).

    Images have the size of `vision`'s embedding. Points are encoded by `frequencies` random ones, shared with
    the image's places (Tancik et al. 2020, 3.2).
    """

    vision: StagedStackSpec
    neck: NeckSpec
    decoder: MaskDecoderSpec
    frequencies: int

    architecture: ClassVar[Architecture] = Architecture.PROMPTABLE
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "frequencies")
        embedding, width = self.vision.embedding, self.decoder.layers.hidden_size
        if not isinstance(embedding, PatchGridSpec) or not embedding.fixed:
            raise SpecError("PromptableSpec: images of any size; expected an embedding with fixed=True")
        if self.neck.hidden_size != self.vision.hidden_size:
            raise SpecError(
                f"PromptableSpec: the neck reads {self.neck.hidden_size} numbers, the encoder gives "
                f"{self.vision.hidden_size}"
            )
        if {self.neck.size, 2 * self.frequencies} != {width}:
            raise SpecError(
                f"PromptableSpec: places of {self.neck.size} numbers and points of {2 * self.frequencies}; "
                f"expected those of the decoder, {width}"
            )

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its only stack."""
        return {"vision": self.vision}
