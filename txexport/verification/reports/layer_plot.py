"""Errors by layer as an inline SVG: a row for each layer in order, a mark for each component."""

from collections.abc import Sequence
from html import escape

from txexport.support.printable import clean
from txexport.verification.layers.result import ComponentCheck, LayerReport
from txexport.verification.reports.common import number
from txexport.verification.reports.plot import HEAD, LINE, TRACK, axis, bounds, decades, mark, track


def render(layers: LayerReport) -> str:
    """The summary and the plot, with its legend."""
    message = f"<p>{escape(clean(layers.summary))}.</p>"
    if layers.checks and layers.skipped is not None:
        message += f"<p>{escape(clean(layers.skipped))}.</p>"
    rows = layers.rows()
    if not rows:
        return message
    numbers = [n for c in layers.checks for n in (c.error, c.accumulated or 0.0, c.tolerance)]
    first, last = decades(numbers)
    height = HEAD + TRACK * len(rows)
    label = f"errors of {len(rows)} layers on a logarithmic axis, with the bound"
    parts = [f'<svg class="plot" width="100%" height="{height}" role="img" aria-label="{label}">']
    parts += axis(first, last, height)
    for row, (name, checks) in enumerate(rows.items()):
        y = HEAD + TRACK * row
        parts += track(name, y)
        parts += bounds((check.tolerance for check in checks), y, first, last)
        parts += _marks(checks, y + LINE, first, last)
    return "\n".join([message, *parts, "</svg>", LEGEND])


def _marks(checks: Sequence[ComponentCheck], y: int, first: int, last: int) -> list[str]:
    """A mark for each component's own error, failed ones on top, and one for the accumulated error."""
    result = []
    drifts = [check for check in checks if check.accumulated is not None]
    for check in drifts[-1:]:
        assert check.accumulated is not None
        message = f"in the whole graph: {check.component}, {check.value}, {number(check.accumulated)}"
        result.append(mark("accumulated", check.accumulated, message, y, first, last))
    for check in sorted(checks, key=lambda check: not check.ok):
        message = f"{check.component}, {check.what}: error {number(check.error)} of {number(check.tolerance)}"
        result.append(mark("twin" if check.ok else "failed", check.error, message, y, first, last))
    return result


def _sign(kind: str, label: str) -> str:
    shape = f'<use href="#{kind}" class="{kind}" x="7" y="7"/>'
    return f'<span><svg width="14" height="14">{shape}</svg>{label}</span>'


SIGNS = {
    "twin": "a component alone, on the twin's numbers",
    "failed": "beyond its budget",
    "accumulated": "the end of a layer in the whole graph",
}
LEGEND = f'<p class="legend">{"".join(_sign(*pair) for pair in SIGNS.items())}</p>'
