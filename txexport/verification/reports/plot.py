"""Errors by case as an inline SVG: a row for each case, a mark for each tensor, a logarithmic axis.

Horizontal positions are percentages: the plot fits any width, and its text has the page's size.
"""

import math
from collections.abc import Iterable, Iterator
from html import escape

from txexport.support.printable import clean
from txexport.verification.checks import CaseReport, TensorCheck
from txexport.verification.reports.common import number
from txexport.verification.result import Report

LEFT, FIRST, LAST, RIGHT = 2.0, 12.0, 90.0, 98.0  # per cent: zero, first and last decade, not finite
HEAD, TRACK, LINE = 34, 38, 26  # pixels: header, height of a row, its line
NAME = 48  # characters of a row's name

REFERENCES = ("twin", "transformers", "float64", "torch.onnx")
# A mark for each reference, by shape and colour, and one for failures.
SHAPES = """<svg class="shapes" width="0" height="0" aria-hidden="true"><defs>
<circle id="twin" r="4"/>
<path id="transformers" d="M0-5 5 0 0 5-5 0Z"/>
<path id="other" d="M-4-4H4V4H-4Z"/>
<path id="float64" d="M0 5 5-4-5-4Z"/>
<path id="torch.onnx" d="M-5 3 0-5 5 3Z"/>
<path id="failed" d="M-4-4 4 4M4-4-4 4"/>
<path id="accumulated" d="M0-5 5 4-5 4Z"/>
</defs></svg>"""


def render(report: Report, runtime: str) -> str:
    """The plot of one runtime, with its legend."""
    cases = [case for case in report.cases if case.runtime == runtime and case.skipped is None]
    names = list(dict.fromkeys(case.name for case in cases))
    if not names:
        return "<p>No case ran.</p>"
    first, last = decades(
        n for case in cases for check in case.checks for n in (check.error, check.tolerance)
    )
    height = HEAD + TRACK * len(names)
    label = f"errors of {len(names)} cases on a logarithmic axis, with the bound"
    parts = [f'<svg class="plot" width="100%" height="{height}" role="img" aria-label="{label}">']
    parts += axis(first, last, height)
    for row, name in enumerate(names):
        named = [case for case in cases if case.name == name]
        parts += track(name, HEAD + TRACK * row)
        parts += bounds((c.tolerance for case in named for c in case.checks), HEAD + TRACK * row, first, last)
        for case in named:
            parts += _marks(case, HEAD + TRACK * row + LINE, first, last)
    return "\n".join([*parts, "</svg>", _legend(cases)])


def decades(numbers: Iterable[float]) -> tuple[int, int]:
    """The exponents of the powers of ten around all errors and bounds."""
    known = [number for number in numbers if 0 < number < math.inf]
    if not known:
        return -8, -4
    first, last = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    return first, max(last, first + 1)


def across(error: float, first: int, last: int) -> str:
    """The horizontal position of an error: zero on the left, not finite on the right."""
    if not math.isfinite(error):
        return f"{RIGHT}%"
    if error == 0:
        return f"{LEFT}%"
    return f"{FIRST + (LAST - FIRST) * (math.log10(error) - first) / (last - first):.2f}%"


def axis(first: int, last: int, height: int) -> Iterator[str]:
    """The lines and labels of the decades."""
    step = 1 + (last - first) // 7
    ticks = {f"1e{power}": across(10.0**power, first, last) for power in range(first, last + 1, step)}
    for label, x in ({"0": across(0, first, last)} | ticks | {"∞": across(math.inf, first, last)}).items():
        yield f'<line class="tick" x1="{x}" x2="{x}" y1="{HEAD - 16}" y2="{height}"/>'
        yield f'<text class="tick" x="{x}" y="12">{label}</text>'


def track(name: str, y: int) -> Iterator[str]:
    """The name of a row, short enough for a phone, and its line."""
    name = clean(name)
    short = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
    yield f'<text x="0" y="{y + 12}">{escape(short)}<title>{escape(name)}</title></text>'
    yield f'<line class="track" x1="0" x2="100%" y1="{y + LINE}" y2="{y + LINE}"/>'


def bounds(tolerances: Iterable[float], y: int, first: int, last: int) -> Iterator[str]:
    """A mark on a row's line for each of its bounds."""
    for bound in sorted(set(tolerances)):
        x = across(bound, first, last)
        yield f'<line class="bound" x1="{x}" x2="{x}" y1="{y + LINE - 9}" y2="{y + LINE + 9}"/>'


def _marks(case: CaseReport, y: int, first: int, last: int) -> Iterator[str]:
    """A mark for each tensor, failed ones on top; a single one for a case that raised."""
    if not case.checks:
        yield mark("failed", math.inf, f"{case.reference}: {case.summary}", y, first, last)
    for check in sorted(case.checks, key=lambda check: not check.ok):
        kind = _kind(case.reference) if check.ok else "failed"
        yield mark(kind, check.error, _title(case, check), y, first, last)


def mark(kind: str, error: float, title: str, y: int, first: int, last: int) -> str:
    """One mark with a title, which is shown when the mouse points at it."""
    x = across(error, first, last)
    return f'<use href="#{kind}" class="{kind}" x="{x}" y="{y}"><title>{escape(clean(title))}</title></use>'


def _title(case: CaseReport, check: TensorCheck) -> str:
    return f"{case.reference}: {check.output}, error {number(check.error)} of {number(check.tolerance)}"


def _kind(reference: str) -> str:
    """The mark of a reference; references of `compare` have any name."""
    return reference if reference in REFERENCES else "other"


def _legend(cases: list[CaseReport]) -> str:
    kinds = {escape(clean(case.reference)): _kind(case.reference) for case in cases}
    kinds |= {"failed": "failed"} if any(not case.ok for case in cases) else {}
    signs = {name: f'<use href="#{kind}" class="{kind}" x="7" y="7"/>' for name, kind in kinds.items()}
    signs["bound"] = '<line class="bound" x1="7" x2="7" y1="0" y2="14"/>'
    marks = [f'<span><svg width="14" height="14">{sign}</svg>{name}</span>' for name, sign in signs.items()]
    return f'<p class="legend">{"".join(marks)}</p>'
