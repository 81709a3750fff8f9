"""Standard tools applied to a bundle's graph, whose outputs must stay the same."""

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxslim
from onnx import version_converter
from onnxconverter_common import float16
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

PACKAGES = ["onnx", "onnxruntime", "onnxslim", "onnxconverter-common"]


def graph(bundle: Path, file: str) -> Path:
    """The path of a graph."""
    return bundle / "onnx" / file


def run(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The graph's outputs by name; inputs are cast to the types that the graph declares."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    halves = {port.name for port in session.get_inputs() if port.type == "tensor(float16)"}
    feeds = {name: array.astype(np.float16) if name in halves else array for name, array in arrays.items()}
    names = [port.name for port in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def changed(make: Callable[[Path], object], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The outputs of the graph that `make` writes to a path, its size in bytes and its nodes by type."""
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "graph.onnx"
        make(path)
        nodes: dict[str, int] = {}
        for node in onnx.load(path, load_external_data=False).graph.node:
            nodes[node.op_type] = nodes.get(node.op_type, 0) + 1
        sizes = sum(each.stat().st_size for each in Path(work).iterdir())
        return {**run(path, arrays), "nodes": nodes, "bytes": sizes}


def check(bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str) -> dict[str, Any]:
    """Opset and IR version of a graph after onnx's checker, with strict shape inference."""
    path = graph(bundle, file)
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    unknown = [port.name for port in inferred.graph.output if not port.type.tensor_type.HasField("shape")]
    return {"opset": model.opset_import[0].version, "ir": model.ir_version, "unknown": unknown}


def symbolic_shapes(bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str) -> dict[str, Any]:
    """The number of values whose shape ONNX Runtime's symbolic inference finds."""
    model = SymbolicShapeInference.infer_shapes(onnx.load(graph(bundle, file)), auto_merge=True)
    return {"values": len(model.graph.value_info)}


def convert_version(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str, opset: int
) -> dict[str, Any]:
    """The outputs after onnx's version converter."""
    model = version_converter.convert_version(onnx.load(graph(bundle, file)), opset)
    return changed(lambda path: onnx.save(model, path), arrays)


def slim(bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str) -> dict[str, Any]:
    """The outputs after onnxslim."""
    model = onnxslim.slim(onnx.load(graph(bundle, file)))
    return changed(lambda path: onnx.save(model, path), arrays)


def quantize_int8(bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str) -> dict[str, Any]:
    """The outputs after ONNX Runtime's dynamic quantisation with one scale a column."""
    source = graph(bundle, file)
    return changed(
        lambda path: quantize_dynamic(source, path, weight_type=QuantType.QInt8, per_channel=True), arrays
    )


def quantize_nbits(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str, bits: int, block: int
) -> dict[str, Any]:
    """The outputs after ONNX Runtime's weight quantisation to 4 or 8 bits."""
    quantizer = MatMulNBitsQuantizer(onnx.load(graph(bundle, file)), block_size=block, bits=bits)
    quantizer.process()
    return changed(lambda path: quantizer.model.save_model_to_file(str(path)), arrays)


def halve(bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str) -> dict[str, Any]:
    """The outputs after onnxconverter-common's conversion to float16; ids keep their type."""
    model = float16.convert_float_to_float16(copy.deepcopy(onnx.load(graph(bundle, file))))
    return changed(lambda path: onnx.save(model, path), arrays)


def run_graph(bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str) -> dict[str, np.ndarray]:
    """The outputs of a graph without changes."""
    return run(graph(bundle, file), arrays)
