"""Verify and measure on a GPU, in steps of minutes; each step can be stopped and resumed.

pack and unpack transfer the wheels that the other machine lacks; check describes the machine; verify
verifies every row of the tests, captured and float16 the graphs of --for cuda; bench measures; report writes
report.json and report.md to the state folder. A step that is not done when --minutes are over exits with 75.
--dry-run uses the CPU.

empty needs no GPU, but gcc: it runs each family over a CUDA that computes nothing, and compares what
ONNX Runtime's provider refuses, copies and captures with the last counts; --write replaces those of rows
that ran.
"""

import argparse
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from cuda_steps import packing
from cuda_steps.results import Results

ROOT = Path(__file__).parent.parent.parent
STEPS = ("pack", "unpack", "check", "verify", "captured", "float16", "bench", "report", "empty")


def check(device: str) -> dict[str, Any]:
    """A description of the machine. Raises SystemExit where the device cannot run a graph."""
    import onnxruntime as ort
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("error: PyTorch sees no CUDA device here; --dry-run takes the CPU")
    if f"{device.upper()}ExecutionProvider" not in ort.get_available_providers():
        raise SystemExit(
            f"error: ONNX Runtime {ort.__version__} here has no {device}; carry one: tools/cuda pack, unpack"
        )
    named = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU, a dry run"
    return {
        "name": named,
        "python": platform.python_version(),
        "onnxruntime": ort.__version__,
        "torch": torch.__version__,
    }


def unpack(state: Path) -> int:
    """Store the pieces that were carried, and install them once all are there."""
    missing = packing.join(state / "pieces", state / "kept", state / "joined")
    if missing:
        print(f"pieces {', '.join(map(str, missing))} are missing; carry them, and run this again")
        return 0
    packing.install(state / "joined", state / "site", ROOT / "pyproject.toml")
    return 0


def prove(step: str, names: list[str], options: argparse.Namespace, results: Results, device: str) -> int:
    """Verify the remaining rows; return 1 where one is not equal."""
    from cuda_steps import proving

    def proved(name: str) -> dict[str, Any]:
        return proving.prove(name, device, *proving.PROOFS[step])

    code = results.resume(step, names, proved, 60 * options.minutes)
    bad = [name for name in names if not results.steps.get(step, {}).get(name, {"ok": True}).get("ok")]
    return code or int(bool(bad))


def empty(options: argparse.Namespace) -> int:
    """Count over the empty CUDA, in a process of its own."""
    from cuda_steps import empty_cuda

    folder = options.state / "empty"
    empty_cuda.prepare(folder, ROOT / "constraints.txt")
    command = [sys.executable, "-m", "cuda_steps.counting", options.state, "--minutes", options.minutes]
    command += ["--only", options.only] if options.only else []
    command += ["--write"] if options.write else []
    return subprocess.run(list(map(str, command)), env=empty_cuda.environment(folder)).returncode


def bench(options: argparse.Namespace, results: Results, device: str) -> int:
    """Measure the device's bandwidth, and every model in every selected dtype."""
    from cuda_steps import speed

    def run(name: str) -> dict[str, Any]:
        return speed.limit(device) if name == "limit" else speed.compare(name, device, options.layers)

    models = [name for name in speed.NAMES if not options.only or options.only in name]
    return results.resume("bench", ["limit", *models], run, 60 * options.minutes)


def main() -> None:
    """Run a step."""
    parser = argparse.ArgumentParser(
        prog="tools/cuda", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--state", type=Path, default=ROOT / ".cuda")
    parser.add_argument("--dry-run", action="store_true", help="the same steps on the CPU")
    parser.add_argument("--only", help="rows or models whose name has this")
    parser.add_argument("--layers", type=int, help="bench models of so many")
    parser.add_argument("--minutes", type=float, default=8, help="after which a step begins nothing more")
    parser.add_argument("--python", default="3.12", help="the other machine's, for pack")
    parser.add_argument("--write", action="store_true", help="replace the counts of empty")
    options = parser.parse_args()
    device, results = "cpu" if options.dry_run else "cuda", Results(options.state)
    if options.step == "pack":
        packing.pack(options.state, options.python, ROOT / "constraints.txt")
    elif options.step == "unpack":
        sys.exit(unpack(options.state))
    elif options.step == "check":
        results.put("check", "machine", check(device))
    elif options.step == "empty":
        sys.exit(empty(options))
    elif options.step == "bench":
        sys.exit(bench(options, results, device))
    else:
        from cuda_steps import proving, reporting

        if options.step == "report":
            wanted = {step: len(proving.rows_of(step)) for step in proving.PROOFS}
            for path in reporting.write(results.steps, options.state, wanted):
                print(path)
            return
        names = [name for name in proving.rows_of(options.step) if not options.only or options.only in name]
        sys.exit(prove(options.step, names, options, results, device))


if __name__ == "__main__":
    main()
