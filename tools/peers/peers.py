"""Exports of other tools, made here and judged by `txexport verify FOLDER --source CHECKPOINT`.

    tools/peers/run [PEER ...]

Every peer exports the same models in float32, each in an environment of its own. The outcome is written to
tools/peers/results.json, and from it docs/reference/peers.md.
"""

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import peers_page

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "models"), str(ROOT / "graphs"), str(ROOT / "tools")]
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs/reference/peers.md"
SECONDS = 400  # of one export
SHIPPED = "models/pretrained"


@dataclass(frozen=True)
class Model:
    """A checkpoint: a folder that the project ships, or a seeded one of a model type."""

    name: str
    task: str  # optimum's word
    kind: str | None = None  # the model type of a seeded one
    config: tuple[tuple[str, int], ...] = ()

    @property
    def decodes(self) -> bool:
        """True for a model that writes."""
        return self.task.endswith("with-past")

    def checkpoint(self, folder: Path) -> Path:
        """Its folder, made under `folder` if it is a seeded one."""
        if self.kind is None:
            return ROOT / SHIPPED / self.name
        import tiny_checkpoint

        if not (folder / self.name).exists():
            tiny_checkpoint.save(folder / self.name, self.kind, **dict(self.config))
        return folder / self.name


WIDER = (  # sizes that kernels of grouped-query attention demand
    ("hidden_size", 64),
    ("num_attention_heads", 4),
    ("num_key_value_heads", 2),
    ("head_dim", 16),
)
EVEN = (  # encoder and decoder alike, as in every published one
    ("encoder_attention_heads", 4),
    ("decoder_attention_heads", 4),
    ("encoder_ffn_dim", 96),
    ("decoder_ffn_dim", 96),
)
LONG = (  # 30 s of sound, the only size that some tools take
    *EVEN,
    ("encoder_layers", 2),
    ("decoder_layers", 2),
    ("max_source_positions", 1500),
)
MODELS = [
    Model("proofreader", "text-classification"),
    Model("code-tagger", "token-classification"),
    Model("number-translator", "text2text-generation-with-past"),
    Model("python-completer", "text-generation-with-past"),
    Model("listener", "automatic-speech-recognition"),
    Model("roberta", "feature-extraction", "roberta"),
    Model("deberta-v2", "feature-extraction", "deberta-v2"),
    Model("modernbert", "feature-extraction", "modernbert"),
    Model("gpt2", "text-generation-with-past", "gpt2"),
    Model("mistral", "text-generation-with-past", "mistral", WIDER),
    Model("qwen3", "text-generation-with-past", "qwen3", WIDER),
    Model("gemma3_text", "text-generation-with-past", "gemma3_text", WIDER),
    Model("t5", "text2text-generation-with-past", "t5"),
    Model("bart", "text2text-generation-with-past", "bart", EVEN),
    Model("whisper", "automatic-speech-recognition-with-past", "whisper", LONG),
    Model("vit", "feature-extraction", "vit"),
]


def by_optimum(python: Path, model: Model, source: Path, out: Path) -> list[str | Path]:
    """The command of optimum-onnx."""
    return [python.with_name("optimum-cli"), "export", "onnx", "-m", source, "--task", model.task, out]


def by_mobius(python: Path, _model: Model, source: Path, out: Path) -> list[str | Path]:
    """The command of mobius."""
    return [python.with_name("mobius"), "build", "--config", source, "--dtype", "f32", out]


def by_genai(python: Path, _model: Model, source: Path, out: Path) -> list[str | Path]:
    """The command of onnxruntime-genai's builder."""
    builder = ["-m", "onnxruntime_genai.models.builder", "-m", "any"]
    return [python, *builder, "-i", source, "-o", out, "-p", "fp32", "-e", "cpu"]


def by_transformers(python: Path, model: Model, source: Path, out: Path) -> list[str | Path]:
    """The exporters of transformers, with a batch of two rows of different lengths."""
    return [python, __file__, "--transformers", "generation" if model.decodes else "one", source, out]


