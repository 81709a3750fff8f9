"""The table of docs/reference/speed.md from records of `models.py --json`, by machine.

python tools/bench/measured.py
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from documentation.tables import put  # noqa: E402

RECORDS = HERE / "measured"
CLOCKS = {"cpu": "CPU seconds", "elapsed": "wall-clock seconds"}


def tables() -> str:
    """A heading, the conditions of measurement, and a table for each record, sorted by name."""
    return "\n".join(_machine(json.loads(path.read_text())) for path in sorted(RECORDS.glob("*.json")))


def _machine(record: dict) -> str:
    threads = "one thread" if record["threads"] == 1 else f"{record['threads']} threads"
    depth = f", {record['layers']} layers of each" if record["layers"] else ""
    starts = f" of {record['starts']} processes each" if record.get("starts", 1) > 1 else ""
    part = f", {record['only'].replace(',', ', ')} alone" if record.get("only") else ""
    first, *runtimes = record["versions"]  # a number format may follow a name, as in "txexport int8"
    lines = [
        f"### {record['processor']}{part}",
        "",
        f"{record['day']}; {', '.join(record['instructions'])}; {threads}, {CLOCKS[record['clock']]}{depth}; "
        f"medians of {record['times']} runs or more{starts}, in alternation.",
        "",
        *[f"- {name}: {versions}" for name, versions in record["versions"].items()],
        "",
        f"| work | {first} | " + " | ".join(runtimes) + " |",
        "|---" * (len(runtimes) + 2) + "|",
        *[_row(result, first, runtimes) for result in record["results"]],
        "",
    ]
    return "\n".join(lines)


def _row(result: dict, first: str, runtimes: list[str]) -> str:
    """The time of the first with its unit, the others' as multiples; an empty cell where one is missing.

    An older record has no ratios of its own: they are computed from its medians.
    """
    ours = result["seconds"][first]
    time = f"{result['tokens'] / ours:.1f} tokens/s" if result["tokens"] > 1 else f"{ours * 1e3:.0f} ms"
    ratios = result.get("ratios") or {name: seconds / ours for name, seconds in result["seconds"].items()}
    cells = [f"{ratios[name]:.2f}" if name in ratios else "" for name in runtimes]
    return f"| {result['name']} | {time} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    put("measured", tables())
