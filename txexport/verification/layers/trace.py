"""A record of every module's arguments and outputs while the twin runs on a graph's inputs."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
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
from txmodels.model import Transformer, model

from txexport.contracts import cache_names, roles
from txexport.contracts.compared import BY_STACK
from txexport.contracts.names import INPUT_IDS, LOGITS, LOGITS_PER_TEXT, PIXEL_VALUES, TEXT_EMBEDS
from txexport.spec import Cache
from txexport.verification.references.originals import Twin
from txexport.verification.references.reference import Arrays

Values = list[np.ndarray | None]


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module: forward's arguments in order, None for absent ones, and its outputs.

    `bound` are the arguments as tensors, with which `repeated` calls the module again.
    """

    arguments: Values
    outputs: Values
    bound: inspect.BoundArguments

    @torch.no_grad()
    def repeated(self, module: nn.Module) -> None:
        """Call a module of float64 with the same numbers."""
        module(*map(_wide, self.bound.args), **_wide(self.bound.kwargs))


@dataclass(frozen=True)
class Traced:
    """One run of the twin: the calls of each module by name, and the outputs by a graph's names."""

    calls: dict[str, list[ModuleCall]]
    outputs: Arrays


class Trace:
    """The twin with the bundle's kind of cache: its modules take what the graph's functions take."""

    def __init__(self, twin: Twin, cache: str | None):
        self.model: Any = twin.model
        spec: Any = twin.model.spec
        # Weights for an alignment are of a graph of their own; without them attention is computed as here.
        aligned = spec.alignment is not None
        if aligned or (cache == Cache.STATIC and isinstance(twin.model, Transformer)):
            with torch.device("meta"):  # the parameters stay the twin's
                plain = replace(spec, alignment=None) if aligned else spec
                self.model = model(plain, Cache(cache or Cache.STATIC), twin.model.outputs)
            self.model.load_state_dict(twin.model.state_dict(), assign=True)
            self.model.eval()

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Every module by its name."""
        return {name: module for name, module in self.model.named_modules() if name}

    @torch.no_grad()
    def run(self, role: str, feeds: Mapping[str, np.ndarray]) -> Traced:
        """Run the twin on the inputs of the graph `role`, by their names."""
        inputs = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in feeds.items()}
        with self.recorded() as calls:
            outputs = self._forward(role, inputs)
        return Traced(calls, {name: value.numpy() for name, value in outputs.items()})

    @contextmanager
    def recorded(self) -> Iterator[dict[str, list[ModuleCall]]]:
        """The calls of each module within the context, by its name."""
        calls: dict[str, list[ModuleCall]] = {}
        hooks = []
        for name, module in self.modules.items():

            def record(module, arguments, named, output, name=name):
                bound = inspect.signature(module.forward).bind(*arguments, **named)
                bound.apply_defaults()
                values = (*bound.args, *bound.kwargs.values())
                calls.setdefault(name, []).append(ModuleCall(_arrays(values), _arrays(output), bound))

            hooks.append(module.register_forward_hook(record, with_kwargs=True))
        try:
            yield calls
        finally:
            for hook in hooks:
                hook.remove()

    def _forward(self, role: str, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        if isinstance(self.model, DualEncoderModel):
            return self._tower(self.model, role, inputs)
        if isinstance(self.model, PromptableModel):
            return self.model.images(**inputs) if role == roles.IMAGE_ENCODER else self.model.masks(inputs)
        if isinstance(self.model, GroundedModel):
            return self.model.described(**inputs)
        if isinstance(self.model, OpenVocabularyModel | DescribedSegmentsModel):
            if role == roles.TEXT:
                return self.model.texts(**inputs)
            return self.model.images(**inputs) if role == roles.VISION else self.model.scores(**inputs)
        if isinstance(self.model, VisualRetrieverModel):
            if role == roles.IMAGE_ENCODER:
                return self.model.images(**inputs)
            forward = self.model.pages if PIXEL_VALUES in inputs else self.model.vectors
            return forward(**inputs)
        reads_images = isinstance(self.model, VisionLanguageModel | CrossVisionLanguageModel)
        if reads_images and role in (roles.IMAGE_ENCODER, roles.AUDIO_ENCODER):
            return self.model.media(**inputs)
        if any(map(cache_names.is_past, inputs)):
            return self._decode(self.model, inputs)
        if INPUT_IDS in inputs:
            return self.model.encode(**inputs)
        return self.model.encode_signal(*inputs.values())

    def _tower(self, towers: DualEncoderModel, role: str, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        if role == roles.TEXT:
            return towers.texts(**inputs)
        other = BY_STACK[towers.spec.signal_name]
        if role == other.role:
            return towers.signals(*inputs.values())
        per_text, per_signal = towers.similarity(inputs[TEXT_EMBEDS], inputs[other.vectors])
        return {LOGITS_PER_TEXT: per_text, other.scores: per_signal}

    def _decode(self, model: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        caches = {name: value for name, value in inputs.items() if cache_names.is_past(name)}
        others = {name: value for name, value in inputs.items() if name not in caches}
        crossed = any(map(cache_names.is_cross, caches))
        crosses_images = isinstance(
            model, CrossVisionLanguageModel
        )  # its layers that attend to images keep no keys of tokens
        part = cache_names.DECODER if crossed and not crosses_images else None
        blocks = model.decoder.spec.layers

        def of_layers(part: str | None) -> list[tuple[Tensor, ...]]:
            labels = (
                cache_names.of_layer(cache_names.PAST, layer, block, part)
                for layer, block in enumerate(blocks)
            )
            return [tuple(caches[name] for name in each) for each in labels]

        encoded: dict[str, Any] = (
            {"cross": of_layers(cache_names.ENCODER)} if crossed and not crosses_images else {}
        )
        if crosses_images:
            encoded = {"crossed": {name: one for name, one in caches.items() if cache_names.is_cross(name)}}
        logits, present, layers = model.decode_layers(past=of_layers(part), **encoded, **others)
        outputs = {LOGITS: logits, **layers}
        for layer, (block, each) in enumerate(zip(blocks, present, strict=True)):
            labels = cache_names.of_layer(cache_names.PRESENT, layer, block, part)
            outputs |= zip(labels, each, strict=True)
        return outputs


def _arrays(values: Any) -> Values:
    """Tensors as arrays; those of a dict one by one, as a graph's function takes them."""
    several = values if isinstance(values, tuple) else (values,)
    flat = [part for value in several for part in (value.values() if isinstance(value, dict) else [value])]
    return [value.numpy() if isinstance(value, Tensor) else None for value in flat]


def _wide(value: Any) -> Any:
    """Tensors of floats in float64, also within a tuple, a list or a dict."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _wide(part) for name, part in value.items()}
    return type(value)(map(_wide, value)) if isinstance(value, tuple | list) else value
