"""References in PyTorch: their protocol, and the twin in float32 and float64."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from txmodels.architectures import (
    CrossVisionLanguageModel,
    DescribedSegmentsModel,
    DualEncoderModel,
    GroundedModel,
    OpenVocabularyModel,
    PromptableModel,
    VisionLanguageModel,
    VisualRetrieverModel,
)
from txmodels.model import Transformer
from txmodels.training.checkpoints import build

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import cache_names
from txexport.contracts.names import (
    ATTENTION_MASK,
    ATTENTIONS,
    AUDIO,
    ENCODER_ATTENTION_MASK,
    INPUT_IDS,
    INPUTS_EMBEDS,
    LOGITS,
    PIXEL_VALUES,
    PREFIX_LENGTHS,
    TEXT,
    VISION,
    media_features,
    of_layer,
)
from txexport.families import Resolved
from txexport.spec import Mutual
from txexport.verification.references.dequantised import DequantisedCheckpoint
from txexport.verification.references.precision import in_float64, perturbed
from txexport.verification.references.reference import (
    SIGNALS,
    Arrays,
    MaskedTokens,
    PaddedRow,
    PicturedTokens,
    Pictures,
    Source,
    joined,
)


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

    @torch.no_grad()
    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        outputs = encoded(self.model, **tensors(inputs))
        return {name: value.numpy() for name, value in outputs.items()}

    @torch.no_grad()
    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """See Reference."""
        assert isinstance(self.model, Transformer)
        result = one_pass(self.model, ids_of(tokens, source), prompt, **source_tensors(source))
        return {name: part_of(source, name, value.numpy()) for name, value in result.items()}


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
    if isinstance(source, PaddedRow):
        signals, mask = source.batch.signals, source.batch.mask
        assert mask is not None
        return tensors({SIGNALS[signals.ndim - 2]: signals, ATTENTION_MASK: mask})
    if isinstance(source, Pictures):
        return tensors(joined(source.images))
    if isinstance(source, PicturedTokens):
        return source_tensors([*source.ids]) | tensors(joined(source.images))
    if isinstance(source, np.ndarray):
        return tensors({SIGNALS[source.ndim - 1]: source[None]})
    if isinstance(source, MaskedTokens):
        return tensors({INPUT_IDS: source.ids[None], ATTENTION_MASK: source.mask[None]})
    ids = torch.tensor([source])
    return {INPUT_IDS: ids, ATTENTION_MASK: torch.ones_like(ids)}


def ids_of(tokens: list[int], source: Source) -> Tensor:
    """The tokens for every row that is read with the source (B,T)."""
    rows = len(source.batch.signals) if isinstance(source, PaddedRow) else 1
    return torch.tensor([tokens] * rows)


def part_of(source: Source, name: str, array: np.ndarray) -> np.ndarray:
    """The source's part of an output with a batch axis."""
    return source.part(name, array) if isinstance(source, PaddedRow | Pictures | PicturedTokens) else array[0]


def encoded(model: Any, **inputs: Tensor) -> dict[str, Tensor]:
    """The outputs of an encoder, or of both encoders, by the names of their graphs."""
    if isinstance(model, DualEncoderModel):
        return model.compare(**inputs)
    if isinstance(model, PromptableModel):
        return model.prompted(**inputs)
    if isinstance(model, VisionLanguageModel | CrossVisionLanguageModel):
        return model.media(**inputs)
    if isinstance(model, VisualRetrieverModel):
        return model.pages(**inputs)
    if isinstance(model, OpenVocabularyModel | GroundedModel | DescribedSegmentsModel):
        return model.described(**inputs)
    return model.encode(**inputs) if model.reads_tokens else model.encode_signal(*inputs.values())


def one_pass(
    model: Any, decoder_input_ids: Tensor, prompt: int | None = None, **source: Tensor
) -> dict[str, Tensor]:
    """decoder_input_ids (B,T) and the encoder's inputs -> as `Reference.decode`, with a batch axis."""
    inputs: dict = {}
    result, part = {}, None
    if source:
        result = encoded(model, **source)
        mask = result.get(ENCODER_ATTENTION_MASK, source.get(ATTENTION_MASK))
        if mask is not None:
            inputs[ENCODER_ATTENTION_MASK] = mask
        if isinstance(model, VisionLanguageModel):
            inputs |= model.read_images(decoder_input_ids, result[media_features(result)], source)
        elif isinstance(model, CrossVisionLanguageModel):
            inputs |= model.read_images(decoder_input_ids, result, source)
        else:
            inputs["cross"] = [
                tuple(result[name] for name in cache_names.present(i, cache_names.ENCODER))
                for i in range(len(model.cross))
            ]
            part = cache_names.DECODER
    if isinstance(model, VisionLanguageModel):
        result = result | {INPUTS_EMBEDS: model.tokens(decoder_input_ids)}
        if model.spec.mutual == Mutual.PREFIX:
            batch, length = decoder_input_ids.shape
            inputs[PREFIX_LENGTHS] = torch.full((batch,), length if prompt is None else prompt)
    logits, present, layers = model.decode_layers(
        decoder_input_ids, model.empty_past(len(decoder_input_ids)), **inputs
    )
    caches: dict[str, Tensor] = {}
    for i, (block, each) in enumerate(zip(model.decoder.spec.layers, present, strict=True)):
        caches |= zip(cache_names.of_layer(cache_names.PRESENT, i, block, part), each, strict=True)
    return result | caches | layers | {LOGITS: logits}


def in_order(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """The noise (B,patches) by which an original that shuffles patches leaves them in the image's order."""
    pixels, side = inputs[PIXEL_VALUES], model.config.patch_size
    patches = (pixels.shape[2] // side) * (pixels.shape[3] // side)
    return torch.arange(patches, dtype=torch.float32).expand(len(pixels), patches)


def kept_windows(model: torch.nn.Module) -> list[tuple[Any, int, int]]:
    """Swin's layers with the size and the shift of their windows.

    A layer that has read a small image is not shifted for any later one. What an image gives must not depend
    on those before it, so both are restored for each batch.
    """
    layers: list[Any] = [one for one in model.modules() if hasattr(one, "set_shift_and_window_size")]
    return [(layer, layer.window_size, layer.shift_size) for layer in layers]


def of_layers(outputs: Any, arguments: Collection[str], scores: bool = False) -> dict[str, Tensor]:
    """The outputs of every layer by a graph's names; `arguments` asked the library for them.

    Where the library's attentions are `scores`, their softmax is returned.
    """
    outputs_of = {tower: outputs.get(f"{tower}_model_output") for tower in (TEXT, VISION, AUDIO)}
    towers: dict[str | None, Any] = {name: one for name, one in outputs_of.items() if one is not None}
    result: dict[str, Tensor] = {}
    kinds = tuple(name.removeprefix("output_") for name in arguments)  # some models give one unasked
    for tower, values_by_kind in (towers or {None: outputs}).items():
        for kind, values in values_by_kind.items():
            again = kind.startswith("reshaped_")  # the same numbers as images
            if isinstance(values, tuple) and kind.endswith(kinds) and not again:
                if scores and kind == ATTENTIONS:
                    values = [value.softmax(-1) for value in values]
                result |= {of_layer(kind, layer, tower): value for layer, value in enumerate(values)}
    return result
