"""References for a bundle that are exports too: another tool's graphs, or another bundle.

A row is read as its prompt, then its last token over the cache, so that both parts of a decoder run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport import bundle
from txexport.contracts import cache_names, roles
from txexport.contracts.compared import compared_in
from txexport.contracts.ecosystem import DECODER_INPUTS, LAYOUTS
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import (
    ATTENTION_MASK,
    ENCODER_ATTENTION_MASK,
    ENCODER_HIDDEN_STATES,
    INPUT_IDS,
    LAST_HIDDEN_STATE,
    LOGITS,
    POSITION_IDS,
    TEXT_EMBEDS,
    USE_CACHE_BRANCH,
    media_features,
)
from txexport.errors import InputError
from txexport.parts.cases import DecoderCase
from txexport.parts.part import PixelInputs
from txexport.runtime.generation.media import Media
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.verification.cases import alignment, layers
from txexport.verification.cases.decoder_steps import DynamicSteps, StaticSteps
from txexport.verification.cases.graph_runner import runner_of
from txexport.verification.cases.pictures import image_vectors, media_among
from txexport.verification.comparison.models import Graph, declared, dtype_of
from txexport.verification.references.reference import Arrays, PaddedRow, Pictures, Source

ALONE, ENCODER, DECODER = map(roles.file, (roles.MODEL, roles.ENCODER, roles.DECODER))
GRAPHS = f"*{roles.SUFFIX}"


class Exported:
    """Graphs of another tool: one model, or an encoder with a decoder in one graph, two, or merged.

    `place` is a folder, or the file of the decoder or only model. Raises InputError if a file is missing or a
    decoder has an input that the contract lacks.
    """

    def __init__(self, place: Path, device: str):
        self.name = str(place)
        folder = place if place.is_dir() else place.parent
        if not place.is_file() and not list(folder.glob(GRAPHS)) and (folder / "onnx").is_dir():
            folder = folder / "onnx"
        chosen = [place.name] if place.is_file() else _chosen({file.name for file in folder.glob(GRAPHS)})
        if not chosen:
            raise InputError(f"{place} has no {ALONE}, nor {ENCODER} and {DECODER}; name a file")
        crossed = place.is_file() and "decoder" in place.name and (folder / ENCODER).is_file()
        self.encoder = Graph(folder / ENCODER, device) if crossed or ENCODER in chosen else None
        self.graphs = [Graph(folder / name, device) for name in chosen if name != ENCODER]
        self.model = self.graphs[0]
        self.with_past = self.graphs[-1]  # reads the tokens after the first ones
        self.past = [name for name in self.with_past.inputs if cache_names.is_past(name)]

    @property
    def inputs(self) -> set[str]:
        """The inputs of the first graph, the encoder if there is one."""
        return set((self.encoder or self.model).inputs)

    @property
    def outputs(self) -> set[str]:
        """The outputs of all graphs, without those of every layer of a decoder, which are not requested."""
        outputs = {name for graph in self.graphs for name in graph.outputs}
        if self.past or self.encoder is not None:
            outputs = {name for name in outputs if kind_of(name) is None}
        return outputs | set(self.encoder.outputs if self.encoder is not None else ())

    def check_decoder(self) -> None:
        """Raise InputError for an input of a decoder that the contract lacks."""
        for graph in self.graphs:
            unknown = [n for n in graph.inputs if n not in DECODER_INPUTS and not cache_names.is_past(n)]
            if unknown:
                raise InputError(f"{graph.name} takes {', '.join(unknown)}, which no contract has")

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        return (self.encoder or self.model).run(inputs)

    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """See Reference. The prompt is all tokens but the last, if there is a graph that takes a past."""
        cross, result = self._read(source) if source is not None else ({}, {})
        read = len(tokens) - 1 if self.past and len(tokens) > 1 else len(tokens)  # in the first pass
        first = self.model.run(self._feeds(self.model, tokens[:read], 0, {}) | cross)
        present = {name: first[name] for name in first if cache_names.is_present(name)}
        if read < len(tokens):
            past = {cache_names.to_past(name): array for name, array in present.items()}
            last = self.with_past.run(self._feeds(self.with_past, tokens[read:], read, past) | cross)
            logits = np.concatenate([first[LOGITS], last[LOGITS]], axis=1)
            updated = present.keys() & last.keys()
            present |= {name: last[name] for name in updated if not cache_names.is_cross(name)}
        else:
            logits = first[LOGITS]
        return result | {name: array[0] for name, array in present.items()} | {LOGITS: logits[0]}

    def _read(self, source: Source) -> tuple[Arrays, Arrays]:
        """The encoder's inputs for the decoder, and its outputs without batch axis."""
        if self.encoder is None:
            raise InputError(f"{self.name} has no {ENCODER}")
        assert source is not None
        assert not isinstance(source, PaddedRow)
        if isinstance(source, np.ndarray):
            mask = np.ones((1, len(source)), int)  # of a sound
            feeds = {name: mask if name == ATTENTION_MASK else source[None] for name in self.encoder.inputs}
        else:
            ids = np.array([source])
            feeds = {INPUT_IDS: ids, ATTENTION_MASK: np.ones_like(ids)}
        outputs = self.encoder.run(feeds)
        hidden = outputs[LAST_HIDDEN_STATE]
        cross = {
            ENCODER_HIDDEN_STATES: hidden,
            ENCODER_ATTENTION_MASK: feeds.get(ATTENTION_MASK, np.ones(hidden.shape[:2], int)),
        }
        return cross, {name: array[0] for name, array in outputs.items()}

    def _feeds(self, graph: Graph, tokens: Sequence[int], before: int, past: Arrays) -> Arrays:
        """The inputs of a decoder for the next tokens of one row."""
        ids, total = np.array([tokens]), before + len(tokens)
        feeds = {
            INPUT_IDS: ids,
            ATTENTION_MASK: np.ones((1, total), int),
            POSITION_IDS: np.arange(before, total)[None],
            USE_CACHE_BRANCH: np.array([before > 0]),
        }
        return feeds | {name: past[name] if name in past else _empty(graph, name) for name in self.past}


