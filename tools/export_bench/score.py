"""Runs checkers over entries, and counts what each found, missed and took for wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export_bench.entry import EQUAL, KINDS, WRONG

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "checkers"
ACCEPTED, ALARM, UNJUDGED = "accepted", "alarm", "unjudged"
CRASHED = "the checker's process ended"


@dataclass(frozen=True)
class Checker:
    """A checker: its file, its rule in words, and the environment that has its software, if not this one."""

    name: str
    file: str
    rule: str
    environment: str | None = None


CHECKERS = {
    one.name: one
    for one in (
        Checker(
            "onnx.checker",
            "onnx_checker",
            "`onnx.checker.check_model(full_check=True)`: a valid file, whose types and shapes agree. It "
            "compares no numbers.",
        ),
        Checker(
            "torch.onnx",
            "torch_verification",
            "`torch.onnx.verification.verify_onnx_program` on one example, with the limits of "
            "`torch.onnx.export(verify=True)`: no absolute difference of 5e-3, no relative one of 0.1. The "
            "example is two rows of 8 tokens without padding, of a decoder 4 of them as past. A merged "
            "decoder's file is left out.",
        ),
        Checker(
            "transformers",
            "transformers_rule",
            "The rule of the tests of `transformers.exporters` (`tests/exporters/test_export.py`, "
            "`_check_outputs_close`): one input of 13 rows of 7 tokens with a mask, of decoders a step too; "
            "within 1e-3 of each number, absolutely and relatively, unless fewer than 5 % of the numbers "
            "are not. The tests are no part of the package, so the rule is run as they state it.",
        ),
        Checker(
            "optimum-onnx",
            "optimum_validation",
            "`validate_models_outputs`, as `optimum-cli export onnx` calls it: one random input, within "
            "1e-5 of each number, absolutely and relatively, padding included. It reports a difference as a "
            "warning and exits with 0; that counts as found. The original is loaded as it loads it, with "
            "SDPA, which leaves out the cap of Gemma 2's scores.",
            "optimum",
        ),
        Checker(
            "Olive",
            "olive_discrepancy",
            "The pass `OnnxDiscrepancyCheck` with its defaults. They set no limit, so it fails nothing. It "
            "reads `ForCausalLM` classes only. Its input is one token behind a past of ones, which the "
            "original does not receive: with a limit, it would fail the right exports too.",
            "olive",
        ),
        Checker(
            "txexport verify",
            "txexport_verify",
            "`txexport verify EXPORT --source CHECKPOINT`, by its exit code.",
        ),
    )
}


def python_of(checker: Checker) -> Path:
    """The Python that runs a checker."""
    if checker.environment is None:
        return Path(sys.executable)
    python = ROOT / ".clients" / checker.environment / "bin" / "python"
    if not python.is_file():
        raise FileNotFoundError(f"{python} is missing; `tools/exportbench install` makes it")
    return python


def run(checker: Checker, entries: Sequence[Path]) -> dict[str, Any]:
    """The outcome of every entry; an entry at which the checker's process ends is an alarm."""
    result: dict[str, Any] = {"versions": {}, "outcomes": {}}
    left = list(entries)
    ours = [] if checker.environment else [ROOT / part for part in ("", "tools", "models", "graphs")]
    paths = [FOLDER, *ours]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    while left:
        command = [python_of(checker), FOLDER / f"{checker.file}.py", *left]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            done, began = _outcomes(process, result)
            errors = process.stderr.read() if process.stderr else ""
        left = [one for one in left if one.name not in result["outcomes"]]
        if left and not done and not began:
            raise RuntimeError(f"{checker.name} does not start: {errors[-500:]}")
        if left:
            result["outcomes"][left.pop(0).name] = {"outcome": ALARM, "why": CRASHED, "seconds": 0}
    return result


def _outcomes(process: subprocess.Popen, result: dict[str, Any]) -> tuple[int, bool]:
    """Read a checker's lines as they come; how many entries it judged, and whether it began."""
    count, began = 0, False
    for line in process.stdout or ():
        if line.startswith('{"versions": '):
            result["versions"], began = json.loads(line)["versions"], True
        elif line.startswith('{"entry": '):
            outcome = json.loads(line)
            result["outcomes"][outcome.pop("entry")] = outcome
            count += 1
    return count, began


def entries_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of the entries in a folder, by name."""
    files = sorted(folder.glob("*/entry.json"))
    return {file.parent.name: json.loads(file.read_text(encoding="utf-8")) for file in files}


def summary(records: dict[str, dict[str, Any]], outcomes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Counts of a checker's outcomes for wrong exports and right ones, and by kinds of fault."""
    counts = {name: {ACCEPTED: 0, ALARM: 0, UNJUDGED: 0} for name in (WRONG, EQUAL)}
    kinds = {kind: [0, 0] for kind in KINDS}
    for name, outcome in outcomes.items():
        record = records[name]
        counts[record["verdict"]][outcome["outcome"]] += 1
        if record["verdict"] == WRONG:
            kinds[record["kind"]][0] += outcome["outcome"] == ALARM
            kinds[record["kind"]][1] += 1
    return {
        "found": counts[WRONG][ALARM],
        "missed": counts[WRONG][ACCEPTED],
        "wrong_unjudged": counts[WRONG][UNJUDGED],
        "accepted": counts[EQUAL][ACCEPTED],
        "false_alarms": counts[EQUAL][ALARM],
        "right_unjudged": counts[EQUAL][UNJUDGED],
        "by_kind": kinds,
        "seconds": round(sum(one["seconds"] for one in outcomes.values()), 1),
    }


def score(folder: Path, results: Path, names: Iterable[str] = (), only: Iterable[str] = ()) -> None:
    """Run the checkers of these names, or all, and write their outcomes to `results`, a JSON file.

    `only` these entries are judged, if any are named; the outcomes of the others stay.
    """
    records = entries_of(folder)
    written = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}
    written["entries"] = {
        name: {
            key: record[key]
            for key in ("source", "verdict", "what", "kind", "difference", "seen")
            if key in record
        }
        for name, record in records.items()
    }
    checked = written.setdefault("checkers", {})
    for name in names or CHECKERS:
        outcome = run(CHECKERS[name], [folder / entry for entry in tuple(only) or records])
        outcomes = (checked.get(name, {}).get("outcomes", {}) if only else {}) | outcome["outcomes"]
        outcomes = {entry: outcomes[entry] for entry in records}
        checked[name] = (
            {"versions": outcome["versions"]} | summary(records, outcomes) | {"outcomes": outcomes}
        )
        results.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        print(
            name,
            {key: one for key, one in checked[name].items() if isinstance(one, (int, float))},
            flush=True,
        )