def by_txexport(python: Path, _model: Model, source: Path, out: Path) -> list[str | Path]:
    """Our own graphs for other clients, without a manifest, so that they are judged as other tools' are."""
    return [python, __file__, "--txexport", source, out]


PEERS: dict[str, tuple[str, Callable[[Path, Model, Path, Path], list[str | Path]]]] = {
    "optimum": ("optimum-onnx", by_optimum),
    "transformers": ("transformers", by_transformers),
    "mobius": ("mobius-onnx", by_mobius),
    "genai": ("onnxruntime-genai", by_genai),
    "txexport": ("txexport", by_txexport),
}


def export_with_transformers(kind: str, source: Path, out: Path) -> None:
    """Export as its documentation shows, from a padded batch."""
    import torch
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    from txexport.verification.traced import cases, inputs
    from txexport.verification.traced.cases import TracedCase
    from txexport.verification.traced.decoders import prompt, source_values
    from txexport.verification.traced.free_axes import accepts
    from txexport.verification.traced.originals import original

    judge = original(source)
    if kind == "one":
        sizes = cases.base_sizes(judge)
        main = judge.model.main_input_name
        taken = [main, "attention_mask"] if main == "input_ids" else [main]
        layout = next(
            one for one in inputs.layouts(taken) if accepts(judge, one, sizes, TracedCase("", {}, False, 0))
        )
        values = inputs.fill(layout, sizes, judge.facts, 0, True)
    elif judge.config.is_encoder_decoder:
        values = source_values(judge, 2, 11, 0, True)
    else:
        values = prompt(judge.facts, 2, 11, 0, "left")
        del values["position_ids"]
    exporter, settings = OnnxExporter(), OnnxConfig(dynamic=True)
    make = exporter.export if kind == "one" else exporter.export_for_generation
    feeds = {name: torch.from_numpy(array) for name, array in values.items()}
    make(judge.model, feeds, settings).save_pretrained(out)


def export_with_txexport(source: Path, out: Path) -> None:
    """Export, and write only the folder of graphs."""
    import txexport

    with tempfile.TemporaryDirectory() as folder:
        txexport.export(source, Path(folder, "bundle"), only="hub")
        shutil.copytree(Path(folder, "bundle/onnx"), out)


def exported(peer: str, python: Path, model: Model, source: Path, out: Path) -> tuple[float, str | None]:
    """The seconds of an export, and the reason why there is none."""
    command = PEERS[peer][1](python, model, source, out)
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=out.parent)
    except subprocess.TimeoutExpired:
        return SECONDS, f"no export in {SECONDS} s"
    seconds = time.perf_counter() - start
    if done.returncode == 0 and any(out.rglob("*.onnx")):
        return seconds, None
    lines = [line for line in done.stderr.splitlines() if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)]
    return seconds, plain(lines[-1] if lines else (done.stderr.strip().splitlines() or ["no graph"])[-1])


def plain(text: str) -> str:
    """A reason without this machine's paths and marks of tables, cut to a line."""
    text = re.sub(r"/\S*/", "", text).replace("|", "/").strip()
    return text if len(text) <= 160 else f"{text[:157]}..."


def judged(folder: Path, source: Path) -> dict:
    """The verdict on an export, and what was wrong first."""
    import txexport
    from txexport.errors import TxexportError

    try:
        report = txexport.verify(folder, source=source)
    except TxexportError as error:
        return {"verdict": "not judged", "reason": plain(str(error))}
    ran = [case for case in report.cases if case.skipped is None]
    errors = [check.error for case in ran if case.ok for check in case.checks]
    result = {
        "verdict": "wrong" if report.failed else "right",
        "cases": len(ran),
        "failed": [case.name for case in report.failed],
        "notes": report.notes,
        "error": max(errors, default=None),
    }
    if report.failed:
        first = report.failed[0]
        result["reason"] = plain(f"{first.name}: {first.summary}")
    return result


def bytes_of(folder: Path) -> int:
    """The bytes of the graphs that other clients open, and of their weights, once each."""
    files = [path for path in folder.rglob("*") if ".onnx" in path.name and "native" not in path.name]
    return sum(path.stat().st_size for path in files)


