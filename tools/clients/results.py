"""Results of the clients' tests, from pytest's JUnit files: results.json, and the table in docs/.

PYTHONPATH=tools python tools/clients/results.py optimum genai   after their tests; the others stay
PYTHONPATH=tools python tools/clients/results.py                 the table alone
"""

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from documentation.tables import put

ROOT = Path(__file__).parent.parent.parent
REPORTS = ROOT / ".clients"
RESULTS = Path(__file__).with_name("results.json")
FAMILIES = Path(__file__).with_name("families.json")
READ = ROOT / "txexport/exporter/clients.json"
TITLES = {  # the package that gives each client of families.json its name
    "genai": "onnxruntime-genai",
    "openvino": "openvino",
    "optimum": "optimum-onnx",
    "js": "@huggingface/transformers",
}
KEYS = ("family", "task", "what")
LONGEST = 120  # of a reason, in a cell


def cases(client: str) -> Iterator[dict[str, Any]]:
    """The client's test cases: the row of each, and the reason of a failure."""
    for case in ET.parse(REPORTS / f"{client}.xml").getroot().iter("testcase"):
        noted = {node.get("name"): node.get("value") for node in case.iter("property")}
        if "task" not in noted:
            continue  # skipped before it began
        problem = next((node for node in case if node.tag in ("failure", "error")), None)
        why = None if problem is None else first_line(problem.get("message") or "")
        yield {**{key: noted[key] for key in KEYS}, "why": why, "versions": json.loads(noted["versions"])}


def first_line(message: str) -> str:
    """The first line of a message, without the name of txexport's own error."""
    line = message.strip().split("\n")[0].removeprefix("txexport.errors.TxexportError: ")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} …"


def collect(clients: Iterable[str], results: dict[str, Any]) -> dict[str, Any]:
    """`results` with those of `clients` replaced: each with its packages' versions and its cases."""
    updated = dict(results)
    for client in clients:
        tests = list(cases(client))
        if not tests:
            print(f"{client}: nothing was tried; its environment is missing", file=sys.stderr)
            continue
        versions = next((case["versions"] for case in tests if case["versions"]), {})
        without = [{key: case[key] for key in (*KEYS, "why")} for case in tests]
        updated[client] = {"versions": versions, "cases": without}
    return dict(sorted(updated.items()))


def listed(values: Iterable[str]) -> str:
    """Each value once."""
    return ", ".join(dict.fromkeys(values))


def cell(cases: list[dict[str, Any]]) -> str:
    """The families of a client's task; those that are not equal are named."""
    failed = {case["family"] for case in cases if case["why"] is not None}
    return listed(
        f"{case['family']} (**not equal**)" if case["family"] in failed else case["family"] for case in cases
    )


def table(results: dict[str, Any]) -> str:
    """Markdown: a row per task and a column per client, with the families tested, and reasons of failures."""
    titles = {name: " ".join(next(iter(result["versions"].items()))) for name, result in results.items()}
    tasks = dict.fromkeys(case["task"] for result in results.values() for case in result["cases"])
    lines = [f"| | {' | '.join(titles.values())} |", f"|---|{'---|' * len(titles)}"]
    for task in tasks:
        cells = [
            cell([case for case in result["cases"] if case["task"] == task]) for result in results.values()
        ]
        lines.append(f"| {task} | {' | '.join(cells)} |")
    lines.append("")
    for name, result in results.items():
        lines.append(f"- {titles[name]}: {listed(case['what'] for case in result['cases'])}")
        lines += [
            f"  - {case['family']}, {case['what']}: {case['why']}"
            for case in result["cases"]
            if case["why"] is not None
        ]
    return "\n".join(lines) + "\n"


def clients_by_task(results: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """The clients that run each family and task."""
    return {
        family: {
            task: sorted(name for name, why in whys.items() if why is None) for task, whys in tasks.items()
        }
        for family, tasks in sorted(results["families"].items())
    }


def families_table(results: dict[str, Any]) -> str:
    """Markdown: a row per family and a column per client, with the tasks that it runs."""
    titles = [f"{package} {results['versions'][name][package]}" for name, package in TITLES.items()]
    lines = [f"| family | tried | {' | '.join(titles)} |", f"|---|---|{'---|' * len(titles)}"]
    for family, tasks in clients_by_task(results).items():
        cells = []
        for name in TITLES:
            runs = [task for task, names in tasks.items() if name in names]
            cells.append("all" if len(runs) == len(tasks) else ", ".join(sorted(runs)) or "none")
        lines.append(f"| `{family}` | {', '.join(sorted(tasks))} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(clients: list[str]) -> None:
    """Write results.json and the table."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results = collect(clients, results)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    put("clients", table(results))
    families = json.loads(FAMILIES.read_text(encoding="utf-8"))
    put("client_families", families_table(families))
    summary = {"versions": families["versions"], "families": clients_by_task(families)}
    READ.write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
