"""Costs as SVG: lines over length on logarithmic axes, and bars."""

import math
from collections.abc import Mapping, Sequence

from txexport.support.markup import plain

WIDTH, HEIGHT = 348, 236
LEFT, RIGHT, TOP, BOTTOM = 50, 340, 10, 198  # edges of the plot's area
ROW = 38
Line = Sequence[tuple[int, float]]


def lines(name: str, series: Mapping[str, Line], kinds: Sequence[str], ticks: Mapping[int, str]) -> str:
    """Lines by name over lengths, each with a CSS class; `ticks` label powers of ten on the left."""
    drawn = [point for line in series.values() for point in line if point[1] > 0]
    first, last = min(x for x, _ in drawn), max(x for x, _ in drawn)
    low = math.floor(math.log10(min(y for _, y in drawn)))
    high = max(math.ceil(math.log10(max(y for _, y in drawn))), low + 1)

    def across(x: float) -> float:
        return LEFT + (RIGHT - LEFT) * math.log(x / first) / (math.log(last / first) or 1)

    def up(y: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (math.log10(y) - low) / (high - low)

    shapes = []
    for power in range(low, high + 1, 1 + (high - low) // 6):
        y = up(10.0**power)
        shapes.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = ticks.get(power, f"1e{power}")
        shapes.append(
            f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{plain(label)}</text>'
        )
    for x in _marked(first, last):
        at, anchor = across(x), "end" if x == last else "middle"
        shapes.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{BOTTOM}"/>')
        shapes.append(
            f'<text class="tick" x="{at:.1f}" y="{BOTTOM + 16}" text-anchor="{anchor}">{_short(x)}</text>'
        )
    shapes.append(f'<text class="tick" x="{RIGHT}" y="{BOTTOM + 32}" text-anchor="end">tokens</text>')
    for (label, line), kind in zip(series.items(), kinds, strict=True):
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line if y > 0)
        shapes.append(
            f'<polyline class="line {kind}" points="{points}"><title>{plain(label)}</title></polyline>'
        )
        shapes += [
            f'<circle class="dot {kind}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.5">'
            f"<title>{plain(label)}, {x:,} tokens: {y:,.0f}</title></circle>"
            for x, y in line
            if y > 0
        ]
    description = "; ".join(
        f"{label}: {line[-1][1]:,.0f} at {line[-1][0]:,} tokens" for label, line in series.items()
    )
    return _svg(name, description, HEIGHT, shapes)


def bars(name: str, sizes: Mapping[str, tuple[float, str]], kind: str) -> str:
    """A bar for each name, as long as its number, with a description."""
    most = max((size for size, _ in sizes.values()), default=0) or 1
    shapes = []
    for row, (label, (size, description)) in enumerate(sizes.items()):
        y = ROW * row
        shapes.append(f'<text class="name" x="0" y="{y + 14}">{plain(label)}</text>')
        shapes.append(
            f'<text class="note" x="{WIDTH}" y="{y + 14}" text-anchor="end">{plain(description)}</text>'
        )
        width = max(1.0, size / most * WIDTH)
        shapes.append(f'<rect class="{kind}" x="0" y="{y + 20}" width="{width:.1f}" height="10" rx="2"/>')
    about = "; ".join(f"{label}: {description}" for label, (_, description) in sizes.items())
    return _svg(name, about, ROW * len(sizes), shapes)


def legend(names: Mapping[str, str]) -> str:
    """A legend: a colour sample for each name."""
    signs = (
        f'<span><svg width="14" height="10" aria-hidden="true"><rect class="{kind}" width="14" height="10" '
        f'rx="2"/></svg>{plain(name)}</span>'
        for name, kind in names.items()
    )
    return f'<p class="legend">{"".join(signs)}</p>'


def _svg(name: str, description: str, height: int, shapes: Sequence[str]) -> str:
    box = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    about = f"<title>{plain(name)}</title><desc>{plain(description)}</desc>"
    return "\n".join([f'<svg class="costs" {box} role="img">{about}', *shapes, "</svg>"])


def _marked(first: int, last: int) -> list[int]:
    """The powers of two that are labelled, spaced so that labels fit, and the end."""
    powers = [2**power for power in range(last.bit_length()) if first <= 2**power <= last]
    marked = powers[:: 1 + len(powers) // 6]
    apart = [x for x in marked if 7 * math.log(last / x) > math.log(last / first)]
    return [*apart, last]


def _short(length: int) -> str:
    return f"{length // 1024}k" if length >= 1024 and length % 1024 == 0 else f"{length:,}"