def first_pass(decoding: Any) -> Callable[[], object]:
    """A function that runs the encoder, if there is one, and reads a prompt, of a Decoding."""
    from txexport.verification.traced import steps

    case = decoding.plan()[0]
    source = decoding.source_of(case)
    values = steps.prompt(decoding.judge.facts, case.rows, case.pieces[0], 0, None)
    cache = {name: array.repeat(case.rows, 0) for name, array in decoding.empty.items()}
    return lambda: decoding.step_of(source)(**values, **cache)


def seconds_of(theirs: Path, ours: Path, source: Path) -> tuple[float, float] | None:
    """The median seconds of the same pass of two exports, in turn, after an encoder with the encoder's pass.

    None for a decoder over an encoder that the export lacks.
    """
    from txexport.verification.exports.decoding import Decoding
    from txexport.verification.exports.graphs import DecoderGraphs
    from txexport.verification.exports.layouts import opened
    from txexport.verification.exports.one_pass import OnePass
    from txexport.verification.traced.cases import TracedCase
    from txexport.verification.traced.originals import original

    judge = original(source)
    runs: list[Callable[[], object]] = []
    for place in (theirs, ours):
        graphs = opened(place, "cpu")
        if isinstance(graphs, DecoderGraphs):
            if graphs.reads_source and graphs.encoder is None:
                return None
            runs.append(first_pass(Decoding(judge, graphs)))
        else:
            one = OnePass(judge, graphs)
            runs.append(partial(graphs.run, one.values(TracedCase("", {}, False, 0))))
    times: list[list[float]] = [[], []]
    for _ in range(40):
        for run, taken in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def outcomes(peer: str, python: Path, checkpoints: Path, chosen: list[str]) -> Iterator[tuple[str, dict]]:
    """The outcome of each model by one peer, or of those that are chosen."""
    import txexport
    from txexport.errors import TxexportError

    for model in (one for one in MODELS if not chosen or one.name in chosen):
        source = model.checkpoint(checkpoints)
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours = Path(folder, "theirs"), Path(folder, "ours")
            seconds, reason = exported(peer, python, model, source, theirs)
            if reason is not None:
                yield model.name, {"verdict": "no export", "reason": reason}
                continue
            outcome = judged(theirs, source) | {"seconds": round(seconds, 1), "bytes": bytes_of(theirs)}
            if peer != "txexport" and outcome["verdict"] != "not judged":
                txexport.export(source, ours, only="hub")
                try:
                    outcome["times"] = seconds_of(theirs, ours, source)
                except (TxexportError, AssertionError):
                    outcome["times"] = None  # it does not run at the sizes that are timed
            yield model.name, outcome


def main() -> None:
    """Export and judge by the peers named as NAME=PYTHON; write the results and the page."""
    if sys.argv[1:2] == ["--transformers"]:
        return export_with_transformers(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    if sys.argv[1:2] == ["--txexport"]:
        return export_with_txexport(Path(sys.argv[2]), Path(sys.argv[3]))
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    chosen = [argument for argument in sys.argv[1:] if "=" not in argument]
    with tempfile.TemporaryDirectory() as checkpoints:
        for argument in (one for one in sys.argv[1:] if "=" in one):
            peer, _, python = argument.partition("=")
            package = PEERS[peer][0]
            shown = subprocess.run(
                [python, "-c", f"from importlib.metadata import version; print(version('{package}'))"],
                capture_output=True,
                text=True,
                check=True,
            )
            models = results[peer]["models"] if chosen else {}
            entry: dict = {"package": package, "version": shown.stdout.strip(), "models": models}
            for name, outcome in outcomes(peer, Path(python), Path(checkpoints), chosen):
                print(f"{peer} {name}: {outcome['verdict']} {outcome.get('reason', '')}", flush=True)
                entry["models"][name] = outcome
            results[peer] = entry
            results["judge"] = {name: version(name) for name in ("transformers", "torch", "onnxruntime")}
            RESULTS.write_text(f"{json.dumps(results, indent=1)}\n", encoding="utf-8")
    PAGE.write_text(peers_page.page(results, [model.name for model in MODELS]), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
