"""Times of tokens by cross-attention, with dynamic time warping; A heads, S tokens, E encoder positions.

As in openai/whisper (timing.py): the weights of some heads follow the speech, so the path of least cost
through them tells when each token is spoken.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from txexport.contracts.names import ALIGNMENT_WEIGHTS, INPUT_IDS
from txexport.contracts.stage import Stage
from txexport.errors import InputError
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import pad
from txexport.runtime.session import Value, finite


def alignment_of(bundle: LoadedBundle) -> Stage:
    """The stage that aligns tokens with a sound. Raises InputError for a bundle without it."""
    for stage in bundle.after:
        if ALIGNMENT_WEIGHTS in bundle.session(stage.role).outputs:
            return stage
    raise InputError(
        "timestamps='word' needs the graph that aligns words with the sound, which this bundle or engine "
        "lacks; export the checkpoint again without --only hub, or choose timestamps='segment'"
    )


def alignment_weights(
    bundle: LoadedBundle, rows: Sequence[Sequence[int]], cross: Mapping[str, Value]
) -> list[np.ndarray]:
    """The weights (A,S,E) of each row of tokens; `cross` are the decoder's inputs from the encoder."""
    stage = alignment_of(bundle)
    session = bundle.session(stage.role)
    ids, _ = pad([list(row) for row in rows], 0)
    feeds = {name: cross[name] for name in session.inputs if name != INPUT_IDS}
    outputs = session.run_values({INPUT_IDS: session.value(ids), **feeds}, [ALIGNMENT_WEIGHTS])
    weights = finite({name: value.numpy() for name, value in outputs.items()})[ALIGNMENT_WEIGHTS]
    return [one[:, : len(row)] for one, row in zip(weights, rows, strict=True)]


def token_positions(weights: np.ndarray, width: int) -> list[int]:
    """The encoder position (S) at which each token begins, by weights (A,S,E).

    Weights are normalised over tokens, and smoothed over positions by a median filter of `width`.
    """
    if weights.shape[1] == 0:
        return []
    heads = [_median_filtered(_normalised(head.astype(np.float64)), width) for head in weights]
    return _path_starts(-np.stack(heads).mean(axis=0))


def _normalised(weights: np.ndarray) -> np.ndarray:
    """Weights (S,E) with mean 0 and deviation 1 over the tokens; 0 where all tokens are equal."""
    deviation = weights.std(axis=0)
    return (weights - weights.mean(axis=0)) / np.where(deviation > 0, deviation, 1)


def _median_filtered(weights: np.ndarray, width: int) -> np.ndarray:
    """The medians of `width` neighbours along the last axis of (S,E); the ends are reflected."""
    side = width // 2
    if weights.shape[1] <= side:
        return weights
    padded = np.pad(weights, ((0, 0), (side, side)), mode="reflect")
    ordered = [padded[:, first : first + weights.shape[1]] for first in range(width)]
    for place in range(side + 1):  # the smallest left, of all places at once: faster than many short sorts
        for other in range(place + 1, width):
            low, high = ordered[place], ordered[other]
            ordered[place], ordered[other] = np.minimum(low, high), np.maximum(low, high)
    return ordered[side]


def _path_starts(costs: np.ndarray) -> list[int]:
    """The column where each row of `costs` (S,E) begins on the cheapest monotonic path (Sakoe, Chiba 1978).

    Costs of paths are summed in float32, and a tie goes along the row, as in transformers.
    """
    steps = _steps(costs)
    row, column = costs.shape
    starts = [0] * row
    while row > 0:
        starts[row - 1] = max(0, column - 1)
        step = steps[row, column]
        row, column = row - int(step != 2), column - int(step != 1)
    return starts


def _steps(costs: np.ndarray) -> np.ndarray:
    """The last step of the cheapest path to each cell: 0 diagonal, 1 from the row above, 2 along the row.

    (S+1,E+1), with a border before the first row and column; an antidiagonal at a time.
    """
    rows, columns = costs.shape
    steps = np.full((rows + 1, columns + 1), 2, np.int8)
    steps[1:, 0] = 1
    before, last = (np.full(rows + 1, np.inf, np.float32) for _ in range(2))
    before[0] = 0
    for diagonal in range(2, rows + columns + 1):
        row = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        across, down, along = before[row - 1], last[row - 1], last[row]
        step = np.where(
            (across < down) & (across < along), 0, np.where((down < across) & (down < along), 1, 2)
        )
        steps[row, diagonal - row] = step
        total = np.full(rows + 1, np.inf, np.float32)
        total[row] = costs[row - 1, diagonal - row - 1] + np.choose(step, (across, down, along))
        before, last = last, total
    return steps
