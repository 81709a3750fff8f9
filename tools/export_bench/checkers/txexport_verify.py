"""txexport: `txexport verify EXPORT --source CHECKPOINT`, by its exit code: 0 equal, 1 not, 2 untried."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from worker import UnjudgedError, serve

SECONDS = 600


def judge(folder: Path) -> str | None:
    """Run the command on an entry; it is not told anything else."""
    command = [
        sys.executable,
        "-m",
        "txexport",
        "verify",
        folder / "export",
        "--source",
        folder / "checkpoint",
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    output = (run.stdout + run.stderr).strip()
    if run.returncode == 0:
        return None
    if run.returncode == 1:
        return output[-300:]
    raise UnjudgedError(output[-300:])


if __name__ == "__main__":
    try:
        versions = {"txexport": version("txexport")}
    except PackageNotFoundError:
        versions = {"txexport": "this checkout"}
    serve(judge, versions)
