"""Size and speed by dtype as a plain SVG: a bar each, and beside the names what was lost."""

from html import escape

from rich.filesize import decimal

from txexport.dtype_comparison.result import DtypeComparison
from txexport.dtype_comparison.table import duration, measured

NAMES, BAR, GAP, ROW, HEAD = 90, 300, 130, 22, 34  # pixels
COLORS = ("#4c72b0", "#dd8452", "#55a868", "#8172b3", "#c44e52")


def svg(result: DtypeComparison) -> str:
    """The plot, a group of bars for the size and for every work, then the measures as numbers."""
    groups = [("size", [(float(one.bytes), decimal(one.bytes)) for one in result.dtypes])]
    for work, message in result.works.items():
        times = [(one.seconds[work], duration(one.seconds[work])) for one in result.dtypes]
        groups.append((f"{work}: {message}", times))
    parts, y = [], 0
    for title, bars in groups:
        parts.append(_text(0, y + 20, title, "bold"))
        largest = max(value for value, _ in bars)
        for row, (value, label) in enumerate(bars):
            top, width = y + HEAD + row * ROW, BAR * value / largest
            parts.append(_text(0, top + 13, result.dtypes[row].dtype))
            color = COLORS[row % len(COLORS)]
            parts.append(f'<rect x="{NAMES}" y="{top}" width="{width:.1f}" height="16" fill="{color}"/>')
            parts.append(_text(NAMES + width + 6, top + 13, label))
        y += HEAD + len(bars) * ROW + 8
    for measure in result.measures:
        parts.append(_text(0, y + 20, measure, "bold"))
        for row, one in enumerate(result.dtypes):
            number = measured(measure, one.accuracy[measure])
            parts.append(_text(row * (GAP + 20), y + 40, f"{one.dtype} {number}"))
        y += 52
    width = max(NAMES + BAR + GAP, len(result.dtypes) * (GAP + 20))
    size = f'width="{width}" height="{y + 8}" viewBox="0 -4 {width} {y + 12}"'
    style = 'font-family="sans-serif" font-size="13"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}">{escape(text)}</text>'
