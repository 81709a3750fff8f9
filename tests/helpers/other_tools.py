"""Exports in the form of other tools: by PyTorch's exporter, or in optimum's layout."""

import shutil
import warnings
from pathlib import Path

import pytest
import torch

from txexport.bundle import read_manifest
from txexport.contracts import roles

AXES = ("batch_size", "sequence_length")
EXPORTING = (2, 13)  # the first version tested whose exporter accepts transformers


def check_exporter() -> None:
    """Skip the test where PyTorch's exporter is older and fails on dynamic dimensions."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < EXPORTING:
        first = ".".join(map(str, EXPORTING))
        pytest.skip(f"PyTorch's own exporter takes these models from {first} on, not in {torch.__version__}")


def torch_export(module: torch.nn.Module, path: Path, inputs: dict, outputs: list[str]) -> Path:
    """Export `module` with torch.onnx.export, batch and sequence dynamic; inputs (B,S)."""
    check_exporter()
    dims = {0: torch.export.Dim(AXES[0]), 1: torch.export.Dim(AXES[1], min=2, max=40)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (),
            path,
            kwargs=inputs,
            input_names=list(inputs),
            output_names=outputs,
            dynamo=True,
            verbose=False,
            dynamic_shapes={name: dict(dims) for name in inputs},
        )
    return path


def as_optimum(bundle: Path, folder: Path) -> Path:
    """A bundle's ecosystem graphs in the layout of other tools: alone, with their weights."""
    shutil.copytree(bundle / roles.FOLDER, folder)
    for graph in read_manifest(bundle).native.values():
        (folder / Path(graph.file).name).unlink()
    return folder
