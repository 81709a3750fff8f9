"""Graphs of a number format that rounds activations, without that: what they then compute is exact.

Rounding makes large errors of small ones, so that two right runtimes differ by a hundredth. Without it a
graph computes with the numbers that are stored, and is held to what float32 can promise.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import onnx


@contextmanager
def unrounded(folder: Path, files: Mapping[str, Path], data: Iterable[str]) -> Iterator[dict[str, Path]]:
    """The graphs of a bundle's folder by role, without rounding, beside the files of weights, meanwhile."""
    with tempfile.TemporaryDirectory(prefix="txexport-") as made:
        for name in data:
            place = Path(made) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            _lay(folder / name, place)
        result = {}
        for role, file in files.items():
            model = onnx.load(file, load_external_data=False)
            for body in (model.graph, *model.functions):
                without_rounding(body)
            result[role] = Path(made) / file.relative_to(folder)
            result[role].parent.mkdir(parents=True, exist_ok=True)
            onnx.save(model, result[role])
        yield result


def _lay(file: Path, place: Path) -> None:
    """The same file in another place: a second name of it where the system allows that, and else a copy."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


def without_rounding(body: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Take numbers that are rounded to integers and back as they are, here and in branches."""
    steps = {node.output[0]: node for node in body.node if node.op_type == "QuantizeLinear"}
    exact = {
        node.output[0]: steps[node.input[0]].input[0]
        for node in body.node
        if node.op_type == "DequantizeLinear" and node.input[0] in steps
    }
    gone = {node.output[0] for node in body.node if node.output[:1] and node.output[0] in (*exact, *steps)}
    left = [node for node in body.node if not (node.output[:1] and node.output[0] in gone)]
    for node in left:
        node.input[:] = [exact.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                without_rounding(inner)
    del body.node[:]
    body.node.extend(left)
