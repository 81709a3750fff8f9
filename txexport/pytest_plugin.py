"""A pytest plugin: the fixture `assert_parity`, and `--parity-report FILE` for a report of its results.

PyTorch and ONNX Runtime are imported only when a test asserts parity.
"""

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from txexport.errors import InputError, TxexportError, counted

if TYPE_CHECKING:
    from txexport.runtime import Model
    from txexport.verification import Report

MOST = 5  # failed cases in a message
FOUND = pytest.StashKey[list[dict]]()  # the reports of a test as JSON values
ATTRIBUTE = "txexport_parity"  # the same on pytest's report, which passes from worker to controller


class AssertParity:
    """The fixture `assert_parity`: a call verifies a bundle, and fails the test unless it is equal."""

    def __init__(self, found: list[dict]):
        self._found = found

    def __call__(
        self,
        bundle_or_folder: "Model | str | Path",
        *,
        source: str | Path | None = None,
        adapter: str | Path | None = None,
        reference: str | None = None,
        runtime: str | Sequence[str] = "onnxruntime",
        cases: str | Sequence[str] = "full",
        allow_edited: bool = False,
    ) -> "Report":
        """Verify a bundle, given as a folder or a loaded model; the arguments are those of `txexport.verify`.

        Fails the test if the bundle is not equal to its original or cannot be verified. The message has the
        failed cases and the commands that repeat them.
        """
        __tracebackhide__ = True
        from txexport.verification import verify
        from txexport.verification.environment import quiet_references

        bundle = bundle_or_folder
        folder = bundle if isinstance(bundle, str | Path) else bundle.folder
        try:
            with quiet_references():
                report = verify(
                    folder,
                    source=source,
                    adapter=adapter,
                    reference=reference,
                    runtime=runtime,
                    cases=cases,
                    allow_edited=allow_edited,
                )
            self._found.append(report.to_dict())
            message = None if report.ok else _message(report)
        except TxexportError as error:
            message = f"{folder} could not be tried: {error}"
        if message is not None:
            pytest.fail(message, pytrace=False)  # outside of `except`, whose error would be shown too
        return report


def _message(report: "Report") -> str:
    from txexport.verification.reports.facts import unproved_reasons
    from txexport.verification.reports.repeat import repeat_command
    from txexport.verification.reports.views import reference_and_runtime

    lines = [f"{report.bundle} is {report.verdict} {report.scope}"]
    if not report.failed:
        return f"{lines[0]}: {'; '.join(unproved_reasons(report)) or 'nothing was compared'}"
    lines.append(f"{len(report.failed)} of {len(report.cases)} cases failed:")
    for case in report.failed[:MOST]:
        lines += [
            f"  {case.name} ({reference_and_runtime(report, case)}): {case.summary}",
            f"    {repeat_command(report, case)}",
        ]
    if len(report.failed) > MOST:
        lines.append(f"  and {len(report.failed) - MOST} more")
    return "\n".join(lines)


@pytest.fixture
def assert_parity(request: pytest.FixtureRequest) -> AssertParity:
    """A function that fails the test unless a bundle computes what its original computes in PyTorch."""
    return AssertParity(request.node.stash.setdefault(FOUND, []))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --parity-report."""
    parser.getgroup("txexport").addoption(
        "--parity-report",
        metavar="FILE",
        help="Write the reports of assert_parity to FILE: .json, .md, .xml (JUnit) or .html.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect reports if a file was named; with several workers, in the controller."""
    path = config.getoption("--parity-report")
    if path is None or hasattr(config, "workerinput"):
        return
    from txexport.verification import reports

    try:
        reports.check(path)
    except InputError as error:
        raise pytest.UsageError(f"--parity-report: {error}") from None
    config.pluginmanager.register(_Collector(Path(path).absolute()), "txexport-parity-report")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach a test's reports to its outcome, as text, which passes between processes."""
    report = yield
    if report.when == "teardown" and item.stash.get(FOUND, None):
        setattr(report, ATTRIBUTE, json.dumps(item.stash[FOUND]))
    return report


class _Collector:
    """The reports of all tests of a run, for one file."""

    def __init__(self, path: Path):
        self.path, self.found = path, list[dict[str, Any]]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.found += json.loads(getattr(report, ATTRIBUTE, "[]"))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, even without reports: an older file would be taken for this run's."""
        if session.config.option.collectonly:
            return
        from txexport.verification import Report, reports

        reports.write([Report.from_dict(values) for values in self.found], self.path)

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print the file's path."""
        terminalreporter.write_line(f"parity of {counted(len(self.found), 'bundle')}: {self.path}")
