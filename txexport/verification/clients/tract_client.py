"""tract: a graph as it lies in a bundle, its inputs' shapes told before, as its documentation has it."""

from pathlib import Path
from typing import Any

import numpy as np
import tract

PACKAGES = ["tract"]
TYPES = {"int64": "i64", "float32": "f32"}


def forward(bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str) -> dict[str, Any]:
    """The outputs of a graph for inputs by name: by their places, "0" and so on, for it has other names."""
    model = tract.onnx().load(bundle / file)
    names = [model.input_name(i) for i in range(model.input_count())]
    for i, name in enumerate(names):
        shape, kind = arrays[name].shape, TYPES[arrays[name].dtype.name]
        model.set_input_fact(i, ",".join([*map(str, shape), kind]))
    outputs = model.into_model().into_runnable().run([arrays[name] for name in names])
    return {str(i): tensor.to_numpy() for i, tensor in enumerate(outputs)}
