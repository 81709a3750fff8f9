"""Sizes, masks and sessions for attention of less than quadratic cost."""

import onnx
import onnxruntime as ort
import torch

W, N, H, L = 24, 4, 6, 40
SIZES = W, N, H
LENGTHS = [1, 2, 3, 4, 5, 13, 21, 40]


def padding(length: int) -> torch.Tensor:
    """A row without padding, one padded on the right, one padded on the left and in its middle."""
    mask = torch.ones(3, length, dtype=torch.int64)
    mask[1, (length + 1) // 2 :] = 0
    mask[2, : length // 3] = 0
    mask[2, length // 2] = length < 3
    return mask


def marks(length: int) -> torch.Tensor:
    """Global tokens: two, two of which one is padding, none."""
    chosen = torch.zeros(3, length, dtype=torch.int64)
    chosen[0, [0, length // 2]] = 1
    chosen[1, [length // 4, -1]] = 1
    return chosen


def session_of(model: onnx.ModelProto, optimised: bool = True) -> ort.InferenceSession:
    """A session of a graph, unoptimised by default."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
