"""Speed of bundles beside other software, in one run on one machine: ratios, JSON, and a plot.

python tools/bench/models.py [--only gpt2,t5] [--threads 2] [--json FILE] [--plot FILE.png]
python tools/bench/models.py --dtypes int8,int8-fast,int4,int4-128,bfloat16
python tools/bench/models.py --runtimes "txexport int8,ctranslate2 int8,openvino bfloat16"

Shapes are real ones with random weights in float32, generated here: BERT-base, GPT-2 124M, a Qwen2 of
0.5B, LFM2-350M, Mamba2-130M, Qwen3.5-0.8B, Granite-4-h-350M, T5-small and BART-base, of speech wav2vec2-base,
Whisper-base and -small, of images SegFormer-B0, Depth Anything small, Swin-tiny, YOLOS-tiny, DETR-R50,
RT-DETRv2-R18 and SAM-base, of both images and texts SmolVLM-256M and four layers of Qwen2-VL-2B; with
--layers, of fewer layers. A runtime takes part in every one of --dtypes that it supports, or in the one that
follows its name; the first one is the baseline.
Each measurement alternates between the runtimes, after one warm-up run of each, each turn in another
order; a ratio is the median of the turns' ratios, since machines are slower for seconds at a time. First
tokens are compared. Every runtime has a process of its own, and takes part where it is installed: here, or
with --python in another interpreter, such as one with other versions of its libraries:

python tools/bench/models.py --python optimum=OTHER/bin/python
python tools/bench/models.py --only wav2vec2,whisper-base,whisper-small --times 2 \
    --runtimes "txexport,txexport_openvino,openvino,optimum,exporter,ctranslate2,whisper_cpp float16"

`--json` records the machine and the versions beside the figures; docs/reference/speed.md shows the records in
tools/bench/measured, and `python tools/bench/measured.py` rewrites it.

A process's memory layout makes it a few hundredths faster or slower for as long as it runs: --starts N
restarts every process N times, and takes the medians over all of them.

Conversion to four bits takes minutes: --keep FOLDER stores the results for the next run.

Where other work keeps the cores busy, `--clock cpu --threads 1` counts processor time instead of wall time.
"""

import argparse
import contextlib
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path

from model_checkpoints import MODELS, SPEECH, STATES, VISION, make
from model_results import Result, Runs, plot

