"""What verify and compare found: a report."""

import dataclasses
import math
import re
import shlex
from dataclasses import dataclass, field

from txexport.verification import counts
from txexport.verification.agreement import Behaviour
from txexport.verification.bounds import RELATIVE
from txexport.verification.checks import (
    ALL_CASES,
    BY_STRUCTURE,
    CALIBRATED,
    CHECKPOINT,
    CLIENT,
    CONTENTS,
    DIRECTION,
    EVERY_WEIGHT,
    FORMAT_LOSS,
    FORMAT_LOSS_ON_TEXTS,
    IDENTITY,
    INPUTS_AND_OUTPUTS,
    PROBABILITY,
    PROCESSORS,
    RUNTIME,
    CaseReport,
    TensorCheck,
    graphs_label,
)
from txexport.verification.layers.result import LayerReport

COMPARISON = "comparison"  # the task of a report where no bundle tells one
BESIDE = "scales are the search's, and each integer is one of the two beside its number"
GIVE_TEXTS = "which one the bundle says itself; to prove it, give the texts with --texts"
MADE_AGAIN = "made again from its texts, every integer is the same"
LOSES = "loses too much"  # the verdict where nothing else was tried
LOSSY = f"exact, but {LOSES}"  # the verdict on numbers that are right, and a budget that is not kept
UNPROVED = "not proved"  # the verdict where nothing is wrong, and something could not be made again
Reach = dict[str, tuple[int, int | None]]  # how many, and of how many at most where there is a limit
FORMAT = 1  # of a report as JSON; schema.json says what is in it


