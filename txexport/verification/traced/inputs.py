"""The inputs of a traced model: which ones its forward takes, their axes, and seeded values for them.

An axis is a dimension that inputs share by name, such as `sequence_length`. A layout gives each input its
axes; where libraries differ (mel bands before or after frames), there are several layouts, and the one that
the original accepts counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

BATCH, SEQUENCE, TARGETS = "batch_size", "sequence_length", "decoder_sequence_length"
HEIGHT, WIDTH, FRAMES, SAMPLES, CONTEXT = "height", "width", "num_frames", "num_samples", "context_length"
CHANNELS, BANDS, COORDINATES, SERIES = "channels", "bands", "coordinates", "series"
QUESTION, SOUND_CHANNELS = "question_length", "sound_channels"
REGIONS, REGION_FEATURES, CORNERS = "num_regions", "region_features", "corners"
FIXED = (
    CHANNELS,
    BANDS,
    COORDINATES,
    SERIES,
    SOUND_CHANNELS,
    REGION_FEATURES,
    CORNERS,
)  # a checkpoint's weights have them

Axes = tuple[str, ...]
Sizes = dict[str, int]
Layout = dict[str, Axes]

TOKENS: Axes = (BATCH, SEQUENCE)
PIXELS: Axes = (BATCH, CHANNELS, HEIGHT, WIDTH)
VIDEO: Axes = (BATCH, FRAMES, CHANNELS, HEIGHT, WIDTH)

# The axes of each input that can be filled; several where models differ.
AXES: dict[str, list[Axes]] = {
    "input_ids": [TOKENS],
    "attention_mask": [TOKENS, (BATCH, SAMPLES), (BATCH, FRAMES)],
    "token_type_ids": [TOKENS],
    "bbox": [(*TOKENS, COORDINATES)],
    "decoder_input_ids": [(BATCH, TARGETS)],
    "pixel_values": [PIXELS, VIDEO],
    "pixel_values_videos": [VIDEO],
    "pixel_mask": [(BATCH, HEIGHT, WIDTH)],
    "pixel_attention_mask": [(BATCH, HEIGHT, WIDTH), (BATCH, FRAMES, HEIGHT, WIDTH)],
    "qformer_input_ids": [(BATCH, QUESTION)],
    "input_values": [(BATCH, SAMPLES), (BATCH, FRAMES, BANDS), (BATCH, SOUND_CHANNELS, SAMPLES)],
    "input_features": [(BATCH, BANDS, FRAMES), (BATCH, FRAMES, BANDS)],
    "input_features_mask": [(BATCH, FRAMES)],
    "feature_attention_mask": [(BATCH, FRAMES)],
    "padding_mask": [(BATCH, FRAMES), (BATCH, SAMPLES)],
    "visual_feats": [(BATCH, REGIONS, REGION_FEATURES)],
    "visual_pos": [(BATCH, REGIONS, CORNERS)],
    "past_values": [(BATCH, CONTEXT, SERIES), (BATCH, CONTEXT)],
}
MASKS = (
    "attention_mask",
    "pixel_mask",
    "pixel_attention_mask",
    "input_features_mask",
    "feature_attention_mask",
    "padding_mask",
)
FIRST_ID = 5  # of seeded tokens: those before are special in most vocabularies


@dataclass(frozen=True)
class Facts:
    """The numbers of a checkpoint that bound its inputs; `sizes` are those of its axes that it names.

    `end` and `padding` are the ids after a text's tokens, None where the config names none.
    """

    vocabulary: int
    end: int | None
    padding: int | None
    token_types: int
    coordinates: int
    sizes: Mapping[str, int]


def layouts(names: Sequence[str]) -> Iterator[Layout]:
    """Every layout of these inputs, the likeliest first; masks have the axes of what they mask."""

    def among(left: Sequence[str], chosen: Layout) -> Iterator[Layout]:
        if not left:
            yield dict(chosen)
            return
        name, *others = left
        for axes in AXES[name]:
            known = {axis for one in chosen.values() for axis in one}
            if name in MASKS and not known >= set(axes):
                continue
            yield from among(others, chosen | {name: axes})

    yield from among(sorted(names, key=lambda name: name in MASKS), {})


def axes_of(layout: Layout) -> list[str]:
    """The axes of a layout that may vary, in their order."""
    return list(dict.fromkeys(axis for axes in layout.values() for axis in axes if axis not in FIXED))


def fill(
    layout: Layout, sizes: Mapping[str, int], facts: Facts, seed: int, ragged: bool, least: int = 0
) -> dict[str, Any]:
    """Seeded values of the inputs at these sizes; a mask excludes the ends of some rows if `ragged`.

    With `least`, only the mask of tokens does, and rows have no fewer tokens.
    """
    chance = np.random.default_rng(seed)
    result = {}
    for name, axes in layout.items():
        shape = tuple(sizes[axis] for axis in axes)
        if name in MASKS:
            result[name] = _mask(shape, chance, ragged and (not least or axes == TOKENS), least)
        elif (make := _INTEGERS.get(name)) is not None:
            result[name] = make(shape, facts, chance)
        else:
            result[name] = chance.standard_normal(shape, dtype=np.float32)
    if "input_ids" in result:
        _finish(result["input_ids"], result.get("attention_mask"), facts)
    return result


def _finish(ids: np.ndarray, mask: np.ndarray | None, facts: Facts) -> None:
    """End every row of ids as a tokenizer does: its last token, then padding."""
    lengths = np.full(len(ids), ids.shape[1]) if mask is None or mask.shape != ids.shape else mask.sum(1)
    for row, length in zip(ids, lengths, strict=True):
        if facts.end is not None and length > 1:
            row[length - 1] = facts.end
        if facts.padding is not None:
            row[length:] = facts.padding


def _mask(shape: tuple[int, ...], chance: np.random.Generator, ragged: bool, shortest: int) -> np.ndarray:
    mask = np.ones(shape, np.int64)
    if ragged:
        for row in mask[1:]:  # the first one is as long as the batch, and each other one is shorter
            ranges = [(max(1, size // 2, shortest), max(2, size, shortest + 1)) for size in row.shape]
            lengths = [chance.integers(least, below) for least, below in ranges]
            row[:] = 0
            row[tuple(slice(length) for length in lengths)] = 1
    return mask


def _ids(shape: tuple[int, ...], facts: Facts, chance: np.random.Generator) -> np.ndarray:
    least = min(FIRST_ID, facts.vocabulary - 1)
    return chance.integers(least, facts.vocabulary, shape)


def _types(shape: tuple[int, ...], facts: Facts, chance: np.random.Generator) -> np.ndarray:
    return np.sort(chance.integers(0, facts.token_types, shape), axis=-1)


def _boxes(shape: tuple[int, ...], facts: Facts, chance: np.random.Generator) -> np.ndarray:
    if shape[-1] != 4:  # the corners of a quadrilateral
        return chance.integers(0, facts.coordinates, shape)
    corners = np.sort(chance.integers(0, facts.coordinates, (*shape[:-1], 2, 2)), axis=-2)
    return corners.reshape(shape)  # left, top, right, bottom


_INTEGERS: dict[str, Callable[[tuple[int, ...], Facts, np.random.Generator], np.ndarray]] = {
    "input_ids": _ids,
    "decoder_input_ids": _ids,
    "qformer_input_ids": _ids,
    "token_type_ids": _types,
    "bbox": _boxes,
}
