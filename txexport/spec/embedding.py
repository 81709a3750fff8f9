"""What goes into a stack: words, positions, and how far apart tokens are."""

import math
import struct
from dataclasses import dataclass
from functools import cache

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation, PositionKind
from txexport.spec.norm import NormSpec

LONGEST_DISTANCE = 2**20  # of a relative bias, which has a number for each
LONGEST_EXACT = 2**12  # of vectors of relative positions, whose buckets are told apart by powers


@dataclass(frozen=True)
class PositionSpec:
    """Positions added to the embedding: a table of `size` rows, read at position + `offset`.

    Where there is none, `size` is the longest sequence that the model was made for, or 0 for no limit.
    Tokens of the id `pad_token_id` are not counted and take the row `offset`; the first other takes the next.
    `longest` is the longest sequence that is read as the model says, where its table has more rows.
    """

    kind: PositionKind
    size: int = 0
    offset: int = 0
    pad_token_id: int | None = None
    longest: int | None = None

    def __post_init__(self) -> None:
        if self.longest is not None:
            positive(self, "longest")
        if self.kind == PositionKind.NONE:
            if self.offset or self.pad_token_id is not None or self.size < 0:
                raise SpecError(
                    f"PositionSpec: kind '{self.kind}' with size={self.size}, offset={self.offset}, "
                    f"pad_token_id={self.pad_token_id}; without a table there is no offset and no padding to "
                    "skip: expected a size of 0 or more, 0, None"
                )
        elif self.offset < 0 or self.size <= self.offset:
            raise SpecError(
                f"PositionSpec: a table of {self.size} rows read at offset {self.offset} holds no position; "
                "expected an offset of 0 or more, and more rows than that"
            )

    @property
    def table(self) -> bool:
        """Whether there is a table."""
        return self.kind != PositionKind.NONE

    @property
    def limit(self) -> int | None:
        """The longest sequence, in tokens; None where there is no limit."""
        rows = self.size - self.offset - (self.pad_token_id is not None) if self.table else self.size or None
        return min((number for number in (rows, self.longest) if number is not None), default=None)


@dataclass(frozen=True)
class EmbeddingSpec:
    """Word vectors times `scale`, plus positions, plus one of `type_vocab_size` vectors, then a norm.

    Where `norm_first`, it is a norm of the words alone, before anything is added.
    The tables are `hidden_size` wide, or `factored_size` and then projected to `hidden_size`. With a
    `dropped` token id, training left out the vectors of such tokens: they are 0, and the others are scaled to
    make up for it (Rives et al. 2021; ESM's token dropout). Where `masked`, padding has vectors of 0. Of
    `task_type_vocab_size` vectors, one for each task of training, the first is added too (Sun et al. 2020).
    Where `project_first`, words alone are narrower: they are projected, without a bias, before all else.
    """

    vocab_size: int
    hidden_size: int
    position: PositionSpec
    type_vocab_size: int = 0
    norm: NormSpec | None = None
    scale: float = 1.0
    factored_size: int | None = None
    dropped: int | None = None
    masked: bool = False
    task_type_vocab_size: int = 0
    norm_first: bool = False
    project_first: bool = False

    @property
    def word_size(self) -> int:
        """Width of the table of words."""
        return self.hidden_size if self.factored_size is None else self.factored_size

    @property
    def table_size(self) -> int:
        """Width of the other tables, and of what is added up."""
        return self.hidden_size if self.project_first else self.word_size

    def __post_init__(self) -> None:
        positive(self, "vocab_size", "hidden_size", "scale", "word_size")
        for name in ("type_vocab_size", "task_type_vocab_size"):
            if getattr(self, name) < 0:
                raise SpecError(f"EmbeddingSpec: {name} is {getattr(self, name)}, expected 0 or more")
        if self.norm_first and self.norm is None:
            raise SpecError("EmbeddingSpec: norm_first is True without a norm; expected one, or False")
        if self.project_first and self.factored_size is None:
            raise SpecError(
                "EmbeddingSpec: project_first is True without a factored_size; expected one, or False"
            )
        if self.norm is not None and self.norm.size != self.table_size:
            raise SpecError(f"EmbeddingSpec: norm is {self.norm.size} wide, the embedding {self.table_size}")


