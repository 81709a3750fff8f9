"""Triton's model repository, read by its own protobuf; the server is no Python package."""

from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as protobuf

PACKAGES = ["tritonclient"]
TYPES = {protobuf.TYPE_INT64: "int64", protobuf.TYPE_FP32: "float", protobuf.TYPE_BOOL: "bool"}


def ports(bundle: Path, task: str, arrays: dict[str, np.ndarray], model: str) -> dict[str, Any]:
    """`inputs` and `outputs` of a model of the repository: name, type and dimensions, -1 for any.

    `batch` is the maximum number of rows that Triton batches, as the first dimension; 0 for none. `preferred`
    are preferred batch sizes, `delay` the microseconds that a request may wait.
    """
    text = (bundle / model / "config.pbtxt").read_text(encoding="utf-8")
    config = text_format.Parse(text, protobuf.ModelConfig())
    if (config.name, config.backend) != (model, "onnxruntime"):
        raise ValueError(f"{model} is {config.name} for {config.backend}")
    if not list((bundle / model / "1").glob("*.onnx")):
        raise ValueError(f"{model} has no version 1")
    rows = [-1] if config.max_batch_size else []
    dynamic = config.dynamic_batching
    batching = {
        "batch": config.max_batch_size,
        "preferred": list(dynamic.preferred_batch_size),
        "delay": dynamic.max_queue_delay_microseconds,
        "instances": [[one.kind, one.count] for one in config.instance_group],
    }
    return batching | {
        kind: [[port.name, TYPES[port.data_type], [*rows, *port.dims]] for port in listed]
        for kind, listed in (("inputs", config.input), ("outputs", config.output))
    }
