"""What lies in a bundle against what its checkpoint says it must hold: no model is run."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx.external_data_helper import ExternalDataInfo

from txexport.bundle import MANIFEST, WEIGHTS, Manifest
from txexport.checkpoint import Checkpoint, sha256
from txexport.families import Resolved
from txexport.parity.report import TensorCheck, compare
from txexport.parity.runtimes.runtime import ports
from txexport.spec import ModelSpec
from txexport.spec_json import from_dict


def check_weights(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
) -> list[TensorCheck]:
    """Every number of every weight that a graph points to, against the checkpoint; they must be equal.

    Cases of tokens read few rows of a large table, so they cannot prove the others.
    """
    checked: dict[tuple, TensorCheck] = {}
    for graph in manifest.graphs.values():
        proto = onnx.load(folder / graph.file, load_external_data=False)
        consumed = {name for node in proto.graph.node for name in node.input}
        for tensor in proto.graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                if tensor.data_type != onnx.TensorProto.INT64:
                    raise AssertionError(f"{graph.file} holds weights of its own: {tensor.name}")
                continue
            if tensor.name not in consumed:
                raise AssertionError(f"{graph.file} does not use {tensor.name}")
            place = ExternalDataInfo(tensor)
            key = (tensor.name, place.location, place.offset)
            if key in checked:
                continue
            weight = resolved.weights[tensor.name]
            if tuple(tensor.dims) != weight.shape:
                raise AssertionError(f"{tensor.name} is {tuple(tensor.dims)}, expected {weight.shape}")
            with (folder / place.location).open("rb") as file:
                file.seek(place.offset or 0)
                pairs = ((_read(file, rows), rows) for rows in weight.rows(checkpoint))
                checked[key] = compare(tensor.name, pairs, 0.0)
    held = {resolved.weights[check.output].key for check in checked.values()}
    missing = [name for name, weight in resolved.weights.items() if weight.key not in held]
    if missing:
        raise AssertionError(f"no graph holds {', '.join(missing)}")
    return list(checked.values())


def _read(file, like: np.ndarray) -> np.ndarray:
    found = np.fromfile(file, "<f4", like.size)
    return found.reshape(like.shape) if found.size == like.size else found


def check_manifest(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
) -> list[TensorCheck]:
    """Raise AssertionError where txexport.json, the graphs, the copied files and the checkpoint disagree."""
    for said in _contradictions(folder, manifest, checkpoint, resolved):
        raise AssertionError(said)
    return [TensorCheck(MANIFEST, 1, 0.0, 0.0)]


def _contradictions(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
) -> Iterator[str]:
    if from_dict(ModelSpec, manifest.spec) != resolved.spec:
        yield "txexport.json: spec is not that of the checkpoint"
    if (manifest.model_type, manifest.task) != (resolved.model_type, resolved.task):
        yield "txexport.json: model_type or task is not that of the checkpoint"
    if sha256(folder / WEIGHTS) != manifest.weights_sha256:
        yield f"{WEIGHTS} is not the file that was exported"
    stacks = {"encoder": resolved.spec.encoder, "decoder": resolved.spec.decoder}
    if resolved.spec.towers is not None:
        stacks = {"text": resolved.spec.towers.text}
    limits = {name: stack.limit for name, stack in stacks.items() if stack is not None}
    if manifest.limits != limits:
        yield f"txexport.json: limits are {manifest.limits}, expected {limits}"
    for role, graph in manifest.graphs.items():
        proto = onnx.load(folder / graph.file, load_external_data=False)
        if graph.inputs != ports(proto.graph.input):
            yield f"txexport.json: inputs of {role} are not those of the graph"
        if graph.outputs != ports(proto.graph.output):
            yield f"txexport.json: outputs of {role} are not those of the graph"
        if manifest.opset not in [entry.version for entry in proto.opset_import if not entry.domain]:
            yield f"txexport.json: opset {manifest.opset} is not that of {role}"
    for name, path in checkpoint.companions().items():
        copy = folder / name
        if not copy.is_file() or sha256(copy) != sha256(path):
            yield f"{name} is not the checkpoint's"
    for name in manifest.companions.keys() - checkpoint.companions().keys():
        made = folder / name
        if not made.is_file() or sha256(made) != manifest.companions[name]:
            yield f"{name} is not the file that was exported"


CHECKS = {"every weight": check_weights, "manifest and copied files": check_manifest}
