"""A third opinion: PyTorch's own exporter makes a graph of the twin, which shares nothing with ours."""

import contextlib
import io
import logging
import warnings
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor, nn
from torch.export import Dim
from txmodels.model import Model
from txmodels.towers import Towers

from txexport.checkpoint import Checkpoint
from txexport.errors import UnsupportedError
from txexport.families import Resolved
from txexport.parity.references import Arrays, Source, Twin
from txexport.runtime.session import FATAL_ONLY
from txexport.spec import HeadKind

BATCH, TOKENS = 2, 7  # of the example that is traced; neither stays in the graph


class _Encoder(nn.Module):
    """The encoder's outputs in a tuple; `names` are theirs once it has run."""

    def __init__(self, model: Model, inputs: Sequence[str]):
        super().__init__()
        self.model, self.inputs = model, inputs
        self.names: list[str] = []

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Inputs in the order of `inputs`."""
        if self.model.reads_tokens:
            outputs = self.model.encode(**dict(zip(self.inputs, values, strict=True)))
        else:
            outputs = self.model.encode_signal(*values)
        self.names = list(outputs)
        return tuple(outputs.values())


class _Decoder(nn.Module):
    """Logits of one row in one pass, without a cache."""

    def __init__(self, model: Model):
        super().__init__()
        self.model, self.names = model, ["logits"]

    def forward(self, input_ids: Tensor) -> tuple[Tensor, ...]:
        """input_ids (1,S) -> logits (1,S,V)."""
        logits, _ = self.model.decode(input_ids, self.model.empty_past(1))
        return (logits,)


class Third:
    """The twin as torch.onnx.export writes it, in ONNX Runtime.

    An encoder with all its outputs, a decoder in one pass without cache. Raises UnsupportedError with the
    exporter's reason where it cannot.
    """

    name = "torch.onnx"
    caches = False

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved):
        model = Twin(checkpoint, resolved).model
        if isinstance(model, Towers) or (model.spec.encoder is not None and model.spec.decoder is not None):
            raise UnsupportedError("only single stacks are given to torch.onnx.export, not two that meet")
        self._wrapped: _Encoder | _Decoder
        example: tuple[Tensor, ...]
        tokens = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
        if model.spec.decoder is not None:
            self._wrapped, example = _Decoder(model), (torch.full((1, TOKENS), 5),)
            shapes: tuple = ({1: Dim.DYNAMIC},)
        elif model.reads_tokens:
            assert model.spec.encoder is not None
            stack = model.spec.encoder
            names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (stack.words.segments > 1)
            names += ["global_attention_mask"] * stack.global_tokens
            size: tuple[int, ...] = (BATCH, TOKENS)
            axes = tokens
            if model.spec.head.kind == HeadKind.CHOICES:
                size, axes = (BATCH, 3, TOKENS), tokens | {2: Dim.DYNAMIC}
            self._wrapped = _Encoder(model, names)
            example = tuple(torch.ones(size, dtype=torch.long) for _ in names)
            shapes = ((axes,) * len(names),)
        else:
            assert model.spec.encoder is not None
            name, sizes = model.spec.encoder.embedding.input  # type: ignore[union-attr]
            self._wrapped, example = _Encoder(model, [name]), (torch.ones(BATCH, *sizes),)
            shapes = (({0: Dim.DYNAMIC},),)
        with torch.inference_mode():
            self._wrapped(*example)  # which tells the outputs' names; the exporter traces a copy
        self._session = _exported(self._wrapped.eval(), example, shapes)

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        assert isinstance(self._wrapped, _Encoder)
        return self._run([inputs[name] for name in self._wrapped.inputs])

    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference: logits alone."""
        return {name: array[0] for name, array in self._run([np.array([tokens])]).items()}

    def _run(self, values: Sequence[np.ndarray]) -> Arrays:
        ports = [port.name for port in self._session.get_inputs()]
        found = self._session.run(None, dict(zip(ports, values, strict=True)))
        return dict(zip(self._wrapped.names, found, strict=True))


def _exported(module: nn.Module, example: tuple, shapes: tuple) -> ort.InferenceSession:
    """The exporter's graph in a session, and its chatter nowhere."""
    before, nowhere = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)  # several of PyTorch's loggers tell a failure, and at length
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
            torch.inference_mode(),
        ):
            program = torch.onnx.export(module, example, dynamo=True, dynamic_shapes=shapes, verbose=False)
        assert program is not None
        options = ort.SessionOptions()
        options.log_severity_level = FATAL_ONLY
        return ort.InferenceSession(
            program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # whatever the exporter or the runtime says of what it cannot do
        raise UnsupportedError(f"torch.onnx.export cannot: {_reason(error)}") from error
    finally:
        logging.disable(before)


def _reason(error: Exception) -> str:
    """The innermost cause's first line."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:300]
