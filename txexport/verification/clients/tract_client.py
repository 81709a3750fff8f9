"""tract: a graph of a bundle, with the shapes of inputs set first, as its documentation says."""

from pathlib import Path
from typing import Any

import numpy as np
import tract

PACKAGES = ["tract"]
TYPES = {"int64": "i64", "float32": "f32"}


def forward(bundle: Path, task: str, arrays: dict[str, np.ndarray], file: str) -> dict[str, Any]:
    """The outputs of a graph for inputs by name; outputs by position, as "0", since tract renames them."""
    model = tract.onnx().load(bundle / file)
    names = [model.input_name(i) for i in range(model.input_count())]
    for i, name in enumerate(names):
        shape, kind = arrays[name].shape, TYPES[arrays[name].dtype.name]
        model.set_input_fact(i, ",".join([*map(str, shape), kind]))
    outputs = model.into_model().into_runnable().run([arrays[name] for name in names])
    return {str(i): tensor.to_numpy() for i, tensor in enumerate(outputs)}