@dataclass(frozen=True)
class RelativeSpec:
    """A learned bias on attention's scores for each head and bucket of distance (Raffel et al. 2020, 2.1).

    Half of the buckets of a direction are single distances, the others grow logarithmically and the last
    one begins before `max_distance`. `bidirectional` has buckets of their own for keys after the query. With
    `every_layer`, each has a table of its own (Chung et al. 2023), and all share one without.
    """

    buckets: int
    max_distance: int
    bidirectional: bool
    every_layer: bool = False

    def __post_init__(self) -> None:
        exact = self.directed // 2
        if exact < 1 or not exact < self.max_distance <= LONGEST_DISTANCE:
            raise SpecError(
                f"RelativeSpec: {self.buckets} buckets do not fit distances up to {self.max_distance}"
            )

    @property
    def directed(self) -> int:
        """Buckets of one direction."""
        return self.buckets // 2 if self.bidirectional else self.buckets

    def bucket_of_distance(self) -> list[int]:
        """The bucket of each distance from 0 to max_distance; those beyond have the last one's."""
        exact = self.directed // 2
        grown = self.directed - exact
        result = list(range(exact))
        for distance in range(exact, self.max_distance + 1):
            step = math.log(distance / exact) / math.log(self.max_distance / exact) * grown
            result.append(min(exact + int(step + 1e-6), self.directed - 1))
        return result


