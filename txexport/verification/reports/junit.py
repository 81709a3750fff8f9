"""A report as JUnit XML: a testcase for each case, reference and runtime."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from txexport.support.printable import clean
from txexport.verification import counts
from txexport.verification.checks import CALIBRATED, NATIVE, RUNTIME, CaseReport
from txexport.verification.reports.common import hashes, listed, number, outcome, run_facts
from txexport.verification.reports.repeat import repeat_command
from txexport.verification.result import Report


def render(reports: Report | Sequence[Report]) -> str:
    """One testsuite a report; a case that raised counts as a failure."""
    suites = [_suite(report) for report in listed(reports)]
    counts = ("tests", "failures", "errors", "skipped")
    totals = {name: str(sum(int(suite.attrib[name]) for suite in suites)) for name in counts}
    root = Element("testsuites", {"name": "txexport verify", **totals})
    root.extend(suites)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(report: Report) -> Element:
    outcomes = ["error" if _unproved(report, case) else outcome(case) for case in report.cases]
    suite = Element(
        "testsuite",
        {
            "name": clean(report.bundle),
            "tests": str(len(outcomes)),
            "failures": str(outcomes.count("FAILED")),
            "errors": str(outcomes.count("error")),
            "skipped": str(outcomes.count("skipped")),
            "time": f"{sum(case.seconds for case in report.cases):.3f}",
            **({"timestamp": report.created} if report.created else {}),
        },
    )
    properties = SubElement(suite, "properties")
    values = {"verdict": f"{report.verdict} {report.scope}", **run_facts(report)}
    values |= {f"numbers compared with {name}": counts.words(of) for name, of in report.numbers.items()}
    if report.layers is not None:
        values["layers"] = report.layers.summary
    values |= {f"sha256 of {place} {file}": digest for place, file, digest in hashes(report)}
    for name, value in values.items():
        SubElement(properties, "property", {"name": clean(name), "value": clean(value)})
    for case in report.cases:
        suite.append(_testcase(report, case))
    return suite


def _testcase(report: Report, case: CaseReport) -> Element:
    parts = ["txexport", report.model_type, report.task, case.reference]
    if case.runtime not in (None, RUNTIME):
        parts.append(str(case.runtime))
    parts += [word for word in case.graphs.split() if word != NATIVE]
    name = ".".join(parts)
    values = {"classname": clean(name), "name": clean(case.name), "time": f"{case.seconds:.3f}"}
    element = Element("testcase", values)
    if _unproved(report, case):
        SubElement(element, "error", {"message": clean(str(case.skipped)), "type": "NotProved"})
    elif case.skipped is not None:
        SubElement(element, "skipped", {"message": clean(case.skipped)})
    elif not case.ok:
        kind = "LosesTooMuch" if case.is_loss else "NotEqual"
        failure = SubElement(element, "failure", {"message": clean(case.summary), "type": kind})
        lines = [
            f"{check.output}: error {number(check.error)}, bound {number(check.tolerance)},"
            f" {check.elements:,} numbers"
            for check in case.checks
            if not check.ok
        ]
        if case.exception is not None:
            lines = [case.exception]
        if command := repeat_command(report, case):
            lines.append(f"repeat: {command}")
        failure.text = clean("\n".join(lines))
    return element


def _unproved(report: Report, case: CaseReport) -> bool:
    """True if the verdict needs a case that was skipped."""
    return bool(report.unproved) and case.name == CALIBRATED and case.skipped is not None
