"""The report of `verify` and `compare`: the cases, what ran them, and the verdict."""

import dataclasses
import math
from dataclasses import dataclass, field

from txexport.verification import counts
from txexport.verification.agreement import Behaviour
from txexport.verification.checks import (
    BY_STRUCTURE,
    CALIBRATED,
    CHECKPOINT,
    CONTENTS,
    IDENTITY,
    INPUTS_AND_OUTPUTS,
    PROCESSORS,
    CaseReport,
    Reach,
    TensorCheck,
)
from txexport.verification.layers.result import LayerReport

COMPARISON = "comparison"  # the task in a report without a bundle
EQUAL, NO_DIFFERENCE = "equal", "no difference in"  # the verdicts of success; the latter with a count
LOSES = "loses too much"  # the verdict if nothing else was checked
EXACT_BUT_LOSES = f"exact, but {LOSES}"  # the numbers are right, and a format is over its budget
UNPROVED = "not proved"  # nothing failed, and calibrated integers were not calibrated again
FORMAT = 1  # version of the JSON report; schema.json describes it


@dataclass(frozen=True)
class Report:
    """All cases of one bundle on each runtime, and what ran them: the data of schema.json.

    `runtime` names the runtimes that ran, with their devices; `device` is ONNX Runtime's. `versions` are
    those of libraries, `environment` has python, platform and processor. `checkpoint_sha256` and
    `bundle_sha256` are by file name, as the files were read. `selection` is "full", "quick", or the names of
    the chosen cases. `source` is the checkpoint and `adapter` its adapter, if they were given. `command` is
    that of a comparison in a shell; empty for verify, and for a comparison that no shell can repeat.

    `layers` are the checks of components, if they were wanted; the verdict does not depend on them. `texts`
    is the file of the user's inputs. `reach` is the largest number of rows, tokens and experts in the cases.
    `calibrated` describes the calibration of each dtype. `graphs` are the bundle's files with their kind, as
    in CaseReport. `notes` say how the checkpoint was read where libraries differ. `checkpoint` is its name,
    with its adapter and a digest of its files.
    """

    bundle: str
    model_type: str
    task: str
    runtime: str
    versions: dict[str, str]
    cases: list[CaseReport]
    environment: dict[str, str] = field(default_factory=dict)
    checkpoint_sha256: dict[str, str] = field(default_factory=dict)
    bundle_sha256: dict[str, str] = field(default_factory=dict)
    selection: str | list[str] = "full"
    source: str | None = None
    adapter: str | None = None
    device: str = "cpu"
    created: str = ""
    command: list[str] = field(default_factory=list)
    layers: LayerReport | None = None
    texts: str | None = None
    reach: Reach = field(default_factory=dict)
    graphs: dict[str, str] = field(default_factory=dict)
    calibrated: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    checkpoint: str | None = None

    @property
    def compared(self) -> bool:
        """True for a report of `compare`, False for one of `verify`."""
        return bool(self.command) or self.task == COMPARISON

    @property
    def references(self) -> list[str]:
        """The references that at least one case was compared with."""
        return list(dict.fromkeys(case.reference for case in self.cases if case.skipped is None))

    @property
    def runtimes(self) -> list[str]:
        """The chosen runtimes, including those that could not run."""
        return list(dict.fromkeys(case.runtime for case in self.cases if case.runtime is not None))

    @property
    def failed(self) -> list[CaseReport]:
        """The cases that failed."""
        return [case for case in self.cases if not case.ok]

    @property
    def ok(self) -> bool:
        """True if at least one case ran, none failed, and all calibrated integers were proved."""
        return not self.failed and any(case.checks for case in self.cases) and not self.unproved

    @property
    def exact(self) -> bool:
        """True if all numbers are right: no case failed except by the loss of a number format."""
        others = [case for case in self.cases if not case.is_loss]
        return all(case.ok for case in others) and any(case.checks for case in others) and not self.unproved

    @property
    def unproved(self) -> list[str]:
        """The dtypes with calibrated integers that were not calibrated again from their texts."""
        cases = [case for case in self.cases if case.name == CALIBRATED and case.ok]
        proved = {check.output.partition(",")[0] for case in cases for check in case.checks}
        return [dtype for dtype in self.calibrated if dtype not in proved]

    @property
    def edited(self) -> str | None:
        """The graphs that are not the exported ones, if that was allowed."""
        reasons = (case.skipped for case in self.cases if case.name == IDENTITY)
        return next((reason.partition(": ")[0] for reason in reasons if reason is not None), None)

    @property
    def verdict(self) -> str:
        """The verdict in a few words. Each has an `exit_code` of its own, except the two of no difference."""
        failed = any(not case.is_loss for case in self.failed)
        if failed or not any(case.checks for case in self.cases):
            return "NOT EQUAL"
        if self.unproved:
            return UNPROVED
        if self.failed:
            return EXACT_BUT_LOSES if self.exact else LOSES
        if self.compared or self.edited is not None:
            contents = (*CONTENTS, *PROCESSORS, CALIBRATED, INPUTS_AND_OUTPUTS)
            count = sum(bool(case.checks) and case.name not in contents for case in self.cases)
            return f"{NO_DIFFERENCE} {count} case{'s' * (count != 1)}"
        return EQUAL

    @property
    def exit_code(self) -> int:
        """The command's exit code: 0 equal or no difference, 1 not equal, 2 not proved, 3 loses too much."""
        return exit_code_of(self.verdict)

    @property
    def scope(self) -> str:
        """The scope of the verdict: references, runtimes, processors, and the cases unless all ran."""
        nothing = "its checkpoint" if CHECKPOINT in self.references else "nothing"
        references = " and ".join(name for name in self.references if name != CHECKPOINT) or nothing
        if isinstance(self.selection, str):
            cases = " (quick cases)" if self.selection == "quick" else ""
        else:
            cases = f" (only {len(self.selection)} by name{self._not_compared})"
        processors = f" with its {_listed(self.processors)}" if self.processors else ""
        preposition = "to" if self.verdict in (EQUAL, "NOT EQUAL") else "beside"
        scope = f"{preposition} {references} on {self.runtime}{processors}{cases}"
        scope += f", of {self.checkpoint}" if self.checkpoint is not None else ""
        if any(check.output.endswith(BY_STRUCTURE) for case in self.cases for check in case.checks):
            scope += ", graphs by their structure"
        if proved := [dtype for dtype in self.calibrated if dtype not in self.unproved]:
            scope += f", {' and '.join(proved)} calibrated again on its texts"
        return scope if self.edited is None else f"{scope}, by cases only: {self.edited}"

    @property
    def processors(self) -> list[str]:
        """The processors that were compared with transformers: tokenizer, chat template, images, sounds."""
        return [case.name for case in self.cases if case.name in PROCESSORS and case.skipped is None]

    @property
    def _not_compared(self) -> str:
        """The contents of a bundle that cases by name left out, in words."""
        compared = {case.name for case in self.cases}
        left = [] if self.compared else [what for name, what in CONTENTS.items() if name not in compared]
        return f"; {_listed(left)} were not compared" if left else ""

    @property
    def numbers(self) -> counts.Numbers:
        """The count of compared numbers, by reference and by kind of output."""
        return counts.compared(self.cases)

    def to_dict(self) -> dict:
        """The report as JSON values, as in schema.json; an error that is not finite becomes null."""
        verdict = {"ok": self.ok, "verdict": self.verdict, "exact": self.exact}
        values = {"format": FORMAT, **verdict, "numbers": self.numbers, **dataclasses.asdict(self)}
        for case, record in zip(self.cases, values["cases"], strict=True):
            record["ok"] = case.ok
            for check, entry in zip(case.checks, record["checks"], strict=True):
                entry["ok"] = check.ok
                for name in ("error", "rounding"):
                    number = getattr(check, name)
                    entry[name] = None if number is None or not math.isfinite(number) else number
        values["layers"] = None if self.layers is None else self.layers.to_dict()
        values["reach"] = {name: list(pair) for name, pair in self.reach.items()}
        return values

    @classmethod
    def from_dict(cls, values: dict) -> "Report":
        """The report of the values of `to_dict`. Raises KeyError or TypeError for other values."""
        computed = ("format", "ok", "verdict", "exact", "numbers")
        values = {name: value for name, value in values.items() if name not in computed}
        cases = []
        for record in values.pop("cases"):
            checks = [
                TensorCheck(
                    entry["output"],
                    entry["elements"],
                    math.inf if entry["error"] is None else entry["error"],
                    entry["tolerance"],
                    entry["rounding"],
                    None if entry["behaviour"] is None else Behaviour(**entry["behaviour"]),
                    entry["graph"],
                )
                for entry in record["checks"]
            ]
            rest = {name: value for name, value in record.items() if name not in ("checks", "ok")}
            cases.append(CaseReport(checks=checks, **rest))
        layers = values.pop("layers")
        values["reach"] = {name: tuple(pair) for name, pair in values["reach"].items()}
        return cls(cases=cases, layers=None if layers is None else LayerReport.from_dict(layers), **values)


def exit_code_of(verdict: str) -> int:
    """The exit code of a verdict; that of an unknown one is 1."""
    successful = verdict == EQUAL or verdict.startswith(NO_DIFFERENCE)
    return {UNPROVED: 2, EXACT_BUT_LOSES: 3, LOSES: 3}.get(verdict, 0 if successful else 1)


def _listed(names: list[str]) -> str:
    """Names in words: "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