@dataclass(frozen=True)
class RelativeVectorsSpec:
    """Learned vectors of how far a query stands after a key, for attention to project (He et al. 2021, 3.1).

    There are `span` vectors of queries before the key, and `span` of those at its place or after it. They
    are of single distances up to `max_distance`, or of `buckets`: half of those of a direction are single
    distances, the others grow logarithmically up to `max_distance` - 1. `norm` normalises every vector.
    """

    max_distance: int
    buckets: int | None = None
    norm: NormSpec | None = None

    def __post_init__(self) -> None:
        positive(self, "max_distance")
        if self.max_distance > LONGEST_EXACT:
            raise SpecError(
                f"RelativeVectorsSpec: distances up to {self.max_distance}, expected {LONGEST_EXACT} at most"
            )
        if self.buckets is not None:
            uneven = self.buckets % 2 or self.buckets < 4
            if uneven or not self.buckets // 2 < self.max_distance - 1:
                raise SpecError(
                    f"RelativeVectorsSpec: {self.buckets} buckets do not fit distances up to "
                    f"{self.max_distance}; expected an even number from 4 to {2 * self.max_distance - 4}"
                )

    @property
    def span(self) -> int:
        """Vectors of one direction."""
        return self.max_distance if self.buckets is None else self.buckets

    def bucket_of_distance(self) -> list[int]:
        """The bucket of each distance from 0 to max_distance; those beyond have the last one's."""
        if self.buckets is None:
            return list(range(self.max_distance + 1))
        return [*_logarithmic(self.buckets // 2, self.max_distance - 1), self.span]

    def vectors(self, length: int) -> int:
        """How many vectors a sequence of `length` tokens needs."""
        reach = self.bucket_of_distance()[min(length - 1, self.max_distance)]
        return reach + min(reach + 1, self.span)


@dataclass(frozen=True)
class SinusoidVectorsSpec:
    """Vectors of how far a query stands after a key, for attention to project (Dai et al. 2019, 3.3).

    Distance d, held within -clamp and clamp, is the sines of d * frequencies and then their cosines.
    """

    frequencies: tuple[float, ...]
    clamp: int | None = None

    def __post_init__(self) -> None:
        if not self.frequencies:
            raise SpecError("SinusoidVectorsSpec: frequencies is (), so there is no vector; expected numbers")
        if self.clamp is not None:
            positive(self, "clamp")

    def vectors(self, length: int) -> int:
        """How many vectors a sequence of `length` tokens needs."""
        return 2 * length - 1


@cache
def _logarithmic(half: int, last: int) -> tuple[int, ...]:
    """The bucket of each distance up to `last`: itself up to `half`, then half + 1 to 2 half - 1.

    That of a distance d beyond half, h, is h + ceil((h - 1) log(d / h) / log(last / h)). Powers of whole
    numbers tell it: no logarithm rounds a distance to the other side of an edge.
    """
    result, step = list(range(half + 1)), 0
    low, high = half ** (half - 1), 1  # half ** (half - 1 - step) and last ** step
    for distance in range(half + 1, last + 1):
        while distance ** (half - 1) > low * high:
            step, low, high = step + 1, low // half, high * last
        result.append(half + step)
    return tuple(result)


@dataclass(frozen=True)
class AlibiSpec:
    """A bias that falls with distance, by `slopes[n]` a token for head n (Press et al. 2022, 3)."""

    slopes: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.slopes:
            raise SpecError("AlibiSpec: slopes is (), no slopes, so nothing is biased; expected one a head")


@dataclass(frozen=True)
class RoundedAlibiSpec:
    """A bias that grows with a key's own position, in bfloat16, and is then multiplied by `scale`.

    Exactly, it would be AlibiSpec's: a softmax sees differences alone. But slope, position and their product
    are rounded to 8 bits each, which is no function of the distance. Positions are below `length`.
    """

    slopes: tuple[float, ...]
    length: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        positive(self, "length", "scale")
        if not self.slopes:
            raise SpecError("RoundedAlibiSpec: slopes is (), so nothing is biased; expected one a head")
        if self.length * len(self.slopes) > LONGEST_DISTANCE:
            raise SpecError(
                f"RoundedAlibiSpec: {self.length} positions of {len(self.slopes)} heads, expected "
                f"{LONGEST_DISTANCE} at most of all, since graphs hold a number for each"
            )

    def bias_of_position(self) -> list[list[float]]:
        """Of each head the bias of every position."""
        places = [_bfloat16(place) for place in range(self.length)]
        return [
            [_bfloat16(_bfloat16(slope) * place) * self.scale for place in places] for slope in self.slopes
        ]


def _bfloat16(number: float) -> float:
    """The nearest number of 8 bits, of two equally near the even one; of one that float32 holds exactly."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    kept = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    rounded: float = struct.unpack("<f", struct.pack("<I", kept))[0]
    return rounded


@dataclass(frozen=True)
class PatchSpec:
    """Images in squares of `patch_size` pixels, each projected to a vector (Dosovitskiy et al. 2021, 3.1).

    `tokens` learned vectors stand before them, then a table of positions is added, then a norm follows where
    there is one. `image_size` is height and width in pixels; `bias` is the projection's. With `any_size`,
    images may have other sizes: positions of as many patches are interpolated from the table's, and where
    they are `antialias`ed, of fewer ones as means over more. `registers` are learned vectors behind the
    tokens, without positions (Darcet et al. 2023, 2.2). Not `positioned`, nothing is added: layers rotate by
    where a patch stands.
    """

    hidden_size: int
    image_size: tuple[int, int]
    patch_size: int
    channels: int = 3
    tokens: int = 1
    bias: bool = True
    norm: NormSpec | None = None
    any_size: bool = False
    antialias: bool = False
    registers: int = 0
    positioned: bool = True

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "patch_size", "channels")
        if self.antialias and not (self.any_size and self.positioned):
            raise SpecError(
                "PatchSpec: antialias is True, but positions of one size, or none, are not interpolated"
            )
        if self.registers < 0:
            raise SpecError(f"PatchSpec: registers is {self.registers}, expected 0 or more")
        if self.tokens not in (0, 1, 2):
            raise SpecError(f"PatchSpec: tokens is {self.tokens}, expected 0, 1 or 2")
        if min(self.image_size) < self.patch_size:
            raise SpecError(f"PatchSpec: {self.image_size} pixels hold no patch of {self.patch_size}")

    @property
    def grid(self) -> tuple[int, int]:
        """How many patches stand above and beside one another."""
        height, width = self.image_size
        return height // self.patch_size, width // self.patch_size

    @property
    def length(self) -> int:
        """How many vectors come out of an image of `image_size`."""
        return self.positions + self.registers

    @property
    def positions(self) -> int:
        """How many of those have a position."""
        rows, columns = self.grid
        return self.tokens + rows * columns

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image of `image_size`."""
        return self.channels, *self.image_size


@dataclass(frozen=True)
class LogMelSpec:
    """A spectrogram of `length` * 2 frames through two convolutions (Radford et al. 2022, 2.2).

    The second one halves the frames; then a table of positions is added.
    """

    hidden_size: int
    num_mel_bins: int
    length: int
    activation: Activation

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_mel_bins", "length")

    @property
    def shape(self) -> tuple[int, ...]:
        """Bands and frames of a spectrogram."""
        return self.num_mel_bins, 2 * self.length


@dataclass(frozen=True)
class SpectrogramSpec:
    """A spectrogram in squares that overlap, each projected to a vector (Gong et al. 2021, 2.1).

    It has `max_length` frames of `num_mel_bins` bands, a square `patch_size` of both, and the next one begins
    `time_stride` frames or `frequency_stride` bands further. Two learned vectors stand before them, then a
    table of positions is added.
    """

    hidden_size: int
    num_mel_bins: int
    max_length: int
    patch_size: int
    frequency_stride: int
    time_stride: int

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "patch_size", "frequency_stride", "time_stride")
        if min(self.shape) < self.patch_size:
            raise SpecError(
                f"SpectrogramSpec: {self.max_length} frames of {self.num_mel_bins} bands hold no patch of "
                f"{self.patch_size}"
            )

    @property
    def length(self) -> int:
        """How many vectors come out."""
        bands = (self.num_mel_bins - self.patch_size) // self.frequency_stride + 1
        return 2 + bands * ((self.max_length - self.patch_size) // self.time_stride + 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Frames and bands of a spectrogram."""
        return self.max_length, self.num_mel_bins
