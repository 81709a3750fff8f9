"""ONNX's reference evaluator: every operator as specified, in numpy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx.inliner import inline_local_functions

from txexport.bundle.manifest import Manifest
from txexport.inspection import flops
from txexport.parts.cases import (
    DecoderCase,
    DualEncoderCase,
    EncoderCase,
    GreedyCase,
    PromptCase,
)
from txexport.parts.part import SignalCase
from txexport.runtime.engines.computed import Arrays, Compute
from txexport.runtime.session import Session
from txexport.spec import ModelSpec
from txexport.verification.linked import loaded
from txexport.verification.runtimes.runtime import Files, Options, Runtime, load

MOST = 3e11  # operations of a case: about a minute on one core

Case = EncoderCase | DecoderCase | GreedyCase | SignalCase | DualEncoderCase | PromptCase


def _refuses(folder: Path, manifest: Manifest) -> str | None:
    """The reason for graphs that the evaluator of onnx 1.23 cannot run: an empty Flatten."""
    for graph in manifest.graphs.values():
        proto = onnx.load(folder / graph.file, load_external_data=False)
        for part in (proto.graph, *proto.functions):
            if {"NonZero", "Flatten"} <= {node.op_type for node in part.node}:
                return "onnx's reference cannot flatten 0 rows, the input of an expert without tokens"
    return None


@contextmanager
def _open(files: Files, device: str | None, options: Options) -> Iterator[tuple[str, dict[str, Session]]]:
    yield "cpu", {role: load(path, "onnx's reference", _build) for role, path in files.items()}


def _build(path: Path) -> Compute:
    from onnx.reference import ReferenceEvaluator  # takes a second

    # In functions it lacks types, which operators as Gelu need; and functions must come in the order of use.
    evaluator = ReferenceEvaluator(inline_local_functions(loaded(path)))

    def compute(feeds: Arrays) -> Arrays:
        return dict(zip(evaluator.output_names, evaluator.run(None, dict(feeds)), strict=True))

    return compute


def operations(spec: ModelSpec, case: Case) -> int:
    """An estimate of the floating-point operations of a case."""
    if isinstance(case, DecoderCase):
        rows, length = len(case.rows), int(case.steps.sum(axis=0).max())
    elif isinstance(case, GreedyCase):
        tokens = [0 if isinstance(row, np.ndarray) else len(row) for row in case.rows]
        rows, length = len(case.rows), max(tokens) + case.new_tokens
    elif isinstance(case, PromptCase):
        rows, length = len(case.pixel_values), 1
    elif isinstance(case, SignalCase):
        rows, length = len(case.signals), 1
    else:
        rows, length = case.input_ids.shape
    read = sum(one.total for one in flops.prefill(spec, length, rows).values())
    step = flops.step(spec, length, rows)
    # Of an encoder-decoder this is the encoder; a decoder alone is counted twice, which is harmless.
    return read + (length * step.total if step is not None else 0)


def _skips(spec: ModelSpec, case: Case) -> str | None:
    result = operations(spec, case)
    if result <= MOST:
        return None
    return f"{result:.0e} operations are too many for onnx's reference, which takes up to {MOST:.0e}"


RUNTIME = Runtime("reference", _open, refuses=_refuses, skips=_skips)