def _chosen(files: set[str]) -> list[str]:
    """The files of a folder that form one model."""
    for layout in LAYOUTS:
        if set(names := [roles.file(role) for role in layout]) <= files:
            return names
    return sorted(files) if len(files) == 1 else []


def _empty(graph: Graph, name: str) -> np.ndarray:
    """An empty cache for the input `name`."""
    port = graph.inputs.get(name)
    if port is None:
        return np.zeros((1, 1, 0, 1), np.float32)
    heads, size = port.shape[1], port.shape[-1]
    if cache_names.to_present(name) in graph.outputs and isinstance(heads, str) and isinstance(size, str):
        _, heads, _, size = graph.outputs[cache_names.to_present(name)].shape  # a merged decoder accepts any
    if len(port.shape) != 4 or not isinstance(heads, int) or not isinstance(size, int):
        raise InputError(
            f"{graph.name}: input '{name}' is {declared(port)}, expected (batch, heads, past, size)"
        )
    return np.zeros((1, heads, 0, size), dtype_of(port))


class Bundled:
    """Another bundle as the reference."""

    def __init__(self, loaded: LoadedBundle):
        self.name, self.runner = str(loaded.folder), runner_of(loaded)

    @property
    def inputs(self) -> set[str]:
        """The inputs of the graphs that read."""
        return input_names(self.runner.manifest)

    @property
    def outputs(self) -> set[str]:
        """The outputs of all graphs."""
        return output_names(self.runner.manifest)

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        if roles.TEXT not in self.runner.manifest.graphs:
            return self.runner.run(**inputs)
        other = compared_in(self.outputs)
        port = self.runner.manifest.graphs[other.role].inputs[0].name
        texts = {name: array for name, array in inputs.items() if name != port}
        result = self.runner.run(roles.TEXT, **texts) | self.runner.run(other.role, **{port: inputs[port]})
        vectors = {name: result[name] for name in (TEXT_EMBEDS, other.vectors)}
        if roles.MASK_DECODER not in self.runner.manifest.graphs:
            return result | self.runner.run(roles.SIMILARITY, **vectors)
        logits = self.runner.run(roles.MASK_DECODER, **vectors)[LOGITS]  # of every text with every image
        pairs = np.arange(len(logits))
        return result | {LOGITS: logits[pairs, pairs]}

    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """See Reference."""
        cross: Arrays = {}
        result: Arrays = {}
        media = None
        assert not isinstance(source, PaddedRow)
        if isinstance(source, Pictures):
            result, media = self._pictures(tokens, source.images)
        elif source is not None:
            port, *masks = [one.name for one in self.runner.manifest.graphs[roles.ENCODER].inputs]
            feeds = {port: np.asarray(source)[None]}
            if ATTENTION_MASK in masks:
                feeds[ATTENTION_MASK] = np.ones(feeds[port].shape[:2], int)
            if port == INPUT_IDS:
                cross[ENCODER_ATTENTION_MASK] = feeds[ATTENTION_MASK]
            encoded = self.runner.run(roles.ENCODER, **feeds)
            cross |= {cache_names.to_past(n): a for n, a in encoded.items() if cache_names.is_present(n)}
            if ENCODER_ATTENTION_MASK in encoded:
                cross[ENCODER_ATTENTION_MASK] = encoded[ENCODER_ATTENTION_MASK]
            result = {name: array[0] for name, array in encoded.items()}
            aligned = alignment.weights(self.runner, [tokens], cross)
            result |= {name: array[0] for name, array in aligned.items()}
        first = max(1, len(tokens) - 1)
        step = self.runner.bundle.step
        if step is not None and step.facts.mutual_prompts:
            first = prompt or len(tokens)
        counts = [first, len(tokens) - first] if first < len(tokens) else [first]
        sources: list[Any] | None = None if source is None or isinstance(source, Pictures) else [source]
        case = DecoderCase("", [tokens], np.array(counts)[:, None], sources=sources)
        kind = StaticSteps if self.runner.manifest.cache == "static" else DynamicSteps
        steps = kind(self.runner, case, cross, media)
        parts, of_layers = [], []
        for new in (tokens[: counts[0]], tokens[counts[0] :])[: len(counts)]:
            parts.append(steps.run([new])[0])
            of_layers.append({n: layers.read(n, a, steps.filled(0)) for n, a in steps.layers(0).items()})
        present = {
            name: array[0] if cache_names.is_state(name) else array[0][:, steps.filled(0)]
            for name, array in steps.present.items()
        }
        joined = {name: layers.joined(name, [step[name] for step in of_layers]) for name in of_layers[0]}
        return result | present | joined | {LOGITS: np.concatenate(parts)}

    def _pictures(
        self, tokens: list[int], images: Sequence[PixelInputs]
    ) -> tuple[Arrays, list[Media] | None]:
        """The vectors of images by name, and the media of a single row; nothing without images."""
        if not images:
            return {}, None
        vectors = image_vectors(self.runner, [images])
        name = media_features(
            [one.name for one in self.runner.manifest.graphs[self.runner.bundle.media_role].outputs]
        )
        return {name: vectors}, [media_among(self.runner, tokens, images, vectors)]


def input_names(manifest: bundle.Manifest) -> set[str]:
    """The inputs of a bundle's graphs that read texts or signals."""
    readers = manifest.graphs.keys() & roles.READERS
    return {port.name for role in readers for port in manifest.graphs[role].inputs}


def output_names(manifest: bundle.Manifest) -> set[str]:
    """The outputs of all graphs of a bundle."""
    return {port.name for graph in manifest.graphs.values() for port in graph.outputs}