@dataclass(frozen=True)
class Report:
    """All cases of one bundle in each runtime, and what it was that ran them.

    `runtime` names the runtimes that ran, with their devices; `device` is ONNX Runtime's. `versions` are
    those of libraries, `environment` says python, platform and processor; the hashes are SHA-256 by file
    name, those of the bundle as its files were read. `cases` are the chosen ones: `selection` is "full",
    "quick", or the names that were asked for. `source` is the checkpoint where one was given, `adapter`
    what was merged into it, likewise. `command` are the words that began it, where that was not verify; a
    comparison of what no shell can name has none.
    `layers` say which component is wrong, where that was asked; the verdict is the cases'. `texts` is the
    file of real inputs where one was given. `reach` is how far the cases look, by what: rows, tokens,
    experts. `calibrated` says by what texts integers were chosen, by dtype. `graphs`
    are the bundle's files, and of which kind each is, as in CaseReport. `notes` say which of two readings of
    the checkpoint is meant, where libraries differ in that. `checkpoint` names it, with its adapter and a
    digest of its files.
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
        """Whether `compare` made this, and not `verify`."""
        return bool(self.command) or self.task == COMPARISON

    @property
    def references(self) -> list[str]:
        """What the bundle was held against, each at least once."""
        return list(dict.fromkeys(case.reference for case in self.cases if case.skipped is None))

    @property
    def runtimes(self) -> list[str]:
        """The runtimes that were wanted, tried or not."""
        return list(dict.fromkeys(case.runtime for case in self.cases if case.runtime is not None))

    def against(self, case: CaseReport) -> str:
        """What a case was held against, and, where there are several runtimes, on which."""
        where = f" on {case.runtime}" if case.runtime and self.runtimes[1:] else ""
        return f"{self.judged(case)}{where}"

    def judged(self, case: CaseReport) -> str:
        """What a case was held against, and which graphs, where they are not our runtime's."""
        which = graphs_label(case.graphs)
        return f"{case.reference} ({which})" if which else case.reference

    def rows(self) -> dict[tuple[str, str], dict[str | None, CaseReport]]:
        """The cases by name and what was held against what, and then by runtime: rows, and columns."""
        result: dict[tuple[str, str], dict[str | None, CaseReport]] = {}
        for case in self.cases:
            result.setdefault((case.name, self.judged(case)), {})[case.runtime] = case
        return result

    def of_graphs(self) -> dict[str, str]:
        """What came out for each graph of the bundle, in words, by its file."""
        result = {}
        for file, kind in self.graphs.items():
            tried = [case for case in self.cases if case.graphs == kind and case.tries(file)]
            failed = [case for case in tried if not case.of_graph(file).ok]
            if not tried:
                result[file] = "not tried"
            elif any(not case.is_loss for case in failed):
                result[file] = f"{len(failed)} of {len(tried)} cases failed"
            elif kind.split()[-1] in self.unproved:
                result[file] = f"{UNPROVED}, {len(tried)} cases"
            elif failed:
                result[file] = f"{LOSSY}, {len(tried)} cases"
            else:
                edited = file in (self.edited or "").split()
                result[file] = f"{'no difference' if edited else 'equal'}, {len(tried)} cases"
        return result

    @property
    def failed(self) -> list[CaseReport]:
        """The cases that failed."""
        return [case for case in self.cases if not case.ok]

    @property
    def ok(self) -> bool:
        """Tell whether at least one case ran, none failed, and nothing that was to be proved is not."""
        return not self.failed and any(case.checks for case in self.cases) and not self.unproved

    @property
    def exact(self) -> bool:
        """Tell whether all numbers are right: no case failed but by what a number format loses."""
        others = [case for case in self.cases if not case.is_loss]
        return all(case.ok for case in others) and any(case.checks for case in others) and not self.unproved

    @property
    def unproved(self) -> list[str]:
        """The dtypes with calibrated integers that were not made again from the texts that chose them."""
        tried = [case for case in self.cases if case.name == CALIBRATED and case.ok]
        made = {check.output.partition(",")[0] for case in tried for check in case.checks}
        return [dtype for dtype in self.calibrated if dtype not in made]

    @property
    def unproved_why(self) -> list[str]:
        """What was not proved, and what is to be given for it."""
        return [
            f"{dtype} is calibrated by {self.calibrated[dtype]}: {self._held(dtype)}"
            for dtype in self.unproved
        ]

    @property
    def verdict(self) -> str:
        """In a few words; `exit_code` is for each another, but for the two of no difference."""
        failed = any(not case.is_loss for case in self.failed)
        if failed or not any(case.checks for case in self.cases):
            return "NOT EQUAL"
        if self.unproved:
            return UNPROVED
        if self.failed:
            return LOSSY if self.exact else LOSES
        if self.compared or self.edited is not None:
            contents = (*CONTENTS, *PROCESSORS, CALIBRATED, INPUTS_AND_OUTPUTS)
            tried = sum(bool(case.checks) and case.name not in contents for case in self.cases)
            return f"no difference in {tried} case{'s' * (tried != 1)}"
        return "equal"

    @property
    def exit_code(self) -> int:
        """Of a command: 0 equal or no difference, 1 not equal, 2 not proved, 3 exact, but loses too much."""
        return {"NOT EQUAL": 1, UNPROVED: 2, LOSSY: 3, LOSES: 3}.get(self.verdict, 0)

    @property
    def scope(self) -> str:
        """What the verdict is about: references, runtime, and which cases where they are not all."""
        ours = "its checkpoint" if CHECKPOINT in self.references else "nothing"
        against = " and ".join(name for name in self.references if name != CHECKPOINT) or ours
        part = {"full": "", "quick": " (quick cases)"} if isinstance(self.selection, str) else {}
        named = f" (only {len(self.selection)} by name{self._left_out})"
        toward = "to" if self.verdict in ("equal", "NOT EQUAL") else "beside"
        scope = f"{toward} {against} on {self.runtime}{self._beside}{part.get(str(self.selection), named)}"
        scope += f", of {self.checkpoint}" if self.checkpoint is not None else ""
        if any(check.output.endswith(BY_STRUCTURE) for case in self.cases for check in case.checks):
            scope += ", graphs by their structure"
        if self.calibrated:
            made = [dtype for dtype in self.calibrated if dtype not in self.unproved]
            scope += f", {' and '.join(made)} calibrated anew by its texts" if made else ""
        return scope if self.edited is None else f"{scope}, by cases alone: {self.edited}"

    @property
    def _processors(self) -> list[CaseReport]:
        """The cases of what stands before and behind the graphs."""
        return [case for case in self.cases if case.name in PROCESSORS]

    @property
    def processors(self) -> list[str]:
        """The names of those that were tried."""
        return [case.name for case in self._processors if case.skipped is None]

    @property
    def _beside(self) -> str:
        """What was held against transformers beside the graphs, in words."""
        tried = self.processors
        last = " and ".join([", ".join(tried[:-1]), tried[-1]] if tried[1:] else tried)
        return f" with its {last}" if tried else ""

    @property
    def _left_out(self) -> str:
        """What of a bundle cases by name did not compare."""
        tried = {case.name for case in self.cases}
        left = [] if self.compared else [what for name, what in CONTENTS.items() if name not in tried]
        if not left:
            return ""
        last = " and ".join([", ".join(left[:-1]), left[-1]] if left[1:] else left)
        return f"; {last} were not compared"

    @property
    def edited(self) -> str | None:
        """Which graphs are not the exported ones, where that was allowed."""
        reasons = (case.skipped for case in self.cases if case.name == IDENTITY)
        return next((why.partition(": ")[0] for why in reasons if why is not None), None)

    @property
    def facts(self) -> str:
        """How much was compared and how near it is, or the first failure."""
        about = f"{self.model_type}, {self.task}"
        if self.failed:
            first = self.failed[0]
            message = f"{first.name} ({self.against(first)}): {first.summary}"
            facts = f"{about}: {len(self.failed)} of {len(self.cases)} cases failed, first: {message}"
            if self.verdict == LOSSY:
                facts = f"{about}: {first.graphs} {first.summary}; every number is right"
            blameless = self.layers is not None and self.layers.checks and not self.layers.beyond
            return f"{facts}; yet no component is beyond its budget alone" if blameless else facts
        checks = [check for case in counts.counted(self.cases) for check in case.checks]
        bound = max((check.tolerance for check in checks), default=0.0)
        within = f"{bound:.0e}" if self.compared else f"{RELATIVE:.0e} or float32's own rounding"
        by_kind = counts.totals(self.numbers)
        of_what = f" ({counts.words(by_kind)})" if len(by_kind) > 1 else ""
        numbers = f"{sum(by_kind.values()):,} numbers compared{of_what}, each within {within}"
        numbers = numbers if by_kind else "no numbers compared"
        return "; ".join([f"{about}: {numbers}", *self._asides])

    @property
    def _asides(self) -> list[str]:
        """How far the cases look, and what else a reader of the verdict should know."""
        beyond = self.layers is not None and self.layers.beyond
        asides = [self.reached] if self.reach else []
        for case in self._processors:
            if case.skipped is None:
                asides.append(f"{case.name}: {sum(check.elements for check in case.checks):,} compared")
            else:
                asides.append(f"not tried: {case.name}, {case.skipped}")
        asides += [f"no {kind} of {name}: {why}" for name, kind, why in self.lacking]
        asides += [f"{dtype} loses {what}" for dtype, what in self.lost.items()]
        asides += [f"{dtype} loses {what} on the texts" for dtype, what in self.lost_on_texts.items()]
        asides += [
            f"{dtype} is calibrated by {what}: {self._held(dtype)}" for dtype, what in self.calibrated.items()
        ]
        asides += self.notes
        return [*asides, "yet components are beyond their budget alone"] if beyond else asides

    def _held(self, dtype: str) -> str:
        """What is held of calibrated integers of a dtype, in words."""
        if dtype not in self.unproved:
            return MADE_AGAIN
        tried = {case.name for case in self.cases if case.skipped is None}
        return f"{BESIDE if EVERY_WEIGHT in tried else 'nothing was held of that'}, {GIVE_TEXTS}"

    @property
    def numbers(self) -> counts.Numbers:
        """How many numbers were compared, by what they were held against, and by kind of output."""
        return counts.compared(self.cases)

    @property
    def lacking(self) -> list[tuple[str, str, str]]:
        """Which originals lack which kind of output, and why."""
        of_kind = [case for case in self.cases if case.name in counts.KINDS]
        return list(dict.fromkeys((case.reference, case.name, case.skipped or "") for case in of_kind))

    @property
    def lost(self) -> dict[str, str]:
        """What each number format loses at most of an output, by dtype, in words."""
        worst: dict[str, TensorCheck] = {}
        for case in self.cases:
            for check in case.checks if case.name == FORMAT_LOSS else ():
                dtype, measure = case.graphs.split()[-1], check.output.rpartition(" ")[2]
                judged = measure in (DIRECTION, PROBABILITY)
                if judged and (dtype not in worst or check.error > worst[dtype].error):
                    worst[dtype] = check
        return {
            dtype: f"up to {check.error:.2%} of {check.output.rpartition(' ')[2]}"
            for dtype, check in worst.items()
        }

    @property
    def lost_on_texts(self) -> dict[str, str]:
        """What each number format loses of the answers to real texts, by dtype, in words."""
        return {
            case.graphs.split()[-1]: ", ".join(
                f"{check.error:.2%} of {check.output}" for check in case.checks
            )
            for case in self.cases
            if case.name == FORMAT_LOSS_ON_TEXTS and case.checks
        }

    @property
    def reached(self) -> str:
        """How far the cases look, in words."""
        return "up to " + ", ".join(
            f"{number:,} {name}" if limit is None else f"{number:,} of {limit:,} {name}"
            for name, (number, limit) in self.reach.items()
        )

    @property
    def rounded(self) -> bool:
        """Whether there is a float32 twin's error beside the bundle's."""
        return any(check.rounding is not None for case in self.cases for check in case.checks)

    def worst_outputs(self, runtime: str | None = None) -> dict[str, TensorCheck]:
        """The worst check of each output of the graphs, layers taken together: `present.*.key`.

        Of one runtime, or of all.
        """
        worst: dict[str, TensorCheck] = {}
        for case in self.cases:
            wanted = case.reference != CHECKPOINT and runtime in (None, case.runtime)
            for check in case.checks if wanted else ():
                output = re.sub(r"\.\d+\.", ".*.", check.output)
                if output not in worst or check.error > worst[output].error:
                    worst[output] = check
        return worst

    def behaviours(self) -> dict[str, Behaviour]:
        """What the outputs say, by their names, all cases and references together."""
        result: dict[str, Behaviour] = {}
        for check in (check for case in self.cases for check in case.checks):
            if check.behaviour is not None:
                before = result.get(check.output)
                result[check.output] = check.behaviour if before is None else before.merged(check.behaviour)
        return result

    def repeat(self, case: CaseReport) -> str:
        """The command that runs one case again; "" where none can."""
        if self.compared:
            return shlex.join([*self.command, "--case", case.name]) if self.command else ""
        words = ["txexport", "verify", self.bundle]
        if case.name in (FORMAT_LOSS, FORMAT_LOSS_ON_TEXTS):  # of all quick cases together
            words += ["--cases", "quick"]
            measures = {check.output.rpartition(" ")[2]: check.tolerance for check in case.checks}
            for measure, share in measures.items():
                words += ["--budget", f"{measure}={share:g}"]
        elif case.name != ALL_CASES:
            words += ["--case", case.name]
        words += ["--reference", case.reference] if case.reference != CHECKPOINT else []
        if case.runtime is not None and case.runtime.startswith(CLIENT):
            words += ["--client", case.runtime.removeprefix(CLIENT)]
        elif case.runtime not in (None, RUNTIME):
            words += ["--runtime", str(case.runtime)]
        words += ["--texts", self.texts] if self.texts is not None else []
        words += ["--source", self.source] if self.source is not None else []
        words += ["--adapter", self.adapter] if self.adapter is not None else []
        words += ["--allow-edited"] if self.edited is not None else []
        own = (case.runtime or RUNTIME).startswith(RUNTIME)
        words += ["--device", self.device] if self.device != "cpu" and own else []
        return shlex.join(words)

    def to_dict(self) -> dict:
        """Plain JSON values, as schema.json describes; an error that is not finite becomes null."""
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
        """The report that `to_dict` gave. Raises KeyError or TypeError for what is none."""
        told = ("format", "ok", "verdict", "exact", "numbers")
        values = {name: value for name, value in values.items() if name not in told}
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
