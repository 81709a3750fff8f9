"""A reference of a bundle: its protocol, and what it reads. PyTorch is not imported."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from txexport.contracts import cache_names
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import (
    AUDIO_FEATURES,
    ENCODER,
    HIDDEN_STATES,
    IMAGE_FEATURES,
    IMAGE_SIZES,
    INPUT_FEATURES,
    INPUT_VALUES,
    LAST_HIDDEN_STATE,
    PIXEL_VALUES,
    TILE_GRID,
)
from txexport.parts.part import MaskedTokens, PixelInputs, SignalCase

Arrays = dict[str, np.ndarray]
SIGNALS = (INPUT_VALUES, INPUT_FEATURES, PIXEL_VALUES)  # (samples), (bands,frames), (channels,height,width)


@dataclass(frozen=True, eq=False)
class PaddedRow:
    """A row of a padded batch of sounds, which an encoder reads at once; `count` of its vectors are real."""

    batch: SignalCase
    row: int

    @property
    def count(self) -> int:
        """The number of the row's vectors."""
        assert self.batch.real is not None
        return int(self.batch.real[self.row].sum())

    @property
    def within(self) -> int:
        """The number of the row's vectors in the encoder's layers."""
        return self.count if self.batch.within is None else int(self.batch.within[self.row].sum())

    def part(self, name: str, array: np.ndarray) -> np.ndarray:
        """The row's part of an output with a batch axis, without the vectors of padding."""
        if cache_names.is_present(name) and cache_names.is_cross(name):
            return array[self.row][:, : self.count]
        if name.startswith(ENCODER) and (kind := kind_of(name)) is not None:
            rows = array[self.row]
            return rows[: self.within] if kind == HIDDEN_STATES else rows[:, : self.within]
        return array[self.row][: self.count] if name == LAST_HIDDEN_STATE else array[self.row]


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images or sounds among the tokens of a row, or those that these attend to."""

    images: Sequence[PixelInputs]

    def part(self, name: str, array: np.ndarray) -> np.ndarray:
        """An output without the batch axis of the row; what is made of images has an axis of images."""
        of_images = name in (AUDIO_FEATURES, IMAGE_FEATURES) or (
            cache_names.is_present(name) and cache_names.is_cross(name)
        )
        return array if of_images else array[0]


@dataclass(frozen=True, eq=False)
class PicturedTokens:
    """The tokens of an encoder, and the images among them."""

    ids: Sequence[int] | np.ndarray
    images: Sequence[PixelInputs]

    def part(self, name: str, array: np.ndarray) -> np.ndarray:
        """An output without the batch axis of the row; the vectors of images have an axis of images."""
        return array if name == IMAGE_FEATURES else array[0]


Source = (
    list[int] | np.ndarray | PaddedRow | Pictures | PicturedTokens | MaskedTokens | None
)  # tokens, or a signal of one of SIGNALS


class Reference(Protocol):
    """A model in float32 that is independent of the bundle.

    A reference that has `in_float64()` computes in float64 within it, which measures the rounding of its
    float32; and one that has `perturbed(seed)` in float64 with random errors of a last bit of float32.
    """

    name: str
    lacks: Mapping[str, str]  # kinds of outputs (see `counts`) that it does not give, and why

    def encode(self, inputs: Arrays) -> Arrays:
        """A padded batch -> outputs by the names of an encoder graph."""
        ...

    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """One row in one pass, without padding or past -> outputs by the names of a dynamic decoder graph.

        No batch axis. With a source, the encoder's outputs too: last_hidden_state and cross caches. The first
        `prompt` tokens, None for all, are the row's prompt, in case its tokens attend to each other.
        """
        ...


def joined(images: Iterable[PixelInputs]) -> Arrays:
    """The inputs of a graph of images for several, padded to one size if theirs are said; empty for none."""
    every = [*images]
    if every and IMAGE_SIZES in every[0] and TILE_GRID not in every[0]:
        most = np.max([one[PIXEL_VALUES].shape[2:] for one in every], axis=0)
        every = [one | {PIXEL_VALUES: _padded(one[PIXEL_VALUES], *most)} for one in every]
    return {name: np.concatenate([one[name] for one in every]) for name in (every[0] if every else ())}


def _padded(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Pixels with zeros below and on the right, up to a height and a width."""
    more = height - pixels.shape[2], width - pixels.shape[3]
    return np.pad(pixels, ((0, 0), (0, 0), (0, more[0]), (0, more[1])))
