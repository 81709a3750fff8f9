"""Generated tables in pages, between <!-- NAME: COMMAND --> and <!-- end of NAME -->."""

from pathlib import Path

from documentation.sources import ROOT, DocumentError

REFERENCE = ROOT / "docs/reference"
PAGES = {
    "rows": REFERENCE / "families.md",
    "tasks": ROOT / "docs/guides/tasks.md",
    "checkpoints": REFERENCE / "checkpoints.md",
    "clients": REFERENCE / "clients.md",
    "client_families": REFERENCE / "clients.md",
    "runtimes": REFERENCE / "runtimes.md",
    "webgpu": REFERENCE / "runtimes.md",
    "measured": REFERENCE / "speed.md",
}


def _parts(name: str) -> tuple[str, str, str]:
    """The page before the table, the table, and the page after it."""
    page: Path = PAGES[name]
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(f"<!-- {name}: ")
    command, close, rest = rest.partition(" -->\n")
    table, end, after = rest.partition(f"<!-- end of {name} -->")
    if not (begin and close and end):
        lines = f"<!-- {name}: COMMAND --> and <!-- end of {name} -->"
        raise DocumentError(f"{page} has no lines {lines}; put them where the table belongs")
    return f"{before}{begin}{command}{close}", table, f"{end}{after}"


def shown(name: str) -> str:
    """The table `name` as its page has it."""
    return _parts(name)[1]


def put(name: str, table: str) -> None:
    """Write the table `name`, which ends in a newline, into its page."""
    before, _, after = _parts(name)
    PAGES[name].write_text(before + table + after, encoding="utf-8")
