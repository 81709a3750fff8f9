"""Graphs as ONNX Runtime shows them to an execution provider."""

from pathlib import Path

import onnxruntime as ort

from txexport.errors import BundleError, first_line


def fold(path: Path, folder: Path) -> Path:
    """A copy in `folder` of the graph of a file, with functions inlined and constants folded.

    Large weights are in a file beside it. Raises BundleError if ONNX Runtime cannot load the graph.
    """
    options, result = ort.SessionOptions(), folder / "folded.onnx"
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(result)
    options.add_session_config_entry("session.disable_qdq_quant_qdq", "1")
    weights = "session.optimized_model_external_initializers"
    options.add_session_config_entry(f"{weights}_file_name", "folded.bin")
    options.add_session_config_entry(f"{weights}_min_size_in_bytes", "1024")
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own, of any kind
        raise BundleError(f"ONNX Runtime cannot load {path}: {first_line(error)}") from error
    return result
