"""The twin as PyTorch's own exporter writes it, as a reference with no graph code of txexport."""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Collection, Mapping

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor, nn
from torch.export import Dim
from txmodels.architectures import DualEncoderModel
from txmodels.model import Transformer

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import ONE_PASS
from txexport.contracts.names import ATTENTION_MASK, INPUT_IDS, NUM_CHOICES
from txexport.contracts.roles import MODEL
from txexport.errors import UnsupportedError
from txexport.families import Resolved
from txexport.parts import input_of, signatures
from txexport.parts.inputs import reads_tokens
from txexport.parts.stacks import TOKENS as ROWS
from txexport.runtime.engines.onnxruntime import FATAL_ONLY
from txexport.spec import StackSpec, TextStackSpec
from txexport.verification.references.originals import Twin, encoded, one_pass, source_tensors
from txexport.verification.references.reference import Arrays, Source

BATCH, TOKENS = 2, 7  # of the traced example; both are dynamic in the graph
Examples = dict[str, tuple[Tensor, dict]]  # inputs by name, and their dynamic axes


class _Traced(nn.Module):
    """The module to trace: `call` on `model`. `outputs` are the names of its outputs once it has run."""

    def __init__(self, model: nn.Module, call: Callable[..., dict[str, Tensor]], inputs: list[str]):
        super().__init__()
        self.model, self.call, self.inputs = model, call, inputs
        self.outputs: list[str] = []

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Compute the outputs from values in the order of `inputs`."""
        result = self.call(self.model, **dict(zip(self.inputs, values, strict=True)))
        self.outputs = list(result)
        return tuple(result.values())


class TorchOnnxReference:
    """The twin in ONNX Runtime, exported by torch.onnx.export.

    An encoder, or both encoders of a dual encoder, with all outputs; a decoder in one pass from an empty
    cache, in one graph with its encoder if it has one. Raises UnsupportedError with the exporter's reason if
    it fails.
    """

    name = "torch.onnx"
    lacks: Mapping[str, str] = {}

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved, outputs: Collection[str] = ()):
        model = Twin(checkpoint, resolved, outputs).model
        call, examples = _traced(model)
        self._traced = _Traced(model, call, list(examples)).eval()
        values = tuple(value for value, _ in examples.values())
        with torch.inference_mode():
            self._traced(*values)  # sets the names of the outputs; the exporter traces a copy
        self._session = _exported(self._traced, values, (tuple(axes for _, axes in examples.values()),))

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        ports = [port.name for port in self._session.get_inputs()]
        values = [inputs[name] for name in self._traced.inputs]
        result = self._session.run(None, dict(zip(ports, values, strict=True)))
        return dict(zip(self._traced.outputs, result, strict=True))

    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """See Reference."""
        inputs = {name: value.numpy() for name, value in source_tensors(source).items()}
        result = self.encode(inputs | {"decoder_input_ids": np.array([tokens])})
        return {name: array[0] for name, array in result.items()}


def _traced(model: Transformer | DualEncoderModel) -> tuple[Callable[..., dict[str, Tensor]], Examples]:
    """The function to export and examples of its inputs."""
    if isinstance(model, DualEncoderModel):
        return encoded, _texts(model.spec.text) | _signal(model.spec.signal, BATCH + 1)
    spec = model.spec
    encoder = spec.stacks.get("encoder")
    if not spec.generates:
        assert encoder is not None
        if not reads_tokens(encoder):
            return encoded, _signal(encoder, BATCH)
        inputs = signatures(spec, ONE_PASS)[MODEL].inputs
        return encoded, _texts(encoder, choices=NUM_CHOICES in inputs[0].shape)
    if encoder is not None and not reads_tokens(encoder) and len(input_of(encoder).ports(encoder, ROWS)) > 1:
        raise UnsupportedError("torch.onnx is not tried for a decoder of sounds with a mask")
    examples: Examples = {"decoder_input_ids": (torch.full((1, TOKENS), 5), {1: Dim.DYNAMIC})}
    if encoder is not None:
        if not reads_tokens(encoder):
            examples |= {name: (value, {}) for name, (value, _) in _signal(encoder, 1).items()}
        else:
            ids, axes = torch.full((1, TOKENS + 2), 5), {1: Dim.DYNAMIC}
            examples |= {INPUT_IDS: (ids, axes), ATTENTION_MASK: (torch.ones_like(ids), axes)}
    return one_pass, examples


def _texts(stack: TextStackSpec, choices: bool = False) -> Examples:
    """A batch of texts, or with `choices` of three texts for each row."""
    size = (BATCH, 3, TOKENS) if choices else (BATCH, TOKENS)
    axes = dict.fromkeys(range(len(size)), Dim.DYNAMIC)
    return {
        name: (torch.ones(size, dtype=torch.long), axes)
        for name in (port.name for port in input_of(stack).ports(stack, ROWS))
    }


def _signal(stack: StackSpec, batch: int) -> Examples:
    """A batch of images or sounds, of several vectors: the exporter takes a dynamic axis of 1 for fixed."""
    port, *masks = input_of(stack).ports(stack, ROWS)
    axes = {axis: Dim.DYNAMIC for axis, size in enumerate(port.shape) if isinstance(size, str)}
    signals = torch.from_numpy(
        np.stack(input_of(stack).rows(stack, np.random.default_rng(0), [TOKENS] * batch))
    )
    examples: Examples = {port.name: (signals, axes)}
    return examples | {mask.name: (torch.ones(signals.shape[:2], dtype=torch.long), axes) for mask in masks}


def _exported(module: nn.Module, example: tuple, shapes: tuple) -> ort.InferenceSession:
    """A session of the exported graph; whatever the exporter prints or logs is discarded."""
    before, discarded = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)  # several of PyTorch's loggers report a failure at length
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            contextlib.redirect_stdout(discarded),
            contextlib.redirect_stderr(discarded),
            torch.inference_mode(),
        ):
            program = torch.onnx.export(module, example, dynamo=True, dynamic_shapes=shapes, verbose=False)
        assert program is not None
        options = ort.SessionOptions()
        options.log_severity_level = FATAL_ONLY
        return ort.InferenceSession(
            program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # of the exporter or the runtime
        raise UnsupportedError(f"torch.onnx.export failed: {_reason(error)}") from error
    finally:
        logging.disable(before)


def _reason(error: Exception) -> str:
    """The first line of the innermost cause."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:300]
