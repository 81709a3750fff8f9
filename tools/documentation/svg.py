"""Drawings as inline SVG in the page's colours, for light and dark mode."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

CELL = 16  # a square of a grid, in pixels
INK, FAINT, ACCENT = "currentColor", "var(--drawing-faint)", "var(--drawing-accent)"


@dataclass
class Drawing:
    """Shapes on a sheet of `width` by `height` pixels; `title` is the accessible name."""

    width: float
    height: float
    title: str
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, size: int = 12, anchor: str = "middle") -> None:
        """Text with its baseline 4 below y."""
        self.parts.append(
            f'<text x="{x:g}" y="{y + 4:g}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{INK}">{escape(text)}</text>'
        )

    def rect(self, x: float, y: float, w: float, h: float, fill: str = "none", stroke: str = INK) -> None:
        """A rectangle with its upper left corner at (x, y)."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="2" fill="{fill}" stroke="{stroke}"/>'
        )

    def box(self, x: float, y: float, w: float, h: float, text: str, fill: str = "none") -> None:
        """A rectangle with centred text."""
        self.rect(x, y, w, h, fill)
        self.text(x + w / 2, y + h / 2, text)

    def line(self, points: Sequence[tuple[float, float]], stroke: str = INK, width: float = 1.2) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{width:g}"/>'
        )

    def arrow(self, *points: tuple[float, float]) -> None:
        """A line through points with a head at the last."""
        self.line(points)
        (x0, y0), (x, y) = points[-2:]
        length = max(((x - x0) ** 2 + (y - y0) ** 2) ** 0.5, 1e-9)
        u, v = (x - x0) / length * 6, (y - y0) / length * 6
        head = (
            f"{x:.1f},{y:.1f} {x - u - v / 2:.1f},{y - v + u / 2:.1f} {x - u + v / 2:.1f},{y - v - u / 2:.1f}"
        )
        self.parts.append(f'<polygon points="{head}" fill="{INK}"/>')

    def grid(self, x: float, y: float, rows: Sequence[Sequence[int]]) -> None:
        """Squares: 0 empty, 1 filled, 2 in the accent colour."""
        fills = ("none", FAINT, ACCENT)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                self.rect(x + j * CELL, y + i * CELL, CELL, CELL, fills[value], "var(--drawing-grid)")

    def curve(self, frame: "Frame", points: Sequence[tuple[float, float]], stroke: str = INK) -> None:
        """A line through points in the frame's coordinates."""
        self.line([frame.place(x, y) for x, y in points], stroke, 1.6)

    @property
    def html(self) -> str:
        """The drawing as a figure of a page."""
        shapes = "".join(self.parts)
        return (
            f'<figure class="drawing"><svg viewBox="0 0 {self.width:g} {self.height:g}" '
            f'style="max-width:{self.width:g}px" role="img" aria-label="{escape(self.title)}" '
            f'xmlns="http://www.w3.org/2000/svg">{shapes}</svg>'
            f"<figcaption>{escape(self.title)}</figcaption></figure>"
        )


@dataclass(frozen=True)
class Frame:
    """Axes: a rectangle at (x, y), `w` by `h` pixels; x runs from 0 to `right`, y from `low` to `high`."""

    x: float
    y: float
    w: float
    h: float
    right: float
    low: float
    high: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The position on the sheet of a point in these coordinates."""
        return self.x + x / self.right * self.w, self.y + (self.high - y) / (self.high - self.low) * self.h

    def draw(self, drawing: Drawing, across: str, up: str) -> None:
        """The axes with their names."""
        left, bottom = self.x, self.y + self.h
        drawing.line([(left, self.y), (left, bottom), (left + self.w, bottom)])
        drawing.text(left + self.w / 2, bottom + 14, across)
        drawing.text(left, self.y - 12, up, anchor="start")
