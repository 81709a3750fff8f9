"""An image encoder, and a decoder of masks that are prompted by points and boxes."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation, Architecture
from txexport.spec.map_neck import MapNeckSpec
from txexport.spec.mask_prompt import MaskPromptSpec
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

    maps: ClassVar[int] = 1

    def __post_init__(self) -> None:
        positive(self, "hidden_size")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The width of the only stage that it reads."""
        return (self.hidden_size,)

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
class StabilitySpec:
    """The stability of a mask for clear prompts, below which it is replaced (Ravi et al. 2024, D.1).

    Of the pixels whose logits exceed -`delta`, those whose logits exceed `delta` are a share of `threshold`
    or more; else the likeliest of the other masks replaces it.
    """

    delta: float
    threshold: float

    def __post_init__(self) -> None:
        positive(self, "delta", "threshold")


@dataclass(frozen=True)
class MaskDecoderSpec:
    """Masks of an image and scores of them (Kirillov et al. 2023, A).

    A token for each of `masks` masks, the first of which is for unambiguous prompts, and one for the scores
    go through `layers` with the prompts. Places are made four times as many in each direction, a norm after
    the first doubling; the products with each mask's vector are its logits. Scores have `score_layers` dense
    layers of `score_size` numbers between.

    With `object_score` (Ravi et al. 2024, D.1), a token more gives the logit of whether there is an object at
    all, the maps of finer places are added behind each doubling, and scores are sigmoids. With `stability`,
    the first mask is only given if it is stable.
    """

    layers: TwoWaySpec
    masks: int
    norm: NormSpec
    score_layers: int = 3
    score_size: int = 256
    object_score: bool = False
    stability: StabilitySpec | None = None

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
        if self.stability is not None and not self.object_score:
            raise SpecError("MaskDecoderSpec: stability needs object_score")
        if self.score_layers < 2:
            raise SpecError(f"MaskDecoderSpec: score_layers is {self.score_layers}, expected 2 or more")


@dataclass(frozen=True)
class PromptableSpec:
    """An encoder of images, and a decoder of masks for prompts (Kirillov et al. 2023, 3).

    Images have the size of `vision`'s embedding. Points are encoded by `frequencies` random ones, shared with
    the image's places (Tancik et al. 2020, 3.2). With `mask_prompt`, a mask is a prompt
    too. A neck of maps gives finer ones too, for a
    decoder with `object_score`.
    """

    vision: StagedStackSpec
    neck: NeckSpec | MapNeckSpec
    decoder: MaskDecoderSpec
    frequencies: int
    mask_prompt: MaskPromptSpec | None = None

    architecture: ClassVar[Architecture] = Architecture.PROMPTABLE
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "frequencies")
        embedding, width = self.vision.embedding, self.decoder.layers.hidden_size
        if not isinstance(embedding, PatchGridSpec) or not embedding.fixed:
            raise SpecError("PromptableSpec: images of any size; expected an embedding with fixed=True")
        widths = tuple(stage.hidden_size for stage in self.vision.stages)
        if self.neck.sizes != widths:
            raise SpecError(
                f"PromptableSpec: the neck reads {self.neck.sizes} numbers, the encoder gives {widths}"
            )
        if isinstance(self.neck, MapNeckSpec) != self.decoder.object_score:
            raise SpecError(
                "PromptableSpec: finer maps are of a neck of maps and a decoder with object_score alone"
            )
        if {self.neck.size, 2 * self.frequencies} != {width}:
            raise SpecError(
                f"PromptableSpec: places of {self.neck.size} numbers and points of {2 * self.frequencies}; "
                f"expected those of the decoder, {width}"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the places that prompts attend to."""
        stage = self.neck.maps - 1
        return self.vision.grids(self.vision.embedding.grid)[stage]

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its only stack."""
        return {"vision": self.vision}
