"""The cases of a traced model: sizes below and above those of the trace, and ragged rows."""

from collections.abc import Mapping
from dataclasses import dataclass

from txexport.verification.traced import inputs
from txexport.verification.traced.inputs import Layout, Sizes
from txexport.verification.traced.originals import Original

BASE: Sizes = {
    inputs.BATCH: 2,
    inputs.SEQUENCE: 11,
    inputs.TARGETS: 7,
    inputs.SAMPLES: 4000,
    inputs.QUESTION: 5,
    inputs.REGIONS: 6,
    inputs.CORNERS: 4,
}
BATCHES = (1, 3, 9)
LENGTHS = (1, 2, 23, 64)
TARGET_LENGTHS = (1, 3, 19, 61)  # others, so that a swap of the two shows
LONGEST = 512  # tokens of a case, where the model's limit is not below
RAGGED, LEFT = "ragged rows", "padded at the left"


@dataclass(frozen=True)
class TracedCase:
    """Seeded inputs whose axes have the sizes of the trace, but for `changed`; `axis` is the one on trial."""

    name: str
    changed: Sizes
    ragged: bool
    seed: int
    axis: str | None = None
    at_left: bool = False


def base_sizes(original: Original) -> Sizes:
    """The sizes of a trace: different ones for all axes, those of images and frames as the config names."""
    return dict(original.facts.sizes) | BASE


def every_base(original: Original) -> list[Sizes]:
    """The sizes of a trace, and others for classes that do not take these.

    They have two frames for each position, as Whisper's encoder takes, a pair of images, or 128 mel bands.
    """
    sizes, positions = base_sizes(original), original.source_positions
    others = [{inputs.FRAMES: 2}, {inputs.BANDS: 128}]
    if positions is not None:
        others.insert(0, {inputs.FRAMES: 2 * positions})
    return [sizes, *(sizes | one for one in others)]


def trials(original: Original, layout: Layout, sizes: Mapping[str, int]) -> list[TracedCase]:
    """The cases that try each axis alone at several sizes."""
    result: list[TracedCase] = []
    for axis in inputs.axes_of(layout):
        for size in _tried(axis, sizes, original):
            if size > 0 and size != sizes[axis]:
                result.append(TracedCase(f"{axis} {size}", {axis: size}, True, len(result) + 1, axis))
    return result


def plan(
    original: Original, layout: Layout, sizes: Mapping[str, int], accepted: list[TracedCase]
) -> list[TracedCase]:
    """All cases: the sizes of the trace, those `accepted` of each axis, and the largest together."""
    result = [TracedCase("sizes of the trace", {}, False, 0)]
    if any(name in inputs.MASKS for name in layout):
        result.append(TracedCase(RAGGED, {}, True, 0))
    if layout.get("attention_mask") == inputs.TOKENS:
        result.append(TracedCase(LEFT, {}, True, 0, at_left=True))
    largest: Sizes = {}
    for case in accepted:
        for axis, size in case.changed.items():
            if size <= max(2 * sizes[axis], largest.get(axis, 0), LENGTHS[-1]):
                largest[axis] = max(size, largest.get(axis, 0))
    result += accepted
    if len(largest) > 1:
        result.append(TracedCase("all axes larger", largest, True, 99))
    return result


def _tried(axis: str, sizes: Mapping[str, int], original: Original) -> list[int]:
    size = sizes[axis]
    if axis == inputs.BATCH:
        return list(BATCHES)
    if axis in (inputs.SEQUENCE, inputs.TARGETS):
        limit = min(LONGEST, original.longest)
        lengths = LENGTHS if axis == inputs.SEQUENCE else TARGET_LENGTHS
        placeholders = max(0, size - BASE[axis])  # for images and sounds, which stand in every text
        tried = {*(placeholders + length for length in lengths), limit, limit - 2}
        return sorted(length for length in tried if length <= limit)
    if axis in (inputs.HEIGHT, inputs.WIDTH):
        patch = original.patch
        return [size + 5, size + patch, size + 64, size - patch, size - 32]
    return [size // 2, size + 1, size + size // 2]
