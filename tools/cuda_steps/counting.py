"""Counts of every family's graphs over the empty CUDA; `tools/cuda empty` starts a process of it."""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import tiny_checkpoint

import txexport
from cuda_steps.empty_cuda import Log
from cuda_steps.results import Results
from txexport.contracts.stage import TOKENS
from txexport.errors import UnsupportedError
from txexport.runtime.engines import captures
from txexport.runtime.engines.captures import Capture, Captures
from txexport.runtime.model import Model
from txexport.verification import verify

COUNTS = Path(__file__).with_name("counts.json")
PROMPT = [[5, 6, 7, 8], [9, 5]]
LINE = 160  # characters of an error
NEW = 9  # tokens: the first comes from the prompt, and the last ones from captured steps


def count(model_type: str, log: Log) -> dict[str, Any]:
    """The facts of a family's graphs for CUDA; `failed` are cases that its provider refuses to run.

    A family that writes texts after texts has the events of a step, and the captures and replays of later
    ones, and of the same steps in a second call.
    Raises ValueError where a capture does what none may do.
    """
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        tiny_checkpoint.save(folder / "in", model_type)
        try:
            txexport.export(folder / "in", folder / "out", client="cuda")
        except UnsupportedError as error:
            return {"refused": str(error)}
        report = verify(folder / "out", reference="twin", device="cuda", cases="quick")
        facts: dict[str, Any] = {"cases": sum(case.skipped is None for case in report.cases)}
        if failed := {case.name: case.exception for case in report.cases if case.exception}:
            facts["failed"] = {name: error[:LINE] for name, error in failed.items()}
        model = txexport.load(folder / "out", device="cuda")
        if model.bundle.step is not None and model.bundle.prompt_kind == TOKENS:
            facts |= _steps(model, log)
    return facts


def _steps(model: Model, log: Log) -> dict[str, Any]:
    """Of steps whose numbers mean nothing, so that the first replay is not compared with them."""

    def events(tokens: int) -> Counter[str]:
        log.read()
        model.generate_ids(PROMPT, max_new_tokens=tokens, min_new_tokens=tokens)
        return log.read()

    captures.MOST, most = 0, captures.MOST  # a step as it is without captures
    try:
        events(1)  # what only a first run does
        step = events(2) - events(1)
    finally:
        captures.MOST = most
    Captures.agrees = _replayed  # type: ignore[method-assign]
    later, again = events(NEW), events(NEW)
    if wrong := [line for line in later + again if line.startswith("!")]:
        raise ValueError("; ".join(wrong))
    facts = {name: step[name] for name in ("kernel", "product", "up", "down")}
    for suffix, calls in (("", later), (" again", again)):
        facts |= {f"{name}{suffix}": calls[name] for name in ("captured", "replayed")}
    return facts


def _replayed(_: Captures, capture: Capture, feeds: Any, expected: Any) -> bool:
    capture.run(feeds)
    return True


def main() -> None:
    """Count the rows that the results lack; see `Results.resume`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("state", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results, log = Results(options.state), Log()
    names = [name for name in tiny_checkpoint.FAMILIES if options.only in name]
    if code := results.resume("empty", names, lambda name: count(name, log), 60 * options.minutes):
        sys.exit(code)
    counted = {name: results.steps["empty"][name] for name in names}
    before = json.loads(COUNTS.read_text())
    if options.write:
        both = before | counted
        both = {name: both[name] for name in tiny_checkpoint.FAMILIES if name in both}
        COUNTS.write_text(json.dumps(both, indent=1) + "\n")
    different = [name for name in names if counted[name] != before.get(name)]
    for name in different:
        print(f"{name}: {counted[name]}, before {before.get(name)}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
