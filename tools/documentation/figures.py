"""The figures of the pages on the Transformer, by name; computed with the project's code where possible."""

import math
from collections.abc import Callable

from documentation import diagrams
from documentation.sources import DocumentError
from documentation.svg import ACCENT, CELL, Drawing, Frame
from txexport.families._alibi import geometric
from txexport.families._rope import plain_frequencies
from txexport.spec import RelativeSpec

LENGTH = 12  # tokens of a mask


def figure(name: str) -> str:
    """The figure `name` as HTML. Raises DocumentError for an unknown name."""
    if name not in FIGURES:
        raise DocumentError(f"no figure '{name}'; there are {', '.join(FIGURES)}")
    return FIGURES[name]().html


def _masks(title: str, kinds: dict[str, Callable[[int, int], int]]) -> Drawing:
    """Grids side by side: rows are queries, columns keys; a filled square is a visible key."""
    side, gap = LENGTH * CELL, 24
    drawing = Drawing(len(kinds) * (side + gap), side + 26, title)
    for number, (name, seen) in enumerate(kinds.items()):
        x = number * (side + gap) + gap / 2
        drawing.text(x + side / 2, 8, name)
        drawing.grid(x, 22, [[seen(i, j) for j in range(LENGTH)] for i in range(LENGTH)])
    return drawing


def masks() -> Drawing:
    """The masks of mask.py."""
    return _masks(
        "Rows are queries, columns are keys; a filled square is a key that the query attends to. "
        "Padding of 3 tokens on the right; causal; causal within a window of 4.",
        {
            "padding": lambda i, j: int(j < LENGTH - 3),
            "causal": lambda i, j: int(j <= i),
            "causal, window 4": lambda i, j: int(0 <= i - j < 4),
        },
    )


def sparse() -> Drawing:
    """Sparse attention patterns: blocks of 3, a stride of 3, 2 neighbours either way and a global token."""
    return _masks(
        "Local attention in blocks of 3, strided attention with a stride of 3 (both halves of its heads), "
        "Longformer with 2 neighbours on each side and one global token.",
        {
            "local, causal": lambda i, j: int(j <= i and i // 3 - j // 3 <= 1),
            "strided": lambda i, j: 0 if j > i else 2 if (i - j) % 3 == 0 else int(i - j <= 3),
            "Longformer": lambda i, j: 2 if 0 in (i, j) else int(abs(i - j) <= 2),
        },
    )


def sinusoids() -> Drawing:
    """Rows of the sinusoidal table over positions."""
    drawing = Drawing(
        480, 190, "Sines of a 64-wide sinusoidal table, dimensions 0, 8, 16 and 24, over 60 positions."
    )
    frame = Frame(30, 24, 430, 136, 60, -1.05, 1.05)
    frame.draw(drawing, "position", "sine")
    for number, dim in enumerate((0, 8, 16, 24)):
        rate = 10000 ** (-dim / 64)
        points = [(p / 4, math.sin(p / 4 * rate)) for p in range(241)]
        drawing.curve(
            frame, points, ACCENT if number == 3 else "currentColor" if number == 0 else "var(--drawing-mid)"
        )
    return drawing


def rotary() -> Drawing:
    """One pair of dimensions rotated, position by position, at two frequencies."""
    frequencies = plain_frequencies(10000.0, 16)
    drawing = Drawing(
        460,
        170,
        "A pair of components at positions 0 to 5, rotated with the first and with the second of the "
        "frequencies of a head of size 16.",
    )
    for column, number in enumerate((0, 1)):
        x, y = 110 + column * 230, 82
        drawing.text(x, 162, f"{frequencies[number]:.3g} radians a position")
        for position in range(6):
            angle = position * frequencies[number]
            drawing.arrow((x, y), (x + 66 * math.cos(angle), y - 66 * math.sin(angle)))
            drawing.text(x + 76 * math.cos(angle), y - 76 * math.sin(angle), str(position), 10)
    return drawing


def alibi() -> Drawing:
    """Each head's ALiBi slope."""
    drawing = Drawing(
        480, 190, "The bias that ALiBi adds to the scores of 8 heads, by distance between query and key."
    )
    frame = Frame(30, 24, 430, 136, 40, -20, 0)
    frame.draw(drawing, "distance", "bias")
    for number, slope in enumerate(geometric(8)):
        end = min(40.0, 20 / slope)
        drawing.curve(frame, [(0, 0), (end, -slope * end)], ACCENT if number == 0 else "currentColor")
    return drawing


def buckets() -> Drawing:
    """T5's buckets, by RelativeSpec's own table."""
    spec = RelativeSpec(32, 128, bidirectional=True)
    table = spec.bucket_of_distance()
    drawing = Drawing(
        480, 190, "T5's bucket by distance: 32 buckets for distances up to 128, 16 for each direction."
    )
    frame = Frame(30, 24, 430, 136, len(table) - 1, 0, 16)
    frame.draw(drawing, "distance", "bucket")
    drawing.curve(
        frame,
        [(d + step, b) for d, b in enumerate(table) for step in (0, 1) if d + step < len(table)],
        ACCENT,
    )
    return drawing


def complexity() -> Drawing:
    """n squared d beside n d squared, for a width of 768."""
    drawing = Drawing(
        480,
        200,
        "Multiplications of one layer of width 768, in billions, by length: 2n²d of attention (coloured) and "
        "12nd² of projections and feed-forward. They are equal at n = 6d.",
    )
    frame = Frame(40, 24, 420, 146, 16384, 0, 420)
    frame.draw(drawing, "tokens n, to 16,384", "billions, to 420")
    points = [n * 256 for n in range(65)]
    drawing.curve(frame, [(n, 2 * n * n * 768 / 1e9) for n in points], ACCENT)
    drawing.curve(frame, [(n, 12 * n * 768 * 768 / 1e9) for n in points])
    return drawing


FIGURES: dict[str, Callable[[], Drawing]] = {
    "masks": masks,
    "sparse": sparse,
    "heads": diagrams.heads,
    "sinusoids": sinusoids,
    "rotary": rotary,
    "alibi": alibi,
    "buckets": buckets,
    "norms": diagrams.norms,
    "cache": diagrams.cache,
    "blocks": diagrams.blocks,
    "experts": diagrams.experts,
    "complexity": complexity,
    "low_rank": diagrams.low_rank,
}
