"""Results of all steps that ran, as one JSON and one page of Markdown."""

import json
from pathlib import Path
from typing import Any

from cuda_steps.speed import MODELS, NEW, STEP

PROOFS = ("verify", "captured", "float16")


def write(steps: dict[str, dict[str, Any]], folder: Path, wanted: dict[str, int]) -> list[Path]:
    """Write report.json and report.md; `wanted` are the numbers of rows of the proofs."""
    files = [folder / "report.json", folder / "report.md"]
    files[0].write_text(json.dumps(steps, indent=1) + "\n")
    files[1].write_text(markdown(steps, wanted))
    return files


def markdown(steps: dict[str, dict[str, Any]], wanted: dict[str, int]) -> str:
    """The page: the machine, the proofs with each row that is not equal, and speeds as multiples of ours."""
    machine = steps.get("check", {}).get("machine", {})
    lines = ["# On a device", "", f"Ran on: {machine.get('name', 'not checked')}"]
    lines += [f"- {name}: {value}" for name, value in machine.items() if name != "name"]
    for step in PROOFS:
        lines += ["", f"## {step}", "", *_proof(steps.get(step, {}), wanted.get(step, 0))]
    lines += ["", "## Speed", ""]
    limit = steps.get("bench", {}).get("limit", {}).get("bytes_per_second")
    if limit:
        lines.append(f"A copy on the device moves {limit / 1e9:,.0f} GB/s, read and written.")
    for name, result in steps.get("bench", {}).items():
        if name != "limit":
            lines += ["", f"### {name}", "", *_speed(name, result, limit)]
    return "\n".join(lines) + "\n"


def _proof(rows: dict[str, Any], wanted: int) -> list[str]:
    if not rows:
        return ["Not run."]
    refused = sum("refused" in row for row in rows.values())
    equal, ran = sum(row.get("ok", False) for row in rows.values()) - refused, len(rows) - refused
    lines = [f"{equal} of {ran} rows that ran are equal; {wanted - len(rows)} of {wanted} did not run."]
    lines += [f"{refused} are refused by name."] if refused else []
    for name, row in rows.items():
        if not row.get("ok", False):
            lines.append(f"- {name}: {row.get('error') if 'facts' not in row else row['facts']}")
    return lines


def _speed(name: str, result: dict[str, Any], limit: float | None) -> list[str]:
    if "error" in result:
        return [f"Not measured: {result['error']}"]
    lines = ["| way | seconds | times ours | bandwidth of weights |", "|---|---|---|---|"]
    ours = result["seconds"].get("ours")
    decodes = MODELS[name.split()[0]] == "decode"
    for way, taken in result["seconds"].items():
        passes = NEW if decodes and STEP not in way else 1
        rate = result["weight_bytes"] * passes / taken
        share = f", {rate / limit:.0%} of the limit" if limit else ""
        ratio = f"{taken / ours:.2f}" if ours and STEP not in way else ""
        lines.append(f"| {way} | {taken:.4f} | {ratio} | {rate / 1e9:,.1f} GB/s{share} |")
    return lines + [f"- {way} did not run: {why}" for way, why in result["refused"].items()]
