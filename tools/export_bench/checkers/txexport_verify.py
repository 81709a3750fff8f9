"""txexport: `txexport verify EXPORT --source CHECKPOINT`, by its exit code: 0 equal, 1 not, 2 untried.

The command is called within this process, which has its libraries loaded once for all entries.
"""

from importlib.metadata import version
from pathlib import Path

from click.testing import CliRunner
from worker import UnjudgedError, serve

from txexport.cli.main import main


def judge(folder: Path) -> str | None:
    """Run the command on an entry, which takes the export and the checkpoint, and nothing else."""
    result = CliRunner().invoke(
        main, ["verify", str(folder / "export"), "--source", str(folder / "checkpoint")]
    )
    if result.exit_code == 0:
        return None
    failed = [line for line in result.output.splitlines() if "FAILED" in line] or [result.output[-300:]]
    if result.exit_code == 1:
        return failed[0]
    raise UnjudgedError(failed[0])


if __name__ == "__main__":
    serve(
        judge, {name: version(name).partition("+")[0] for name in ("txexport", "transformers", "onnxruntime")}
    )
