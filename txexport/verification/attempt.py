"""One case attempted: its checks, or the exception that ended it, as a CaseReport."""

import time
from collections.abc import Callable

from txexport.errors import LibraryError, TxexportError, UnsupportedError
from txexport.verification.checks import NATIVE, CaseReport, SkipError, TensorCheck

Run = Callable[[], list[TensorCheck]]
CaseProgress = Callable[[str], None]  # called with the name of a case before it runs


def attempt(
    name: str, reference: str, run: Run, runtime: str | None = None, graphs: str = NATIVE
) -> CaseReport:
    """The report of the case that `run` checks. Raises UnsupportedError if memory does not suffice."""
    start = time.perf_counter()

    def report(
        checks: list[TensorCheck], exception: str | None = None, graph: str | None = None
    ) -> CaseReport:
        seconds = round(time.perf_counter() - start, 3)
        return CaseReport(name, reference, checks, exception, None, runtime, graphs, graph, seconds)

    try:
        return report(run())
    except SkipError as reason:
        return CaseReport(name, reference, skipped=str(reason), runtime=runtime, graphs=graphs)
    except LibraryError:
        raise
    except MemoryError:
        raise UnsupportedError(f"case '{name}' does not fit into this machine's memory") from None
    except Exception as error:  # any other exception is a failure of the bundle
        graph = next(iter(getattr(error, "__notes__", ())), None)  # of `runner_of`
        named = "" if isinstance(error, AssertionError | TxexportError) else f"{type(error).__name__}: "
        return report([], f"{named}{error}", graph)