PAUSE = 1.2  # seconds: a library's threads spin for a while after a run, vLLM's for a second
# Runtime -> its module, and its number formats.
RUNTIMES = {
    "txexport": (
        "txexport",
        [
            "float32",
            "float16",
            "bfloat16",
            "int8",
            "int8-fast",
            "int4",
            "int4-fast",
            "int4-128",
            "int4-128-fast",
        ],
    ),
    "transformers": ("transformers", ["float32"]),
    "ctranslate2": ("ctranslate2", ["float32", "int8"]),
    "genai": ("onnxruntime_genai", ["float32", "int8", "int4"]),
    "optimum": ("optimum.onnxruntime", ["float32", "int8"]),
    "openvino": ("optimum.intel.openvino", ["float32", "bfloat16", "int8", "int4"]),
    "txexport_openvino": ("openvino", ["float32", "bfloat16"]),
    "llama_cpp": ("llama_cpp", ["float32", "int8", "int4"]),
    "vllm": ("vllm", ["float32", "bfloat16"]),
    "exporter": ("transformers.exporters.exporter_onnx", ["float32"]),
    "whisper_cpp": ("_pywhispercpp", ["float16", "int8"]),
}
FLOAT32 = "float32"
INSTRUCTIONS = ["avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "amx_int8"]


@dataclass(frozen=True)
class Case:
    """A batch of texts of `source` tokens, of sounds of `source` samples or frames, or of images of `source`
    by `wide` pixels, and its answer.

    With `ragged`, sounds are of a fifth of `source` to all of it, the first the longest.
    """

    title: str
    batch: int
    source: int
    new: int = 0
    beams: int = 1
    ragged: bool = False
    wide: int = 0


# Kind -> cases.
CASES = {
    "encode": [Case("1 x 128", 1, 128), Case("8 x 128", 8, 128)],
    "decode": [Case("prompt of 512", 1, 512, 1), Case("48 new after 32", 1, 32, 48)],
    "answer": [Case("8 x 64 -> 48, 1 beam", 8, 64, 48), Case("8 x 64 -> 48, 4 beams", 8, 64, 48, 4)],
    "frames": [
        Case("10 s", 1, 160_000),
        Case("8 x 10 s", 8, 160_000),
        Case("8 of 2 to 10 s", 8, 160_000, ragged=True),
    ],
    "pixels-224": [Case("8 x 224 x 224", 8, 224, wide=224)],
    "pixels-512": [Case("512 x 512", 1, 512, wide=512)],
    "pixels-518": [Case("518 x 518", 1, 518, wide=518)],
    "pixels-640": [Case("640 x 640", 1, 640, wide=640)],
    "pixels-800": [Case("800 x 1,056", 1, 800, wide=1056)],
    "pixels-1024": [Case("1,024 x 1,024", 1, 1024, wide=1024)],
    "prompts": [Case("a point", 1, 64, wide=64)],
    "look": [
        Case("an image, 1 token", 1, 512, 1, wide=512),
        Case("an image, 64 tokens", 1, 512, 64, wide=512),
    ],
    "transcribe": [Case("30 s -> 50, 1 beam", 1, 3000, 50), Case("30 s -> 50, 5 beams", 1, 3000, 50, 5)],
}

LONG_PROMPT = Case("prompt of 4,096", 1, 4096, 1)  # of models with states


class Worker:
    """A runtime in its own process."""

    def __init__(self, runtime: str, python: str, checkpoint: Path, folder: Path, threads: int):
        script = Path(__file__).with_name("workers.py")
        command = [python, script, runtime, checkpoint, folder, str(threads)]
        self.log = open(folder.with_suffix(".log"), "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        )
        answer = self._answer()
        self.error, self.versions = answer.get("error"), answer.get("versions", "")

    def run(self, case: dict) -> dict:
        """The seconds and the tokens of a case, or an error."""
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.log.seek(0)
        log = self.log.read().strip().splitlines() or ["no word"]
        return {"error": log[-1]}

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


def measure(name: str, case: dict, workers: dict[str, Worker], times: int, clock: str, runs: Runs) -> None:
    """Run a case on each runtime in turn, `times` times after a warm-up, and add the times to `runs`."""
    names, out = list(workers), set[str]()
    for attempt in range(times + 1):  # in varying order: a runtime may leave the next one a busier machine
        for runtime in random.Random(attempt).sample(names, len(names)) if attempt else names:
            if runtime in out:
                continue
            answer = workers[runtime].run(case)
            if "error" in answer:
                print(f"{name}: {runtime} does not take part: {answer['error']}")
                out.add(runtime)
                continue
            runs.tokens[runtime] = answer["tokens"]
            taken = runs.seconds.setdefault(runtime, [])
            if attempt:
                taken.append(answer[clock])
            time.sleep(PAUSE)


def run_model(
    name: str, runtimes: dict[str, str], options: argparse.Namespace, versions: dict[str, str]
) -> list[Result]:
    """Run every case of a model, on the runtimes of those interpreters; add their versions to `versions`."""
    *_, kind = MODELS[name]
    cases = [*CASES[kind], *([LONG_PROMPT] if name in STATES else [])]
    cases = [case for case in cases if any(part in case.title for part in options.case.split(","))]
    runs = [Runs() for _ in cases]
    results: list[Result] = []
    with contextlib.ExitStack() as stack:
        place = options.keep and options.keep / f"{name}{options.layers or ''}"
        place = place or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (place / "checkpoint").exists():
            make(name, place / "checkpoint", options.layers)
        for _ in range(options.starts):
            results = []
            with started(name, place, runtimes, options.threads) as workers:
                versions |= {runtime: worker.versions for runtime, worker in workers.items()}
                for case, all_of_it in zip(cases, runs, strict=True):
                    more = 3 if kind == "encode" else 1
                    task = asdict(case) | {"kind": kind}
                    measure(name, task, workers, options.times * more, options.clock, all_of_it)
                    if all_of_it.seconds:
                        tokens = 0 if kind in SPEECH + VISION else case.batch * case.new
                        results.append(all_of_it.result(f"{name}, {case.title}", tokens))
                        print(results[-1].line(), flush=True)
    return results


@contextlib.contextmanager
def started(
    name: str, place: Path, runtimes: dict[str, str], threads: int
) -> Generator[dict[str, Worker], None, None]:
    """Processes of the runtimes that can run the model in `place`, until the block ends."""
    workers = {}
    try:
        for runtime, python in runtimes.items():
            worker = Worker(runtime, python, place / "checkpoint", place / runtime.replace(" ", "-"), threads)
            if worker.error:
                print(f"{name}: {runtime} does not take part: {worker.error}", flush=True)
                worker.close()
            else:
                print(f"{name}: {runtime} on {worker.versions}", flush=True)
                workers[runtime] = worker
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


def installed(pythons: dict[str, str], wanted: list[str], dtypes: list[str]) -> dict[str, str]:
    """The runtimes that can be imported, each with its number format and its interpreter, in that order."""
    result = {}
    for name in wanted:
        runtime, *formats = name.split()
        module, known = RUNTIMES[runtime]
        python = pythons.get(runtime, sys.executable)
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode:
            print(f"{runtime} does not take part: {python} has no {module}")
            continue
        for dtype in formats or [dtype for dtype in dtypes if dtype in known]:
            result[runtime if dtype == FLOAT32 else f"{runtime} {dtype}"] = python
    return result


def machine(options: argparse.Namespace) -> dict:
    """The conditions of measurement: processor, instruction sets for products, threads, clock, date."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    instructions = [name for name in INSTRUCTIONS if name in facts.get("flags", "").split()]
    return {
        "processor": facts.get("model name") or platform.processor() or platform.machine(),
        "instructions": instructions,
        "threads": options.threads,
        "clock": options.clock,
        "layers": options.layers,
        "times": options.times * options.starts,
        "starts": options.starts,
        "only": options.only if options.only != ",".join(MODELS) else "",
        "day": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    """Make, convert and measure each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--case", default="", help="parts of cases' names, such as 512,1 beam")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES))
    parser.add_argument("--dtypes", default=FLOAT32, metavar="float32,int8")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--clock", choices=["elapsed", "cpu"], default="elapsed")
    parser.add_argument("--python", action="append", default=[], metavar="RUNTIME=PATH")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    pythons = dict(one.split("=", 1) for one in options.python)
    runtimes = installed(pythons, options.runtimes.split(","), options.dtypes.split(","))
    print(
        f"float32 but where named, {options.threads} threads, {options.clock} seconds: {', '.join(runtimes)}"
    )
    print("a star marks other tokens than the first's")
    results: list[Result] = []
    versions: dict[str, str] = {}
    for name in options.only.split(","):
        results += run_model(name, runtimes, options, versions)
    if options.json:
        record = machine(options) | {"versions": versions, "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
