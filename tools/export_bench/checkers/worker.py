"""The part of a checker that talks to the scorer: entries' folders in, one line of JSON out for each."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

ACCEPTED, ALARM, UNJUDGED = "accepted", "alarm", "unjudged"


class UnjudgedError(Exception):
    """The checker has no way to judge an entry, which is neither right nor wrong by it."""


def serve(judge: Callable[[Path], str | None], versions: dict[str, str]) -> None:
    """Judge the folders of the arguments; `judge` returns why an export is not accepted, or None.

    An error of the library that a judge runs is an alarm: its user sees that the export does not pass.
    """
    print(json.dumps({"versions": versions}), flush=True)
    for folder in map(Path, sys.argv[1:]):
        start = time.perf_counter()
        try:
            why = judge(folder)
            outcome = ACCEPTED if why is None else ALARM
        except UnjudgedError as error:
            outcome, why = UNJUDGED, str(error)
        except Exception as error:
            outcome, why = ALARM, f"{type(error).__name__}: {error}"
        why = " ".join((why or "").replace(str(folder), "").split())[:300]
        seconds = round(time.perf_counter() - start, 2)
        line = {"entry": folder.name, "outcome": outcome, "why": why, "seconds": seconds}
        print("\n" + json.dumps(line), flush=True)
