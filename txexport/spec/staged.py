"""Stacks in stages: from one to the next the grid of vectors becomes smaller and the vectors wider."""

from dataclasses import dataclass
from typing import get_args

from txexport.errors import SpecError, positive
from txexport.spec.grid_attention import GridAttentionSpec
from txexport.spec.images_alone import ImagesAlone
from txexport.spec.layer import BlockSpec
from txexport.spec.layer_checks import check_no_crossing
from txexport.spec.norm import NormSpec
from txexport.spec.patch_grid import PatchGridSpec
from txexport.spec.query_pooling import QueryPoolingSpec
from txexport.spec.reduced_attention import ReducedAttentionSpec
from txexport.spec.spectrogram_grid import SpectrogramGridSpec
from txexport.spec.window_attention import WindowAttentionSpec

OverGrid = WindowAttentionSpec | ReducedAttentionSpec | GridAttentionSpec  # attention within stages


@dataclass(frozen=True)
class MergingSpec:
    """Squares of 2 by 2 vectors, side by side, projected to `size` numbers (Liu et al. 2021, 3.1).

    An odd grid is padded by zeros. The norm precedes the projection, which has no bias, or with `norm_last`
    follows it.
    """

    hidden_size: int
    size: int
    norm: NormSpec
    norm_last: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "size")
        normed = self.size if self.norm_last else self.joined
        if self.norm.size != normed:
            raise SpecError(f"MergingSpec: norm is {self.norm.size} wide, expected {normed}")

    @property
    def joined(self) -> int:
        """The width of four vectors side by side."""
        return 4 * self.hidden_size

    @property
    def stride(self) -> int:
        """The number of rows, or columns, that become one."""
        return 2

    @property
    def operations(self) -> int:
        """Those of a vector beside its projection by a matrix: none."""
        return 0


@dataclass(frozen=True)
class ConvolvedMergingSpec:
    """Vectors around one of every `stride` squared, convolved to `size` numbers (Xie et al. 2021, 3.1).

    The convolution reads `kernel` by `kernel` vectors, with zeros around the grid; the norm follows it.
    """

    hidden_size: int
    size: int
    kernel: int
    stride: int
    norm: NormSpec

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "size", "kernel", "stride")
        if self.kernel % 2 == 0 or self.kernel < self.stride:
            raise SpecError(
                f"ConvolvedMergingSpec: kernel is {self.kernel} with stride {self.stride}; expected an odd "
                "number, at least as large"
            )
        if self.norm.size != self.size:
            raise SpecError(f"ConvolvedMergingSpec: norm is {self.norm.size} wide, expected {self.size}")

    @property
    def operations(self) -> int:
        """Those of a vector: the products of the convolution."""
        return 2 * self.kernel**2 * self.hidden_size * self.size


StageMergingSpec = MergingSpec | ConvolvedMergingSpec | QueryPoolingSpec


@dataclass(frozen=True)
class StageSpec:
    """`num_layers` layers over a grid; layer i has the block `blocks[i % len(blocks)]`. Then a `merging`.

    A `norm` follows the layers; a head that reads every stage reads its output. A `map_norm` normalises what
    such a head reads, and not what the merging does.
    """

    blocks: tuple[BlockSpec, ...]
    num_layers: int
    merging: StageMergingSpec | None = None
    norm: NormSpec | None = None
    map_norm: NormSpec | None = None

    def __post_init__(self) -> None:
        positive(self, "num_layers")
        if not 1 <= len(self.blocks) <= self.num_layers:
            raise SpecError(f"StageSpec: {len(self.blocks)} blocks for {self.num_layers} layers")
        check_no_crossing(self, self.blocks)
        for block in self.blocks:
            if not isinstance(block.attention, OverGrid):
                kind = type(block.attention).__name__
                known = " or ".join(one.__name__ for one in get_args(OverGrid))
                raise SpecError(f"StageSpec: attention is {kind}, expected {known}")
        widths = {block.attention.hidden_size for block in self.blocks}
        widths |= set() if self.merging is None else {self.merging.hidden_size}
        widths |= {norm.size for norm in (self.norm, self.map_norm) if norm is not None}
        if len(widths) > 1:
            raise SpecError(f"StageSpec: layers, merging and norm are {sorted(widths)} wide, expected one")

    @property
    def hidden_size(self) -> int:
        """Width of the vectors in its layers."""
        return self.blocks[0].attention.hidden_size

    @property
    def size(self) -> int:
        """Width of the vectors that it returns."""
        return self.hidden_size if self.merging is None else self.merging.size

    @property
    def layers(self) -> tuple[BlockSpec, ...]:
        """The block of every layer."""
        return tuple(self.blocks[layer % len(self.blocks)] for layer in range(self.num_layers))


@dataclass(frozen=True)
class StagedStackSpec(ImagesAlone):
    """An embedding of an image or a sound as a grid of vectors, `stages` of layers, and a `final_norm`.

    Layers are numbered through all stages. Every stage but the last ends in a merging.
    """

    embedding: PatchGridSpec | SpectrogramGridSpec
    stages: tuple[StageSpec, ...]
    final_norm: NormSpec | None = None

    def __post_init__(self) -> None:
        if not self.stages:
            raise SpecError("StagedStackSpec: no stages, expected one or more")
        width = self.embedding.hidden_size
        for number, stage in enumerate(self.stages):
            last = number == len(self.stages) - 1
            if (stage.merging is None) != last:
                raise SpecError(
                    f"StagedStackSpec: stage {number} of {len(self.stages)} has "
                    f"{'no' if stage.merging is None else 'a'} merging; expected one in all but the last"
                )
            if stage.hidden_size != width:
                raise SpecError(
                    f"StagedStackSpec: stage {number} is {stage.hidden_size} wide, what it reads {width}"
                )
            width = stage.size
        if self.final_norm is not None and self.final_norm.size != width:
            raise SpecError(f"StagedStackSpec: final norm is {self.final_norm.size} wide, the stack {width}")

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states that it returns."""
        return self.stages[-1].size

    @property
    def num_layers(self) -> int:
        """The number of layers of all stages."""
        return sum(stage.num_layers for stage in self.stages)

    @property
    def blocks(self) -> tuple[BlockSpec, ...]:
        """The different blocks, in the order of stages."""
        return tuple(dict.fromkeys(block for stage in self.stages for block in stage.blocks))

    @property
    def layers(self) -> tuple[BlockSpec, ...]:
        """The block of every layer of all stages."""
        return tuple(block for stage in self.stages for block in stage.layers)

    def grids(self, grid: tuple[int, int]) -> list[tuple[int, int]]:
        """Rows and columns in every stage, for those of the embedding."""
        result = [grid]
        for stage in self.stages[:-1]:
            assert stage.merging is not None
            rows, columns = result[-1]
            result.append((-(-rows // stage.merging.stride), -(-columns // stage.merging.stride)))
        return result
