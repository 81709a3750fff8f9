"""Triton's model repository, as its own protobuf reads it; the server itself is no package."""

from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as protobuf

PACKAGES = ["tritonclient"]
TYPES = {protobuf.TYPE_INT64: "int64", protobuf.TYPE_FP32: "float", protobuf.TYPE_BOOL: "bool"}


def ports(bundle: Path, task: str, arrays: dict[str, np.ndarray], model: str) -> dict[str, Any]:
    """`inputs` and `outputs` of a model of the repository, each a name, a type and dimensions, -1 for any."""
    text = (bundle / model / "config.pbtxt").read_text(encoding="utf-8")
    config = text_format.Parse(text, protobuf.ModelConfig())
    if (config.name, config.backend, config.max_batch_size) != (model, "onnxruntime", 0):
        raise ValueError(f"{model} is {config.name} for {config.backend}, batches {config.max_batch_size}")
    if not list((bundle / model / "1").glob("*.onnx")):
        raise ValueError(f"{model} has no version 1")
    return {
        kind: [[port.name, TYPES[port.data_type], list(port.dims)] for port in listed]
        for kind, listed in (("inputs", config.input), ("outputs", config.output))
    }
