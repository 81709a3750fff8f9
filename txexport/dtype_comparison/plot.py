"""Speed as a plain SVG: bars, and below them the losses of accuracy."""

from collections.abc import Mapping, Sequence
from html import escape

from rich.filesize import decimal

from txexport.dtype_comparison.result import DtypeComparison
from txexport.dtype_comparison.table import duration, measured

LETTER, BAR, GAP, ROW, HEAD = 7.5, 300, 130, 22, 34  # pixels
COLORS = ("#4c72b0", "#dd8452", "#55a868", "#8172b3", "#c44e52")

Groups = Mapping[str, Sequence[tuple[float, str]]]  # groups of bars: title -> a length and a label for each


def svg(result: DtypeComparison) -> str:
    """The plot: a group of bars for the size and for every workload, then the measures as numbers."""
    groups: dict[str, Sequence[tuple[float, str]]] = {
        "size": [(float(one.bytes), decimal(one.bytes)) for one in result.dtypes]
    }
    groups |= times(result.works, [one.seconds for one in result.dtypes])
    accuracy = {
        name: [measured(name, one.accuracy[name]) for one in result.dtypes] for name in result.measures
    }
    return drawn([one.dtype for one in result.dtypes], groups, accuracy)


def times(works: Mapping[str, str], seconds: Sequence[Mapping[str, float]]) -> Groups:
    """A group of bars for every workload."""
    return {
        f"{work}: {message}": [(one[work], duration(one[work])) for one in seconds]
        for work, message in works.items()
    }


def drawn(names: Sequence[str], groups: Groups, numbers: Mapping[str, Sequence[str]]) -> str:
    """Bars of `names` in groups, and below them a column of numbers for each name."""
    left = max(90.0, LETTER * max(map(len, names)) + 10)
    parts, y = [], 0
    for title, bars in groups.items():
        parts.append(_text(0, y + 20, title, "bold"))
        largest = max(value for value, _ in bars)
        for row, (value, label) in enumerate(bars):
            top, width = y + HEAD + row * ROW, BAR * value / largest
            parts.append(_text(0, top + 13, names[row]))
            color = COLORS[row % len(COLORS)]
            parts.append(f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="16" fill="{color}"/>')
            parts.append(_text(left + width + 6, top + 13, label))
        y += HEAD + len(bars) * ROW + 8
    for measure, each in numbers.items():
        parts.append(_text(0, y + 20, measure, "bold"))
        for row, number in enumerate(each):
            parts.append(_text(0, y + HEAD + row * ROW + 13, names[row]))
            parts.append(_text(left, y + HEAD + row * ROW + 13, number))
        y += HEAD + len(each) * ROW + 8
    size = f'width="{left + BAR + GAP:.0f}" height="{y + 8}" viewBox="0 -4 {left + BAR + GAP:.0f} {y + 12}"'
    style = 'font-family="sans-serif" font-size="13"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}">{escape(text)}</text>'
