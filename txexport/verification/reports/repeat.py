"""The command that repeats one case of a report."""

import shlex

from txexport.verification.checks import (
    ALL_CASES,
    CHECKPOINT,
    CLIENT,
    FORMAT_LOSS_UNSET,
    LOSSES,
    RUNTIME,
    UNSET_OPTIONS,
    CaseReport,
)
from txexport.verification.result import Report


def repeat_command(report: Report, case: CaseReport) -> str:
    """The command that runs one case again; empty if no command can."""
    if report.compared:
        return shlex.join([*report.command, "--case", case.name]) if report.command else ""
    arguments = ["txexport", "verify", report.bundle, *_cases(case)]
    arguments += ["--reference", case.reference] if case.reference != CHECKPOINT else []
    if case.runtime is not None and case.runtime.startswith(CLIENT):
        arguments += ["--client", case.runtime.removeprefix(CLIENT)]
    elif case.runtime not in (None, RUNTIME):
        arguments += ["--runtime", str(case.runtime)]
    arguments += ["--texts", report.texts] if report.texts is not None else []
    arguments += ["--source", report.source] if report.source is not None else []
    arguments += ["--adapter", report.adapter] if report.adapter is not None else []
    arguments += ["--allow-edited"] if report.edited is not None else []
    takes_device = (case.runtime or RUNTIME).startswith(RUNTIME)
    arguments += ["--device", report.device] if report.device != "cpu" and takes_device else []
    return shlex.join(arguments)


def _cases(case: CaseReport) -> list[str]:
    """The options that choose a case; those of losses run all quick cases together."""
    if case.name in (UNSET_OPTIONS, FORMAT_LOSS_UNSET):
        return ["--cases", "quick"]
    if case.name not in LOSSES:
        return [] if case.name == ALL_CASES else ["--case", case.name]
    budgets = {check.output.rpartition(" ")[2]: check.tolerance for check in case.checks}
    shares = (["--budget", f"{measure}={share:g}"] for measure, share in budgets.items())
    return ["--cases", "quick", *(word for pair in shares for word in pair)]
