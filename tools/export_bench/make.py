"""Makes the entries: checkpoint, export and verdict, each judged before it is kept."""

import json
import shutil
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
import torch
from helpers.other_tools import torch_export
from safetensors.numpy import load_file, save_file

from export_bench import (
    judge,
    rows_bert,
    rows_decoders,
    rows_encoders,
    rows_gpt2,
    rows_healthy,
    rows_others,
    rows_translators,
    runs,
)
from export_bench.edits import Graphs
from export_bench.entry import EQUAL, KINDS, Entry
from export_bench.sources import ENCODER, SOURCES, SPEECH, save

WRONG_FILES = (rows_bert, rows_encoders, rows_gpt2, rows_decoders, rows_translators, rows_others)
WRONG_ROWS = tuple(row for file in WRONG_FILES for row in file.ROWS)
ENTRIES = {one.name: one for one in (*rows_healthy.ROWS, *WRONG_ROWS)}
GRAPHS = ("model.onnx", "encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx")
BOTH = {"rope_theta", "rope_scaling"}  # settings that config.json also has within rope_parameters


class UnjudgedError(Exception):
    """An entry that is not what it is stated to be."""


class Maker:
    """Makes entries; keeps the checkpoints and originals that several of them share."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.seed = folder, seed
        self.models: dict[str, Any] = {}

    def make(self, entry: Entry, out: Path) -> None:
        """Write one entry to `out`/NAME; raises UnjudgedError if its verdict does not hold."""
        target = out / entry.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.checkpoint(entry.source), target / "checkpoint")
        graphs = self._graphs(entry)
        if entry.graph and not entry.options.get("native"):
            entry.graph(graphs)
        (target / "export").mkdir()
        for name in ("config.json", "generation_config.json", "tokenizer.json"):
            if (target / "checkpoint" / name).is_file():
                shutil.copy(target / "checkpoint" / name, target / "export")
        for name, model in graphs.items():
            del model.graph.value_info[:]
            external = {"save_as_external_data": True, "location": f"{name}_data", "size_threshold": 64}
            onnx.save(model, target / "export" / name, **(external if entry.options.get("external") else {}))
        record = self._judged(entry, target / "export")
        (target / "entry.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    def checkpoint(self, source: str) -> Path:
        """The folder of a source's checkpoint, written once."""
        folder = self.folder / "checkpoints" / source
        if not folder.is_dir():
            save(source, folder, self.seed)
        return folder

    def _graphs(self, entry: Entry) -> Graphs:
        """The graphs for other clients of the checkpoint, or of its changed copy."""
        import txexport

        if entry.options.get("torch"):
            return {"model.onnx": self._traced(entry)}
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            source = self._changed(entry, Path(folder, "checkpoint"))
            options = {name: one for name, one in entry.options.items() if name == "opset"}
            if entry.options.get("native"):
                txexport.export(source, Path(folder, "bundle"), only="native", **options)
                return {"model.onnx": _inlined(Path(folder, "bundle", "onnx", "model_native.onnx"), entry)}
            txexport.export(source, Path(folder, "bundle"), only="hub", single_file=True, **options)
            files = Path(folder, "bundle", "onnx")
            names = [name for name in (*GRAPHS, *entry.keep) if (files / name).is_file()]
            graphs = {name: onnx.load(files / name) for name in names}
        if SOURCES[entry.source].kind == SPEECH:
            for name in graphs.keys() - {"encoder_model.onnx"}:
                _free_length(graphs[name])
        if not entry.options.get("pooled"):
            for model in graphs.values():
                _without_output(model, "pooler_output")
        return graphs

    def _traced(self, entry: Entry) -> onnx.ModelProto:
        """The graph that PyTorch's own exporter makes of an encoder, without notes of this machine."""
        model = self._original(entry.source)
        inputs = {
            name: torch.from_numpy(one)
            for name, one in runs.inputs_of(runs.RAGGED, ENCODER, model.config).items()
        }
        outputs = ["logits"] if hasattr(model.config, "num_labels") and "For" in type(model).__name__ else []
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            file = torch_export(model, Path(folder, "model.onnx"), inputs, outputs or ["last_hidden_state"])
            result = onnx.load(file)
        result.ClearField("metadata_props")
        for one in result.graph.node:
            one.ClearField("metadata_props")
            one.ClearField("doc_string")
        return result

    def _original(self, source: str) -> Any:
        """The model of a source's checkpoint, loaded once."""
        if source not in self.models:
            self.models[source] = runs.original(self.checkpoint(source))
        return self.models[source]

    def _changed(self, entry: Entry, folder: Path) -> Path:
        """The checkpoint that is exported: the entry's own, or a copy with other settings or weights."""
        right = self.checkpoint(entry.source)
        if not entry.config and not entry.weights:
            return right
        shutil.copytree(right, folder)
        file = folder / "config.json"
        config = _merged(json.loads(file.read_text(encoding="utf-8")), entry.config)
        if BOTH & entry.config.keys():
            rope = config["rope_scaling"] or {"rope_type": "default"}
            config["rope_parameters"] = rope | {"rope_theta": config["rope_theta"]}
        file.write_text(json.dumps(config), encoding="utf-8")
        if entry.weights:
            tensors = load_file(folder / "model.safetensors")
            entry.weights(tensors)
            save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder

    def _judged(self, entry: Entry, export: Path) -> dict[str, Any]:
        """The record for entry.json; the verdict is checked with transformers as the judge."""
        kind = SOURCES[entry.source].kind
        model = self._original(entry.source)
        record: dict[str, Any] = {"name": entry.name, "source": entry.source, "model": kind}
        record |= {"verdict": entry.verdict, "what": entry.what}
        if entry.verdict == EQUAL:
            worst = max(
                (judge.difference(model, export, kind, case) for case in runs.cases(kind, model.config)),
                key=lambda one: one.part,
            )
            if not worst.part < judge.EQUAL:
                raise UnjudgedError(f"{entry.name} is stated to be equal, but: {worst}")
            return record
        shown = judge.difference(model, export, kind, entry.shown)
        if not shown.part > judge.WRONG:
            raise UnjudgedError(f"{entry.name} is stated to be wrong, but at {entry.shown}: {shown}")
        record |= {"kind": entry.kind, "about": KINDS[entry.kind], "shown": entry.shown.to_dict()}
        record |= {"output": shown.output, "difference": f"{shown.part:.1e}", "why": shown.why}
        return record | {"seen": list(entry.seen)}


