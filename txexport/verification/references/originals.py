"""References in PyTorch: their protocol, and the twin in float32 and float64."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from txmodels.architectures import DualEncoderModel
from txmodels.model import Transformer
from txmodels.training.checkpoints import build

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import cache_names
from txexport.contracts.names import (
    ATTENTION_MASK,
    ENCODER_ATTENTION_MASK,
    INPUT_FEATURES,
    INPUT_IDS,
    INPUT_VALUES,
    LOGITS,
    PIXEL_VALUES,
)
from txexport.families import Resolved
from txexport.verification.references.dequantised import DequantisedCheckpoint
from txexport.verification.references.precision import in_float64, perturbed

Arrays = dict[str, np.ndarray]
Source = list[int] | np.ndarray | None  # tokens, or a signal of one of SIGNALS
SIGNALS = (INPUT_VALUES, INPUT_FEATURES, PIXEL_VALUES)  # (samples), (bands,frames), (channels,height,width)


class Reference(Protocol):
    """A model in float32 that is independent of the bundle.

    A reference that has `in_float64()` computes in float64 within it, which measures the rounding of its
    float32; and one that has `perturbed(seed)` in float64 with random errors of a last bit of float32.
    """

    name: str
    lacks: Mapping[str, str]  # kinds of outputs (see `counts`) that it does not give, and why

    def encode(self, inputs: Arrays) -> Arrays:
        """A padded batch -> outputs by the names of an encoder graph."""
        ...

    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """One row in one pass, without padding or past -> outputs by the names of a dynamic decoder graph.

        No batch axis. With a source, the encoder's outputs too: last_hidden_state and cross caches.
        """
        ...


class Twin:
    """The PyTorch components of txmodels with a checkpoint's weights."""

    name = "twin"
    lacks: Mapping[str, str] = {}

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved, outputs: Collection[str] = ()):
        self.model = build(checkpoint, resolved, outputs=outputs).eval()
        self.centred = isinstance(checkpoint, DequantisedCheckpoint) and checkpoint.centred

    @contextmanager
    def in_float64(self) -> Iterator[None]:
        """Compute in float64 within the context."""
        with in_float64(self.model):
            yield

    @contextmanager
    def perturbed(self, seed: int) -> Iterator[None]:
        """Compute with random errors within the context; see `precision.perturbed`."""
        with perturbed(self.model, seed, self.centred):
            yield

    @torch.inference_mode()
    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        outputs = encoded(self.model, **tensors(inputs))
        return {name: value.numpy() for name, value in outputs.items()}

    @torch.inference_mode()
    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        assert isinstance(self.model, Transformer)
        result = one_pass(self.model, torch.tensor([tokens]), **source_tensors(source))
        return {name: value[0].numpy() for name, value in result.items()}


class Float64Twin(Twin):
    """The twin as a reference in float64.

    An error that the bundle shares with float32 is float32's rounding; an error of the bundle alone is a
    mistake.
    """

    name = "float64"


def tensors(arrays: Arrays) -> dict[str, Tensor]:
    """Arrays as tensors; floating-point ones in the default dtype."""
    result = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return {
        name: value.to(torch.get_default_dtype()) if value.is_floating_point() else value
        for name, value in result.items()
    }


def source_tensors(source: Source) -> dict[str, Tensor]:
    """The encoder's inputs for a source, as a batch of one by their names; empty without a source."""
    if source is None:
        return {}
    if isinstance(source, np.ndarray):
        return tensors({SIGNALS[source.ndim - 1]: source[None]})
    ids = torch.tensor([source])
    return {INPUT_IDS: ids, ATTENTION_MASK: torch.ones_like(ids)}


def encoded(model: Any, **inputs: Tensor) -> dict[str, Tensor]:
    """The outputs of an encoder, or of both encoders, by the names of their graphs."""
    if isinstance(model, DualEncoderModel):
        return model.compare(**inputs)
    return model.encode(**inputs) if model.reads_tokens else model.encode_signal(*inputs.values())


def one_pass(model: Any, decoder_input_ids: Tensor, **source: Tensor) -> dict[str, Tensor]:
    """decoder_input_ids (1,T) and the encoder's inputs -> as `Reference.decode`, with a batch axis."""
    inputs: dict = {}
    result, part = {}, None
    if source:
        result = encoded(model, **source)
        if ATTENTION_MASK in source:
            inputs[ENCODER_ATTENTION_MASK] = source[ATTENTION_MASK]
        inputs["cross"] = [
            tuple(result[name] for name in cache_names.present(i, cache_names.ENCODER))
            for i in range(len(model.cross))
        ]
        part = cache_names.DECODER
    logits, present, layers = model.decode_layers(decoder_input_ids, model.empty_past(1), **inputs)
    caches = {
        name: tensor
        for i, pair in enumerate(present)
        for name, tensor in zip(cache_names.present(i, part), pair, strict=True)
    }
    return result | caches | layers | {LOGITS: logits}
