"""The page of the recorded outcomes, docs/reference/exportbench.md."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from export_bench.entry import EQUAL, KINDS, WRONG
from export_bench.score import ACCEPTED, ALARM, CHECKERS, ROOT, UNJUDGED

PAGE = ROOT / "docs/reference/exportbench.md"
MARKS = {ALARM: "found", ACCEPTED: "missed", UNJUDGED: ""}
LONGEST = 160  # characters of a reason


def write(results: Path) -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(results.read_text(encoding="utf-8"))), encoding="utf-8")


def page(results: dict[str, Any]) -> str:
    """The page as text: counts, kinds of faults, rules, and every entry."""
    entries = results["entries"]
    checkers = {name: results["checkers"][name] for name in CHECKERS if name in results["checkers"]}
    verdicts = Counter(one["verdict"] for one in entries.values())
    lines = [
        "# ExportBench",
        "",
        "A benchmark of software that judges ONNX exports of transformers checkpoints. An entry is a tiny",
        "seeded checkpoint, an export of it in the files and names that optimum writes, and the right",
        f"verdict: {verdicts[EQUAL]} exports are right and {verdicts[WRONG]} are wrong.",
        "`tools/exportbench score` makes them, runs the checkers and records what they say;",
        "`tools/exportbench table` writes this page; `tools/exportbench make OUT` writes the entries alone.",
        "",
        "An export is right if each output differs from the original's, in eager attention and float32, by",
        "less than 2e-5 of its largest number at every input of its kind that the maker tries: batches,",
        "padding on both sides, long texts, steps and chunks. It is wrong if an output differs by more than",
        "1e-4 of it at a stated input, or fails there. The maker checks this, and stops if an entry is not",
        "what it should be. Padding is not compared.",
        "",
        "Most graphs are those that txexport writes for other clients, with a fault put in: a weight, a",
        "setting, a node. Few of these faults were copied from real files. Models are tiny and their weights",
        "random, so that most faults change more than they would in a published checkpoint. The entries were",
        "made before `txexport verify` was run on them, by the same project. At its first run it missed one,",
        "bart-merged-branch, and was mended.",
        "",
        "## Checkers",
        "",
        "*Found* and *missed* count wrong exports, *accepted* and *false alarms* right ones. *Not judged*",
        "are exports that a checker does not take, wrong and right ones. An alarm counts whatever its",
        "reason: a checker that alarms at a right export finds the wrong ones of that checkpoint too.",
        "",
        "| checker | versions | found | missed | accepted | false alarms | not judged | seconds |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(name, one) for name, one in checkers.items()),
        "",
        "Wrong exports found, by the kind of fault:",
        "",
        f"| fault | {' | '.join(checkers)} |",
        f"|---|{'---|' * len(checkers)}",
        *(_kind(kind, checkers) for kind in KINDS),
        "",
        "## Rules",
        "",
        *(f"- **{name}**: {CHECKERS[name].rule}" for name in checkers),
        "",
        "## Right exports",
        "",
        "| export | what it is | false alarms |",
        "|---|---|---|",
        *(
            f"| {name} | {_cell(one['what'])} | {_alarms(name, checkers)} |"
            for name, one in entries.items()
            if one["verdict"] == EQUAL
        ),
        "",
        "## Wrong exports",
        "",
        "The difference is that at the stated input, as a part of the output's largest number; *fails* if",
        "the graph does not run there, or returns another shape. Links lead to public reports of such a",
        "fault.",
        "",
        f"| export | what is wrong | difference | {' | '.join(checkers)} |",
        f"|---|---|---|{'---|' * len(checkers)}",
        *(_wrong(name, one, checkers) for name, one in entries.items() if one["verdict"] == WRONG),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, one: dict[str, Any]) -> str:
    versions = ", ".join(f"{package} {number}" for package, number in one["versions"].items())
    unjudged = one["wrong_unjudged"] + one["right_unjudged"]
    counts = [one[count] for count in ("found", "missed", "accepted", "false_alarms")]
    cells = [name, versions, *counts, unjudged, f"{one['seconds']:.0f}"]
    return f"| {' | '.join(map(str, cells))} |"


def _kind(kind: str, checkers: dict[str, Any]) -> str:
    cells = [f"{alarms} of {count}" for alarms, count in (one["by_kind"][kind] for one in checkers.values())]
    return f"| {KINDS[kind]} | {' | '.join(cells)} |"


def _alarms(name: str, checkers: dict[str, Any]) -> str:
    outcomes = {checker: one["outcomes"][name] for checker, one in checkers.items()}
    alarms = [
        f"{checker}: {_cell(one['why'])}" for checker, one in outcomes.items() if one["outcome"] == ALARM
    ]
    return "; ".join(alarms)


def _wrong(name: str, one: dict[str, Any], checkers: dict[str, Any]) -> str:
    links = ", ".join(f"[{_short(link)}]({link})" for link in one["seen"])
    what = _cell(one["what"]) + (f" Seen: {links}." if links else "")
    difference = "fails" if one["difference"] == "inf" else one["difference"]
    marks = [MARKS[checker["outcomes"][name]["outcome"]] for checker in checkers.values()]
    return f"| {name} | {what} | {difference} | {' | '.join(marks)} |"


def _short(link: str) -> str:
    owner, number = re.fullmatch(r"https://github\.com/[\w-]+/([\w.-]+)/\w+/(\d+)", link).groups()
    return f"{owner}#{number}"


def _cell(text: str) -> str:
    """A text in a table's cell: one line of bounded length, without a table's own characters."""
    text = " ".join(text.split())
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return re.sub(r"([|<>*_\[\]`])", r"\\\1", text)
