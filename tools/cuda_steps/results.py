"""Results that outlive the process: one JSON file, rewritten after each of them."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

AGAIN = 75  # exit code of an unfinished step: EX_TEMPFAIL


class Results:
    """The results of each step by name."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "results.json"
        self.steps: dict[str, dict[str, Any]] = (
            json.loads(self.file.read_text()) if self.file.exists() else {}
        )

    def put(self, step: str, name: str, value: Any) -> None:
        """Store a value; the file is replaced atomically."""
        self.steps.setdefault(step, {})[name] = value
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.steps, indent=1) + "\n")
        part.replace(self.file)

    def resume(self, step: str, names: Iterable[str], run: Callable[[str], Any], seconds: float) -> int:
        """Run the missing entries until the time is over; return 0 where nothing is left, else AGAIN.

        An exception is stored as the entry's error, and reported.
        """
        names, began = list(names), time.monotonic()
        left = [name for name in names if name not in self.steps.get(step, {})]
        for place, name in enumerate(left):
            if time.monotonic() - began > seconds:
                print(f"{step}: {len(left) - place} of {len(names)} left; run it again", flush=True)
                return AGAIN
            try:
                value = run(name)
            except Exception as error:
                value = {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}
            self.put(step, name, value)
            print(f"{step}: {name}: {json.dumps(value)}", flush=True)
        return 0
