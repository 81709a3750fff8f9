"""A diagram of the allowed imports, from the table that tests/test_layout.py enforces."""

import ast

from documentation.sources import ROOT, DocumentError
from documentation.svg import FAINT, Drawing


def allowed() -> dict[str, set[str]]:
    """The areas of ours that each area's files import."""
    tree = ast.parse((ROOT / "tests/test_layout.py").read_text(encoding="utf-8"))
    tables = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "IMPORTED"
    ]
    if not tables:
        raise DocumentError("tests/test_layout.py has no IMPORTED")
    table = {_short(area): set(text.split()) for area, text in ast.literal_eval(tables[0]).items()}
    return {area: (names & table.keys()) - SMALL for area, names in table.items() if area not in SMALL}


SMALL = {
    "__init__",
    "__main__",
    "errors",
    "printable",
    "paths",
    "progress",
    "swap",
    "arguments",
    "pytest_plugin",
}


def _short(area: str) -> str:
    """The name by which others import an area."""
    name = area.removesuffix(".py").split("/")
    return "txmodels.training" if name[-1] == "training" else name[-1]


def levels(imports: dict[str, set[str]]) -> list[list[str]]:
    """Areas by height: those without imports of ours first."""
    heights: dict[str, int] = {}

    def height(area: str) -> int:
        if area not in heights:
            heights[area] = 1 + max((height(name) for name in imports[area] if name in imports), default=-1)
        return heights[area]

    rows: list[list[str]] = [[] for _ in range(1 + max(map(height, imports)))]
    for area in imports:
        rows[height(area)].append(area)
    return rows


def diagram() -> str:
    """The areas in rows, each above all that it imports, and a table of the imports."""
    imports = allowed()
    rows = levels(imports)[::-1]
    drawing = Drawing(
        680,
        len(rows) * 46 + 6,
        "The packages. Each imports only packages in lower rows, and of these only the ones in the table.",
    )
    for number, row in enumerate(rows):
        width = 680 / len(row)
        for place, area in enumerate(row):
            drawing.box(place * width + 4, number * 46 + 6, width - 8, 32, area, FAINT)
    lines = [drawing.html, "", "| package | imports |", "|---|---|"]
    for area in (area for row in rows for area in row):
        lines.append(f"| `{area}` | {', '.join(f'`{name}`' for name in sorted(imports[area])) or 'none'} |")
    return "\n".join(lines)