def make(out: Path, names: Iterable[str] = (), seed: int = 0) -> list[str]:
    """Write the entries of these names, or all, to the folder `out`; the names."""
    warnings.filterwarnings("ignore")
    out.mkdir(parents=True, exist_ok=True)
    chosen = tuple(names) or tuple(ENTRIES)
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(Path(folder), seed)
        for name in chosen:
            maker.make(ENTRIES[name], out)
    return list(chosen)


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Settings with others in their place, group by group where both are groups."""
    both = {
        name: _merged(old[name], one) if isinstance(one, dict) and isinstance(old.get(name), dict) else one
        for name, one in new.items()
    }
    return old | both


def _inlined(file: Path, entry: Entry) -> onnx.ModelProto:
    """A graph of functions, changed by the entry as the tests' mutations change it, and flattened."""
    model = onnx.load(file)
    entry.graph({file.name: model})
    result = onnx.inliner.inline_local_functions(model)
    _without_output(result, "pooler_output")
    return result


def _free_length(model: onnx.ModelProto) -> None:
    """Name the axis of encoder vectors, which is of one size in Whisper, as optimum names it."""
    for one in (*model.graph.input, *model.graph.output):
        if "encoder" in one.name:
            axes = one.type.tensor_type.shape.dim
            axes[len(axes) - 2].dim_param = "encoder_sequence_length"


def _without_output(model: onnx.ModelProto, name: str) -> None:
    """Remove an output, with the nodes that only it needs."""
    left = [one for one in model.graph.output if one.name != name]
    if len(left) == len(model.graph.output):
        return
    del model.graph.output[:]
    model.graph.output.extend(left)
    needed = {one.name for one in left}
    nodes = []
    for one in reversed(model.graph.node):
        if needed & set(one.output):
            nodes.append(one)
            needed |= set(one.input)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    weights = [one for one in model.graph.initializer if one.name in needed]
    del model.graph.initializer[:]
    model.graph.initializer.extend(weights)
