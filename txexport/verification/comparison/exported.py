"""Another export as a bundle's reference: another tool's graphs by the ecosystem's contract, or a bundle.

A row is read by its prompt, then by its last token over the cache, so that both parts of a decoder are tried.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from txexport import bundle
from txexport.errors import InputError
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.verification.cases.graph_runner import runner_of
from txexport.verification.cases.runs import DynamicSteps, StaticSteps
from txexport.verification.cases.seeded import DecoderCase
from txexport.verification.comparison.models import PAST, Graph, declared, dtype_of
from txexport.verification.references.originals import Arrays, Source

ENCODER, DECODER, WITH_PAST = "encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"
MERGED, ALONE = "decoder_model_merged.onnx", "model.onnx"
KNOWN = {
    "input_ids",
    "attention_mask",
    "position_ids",
    "encoder_hidden_states",
    "encoder_attention_mask",
    "use_cache_branch",
}


class Exported:
    """Graphs of another tool: one model, or an encoder and its decoder in one, two, or merged.

    `place` is a folder, or the decoder's or only file of one. Raises InputError where a file is missing or
    a decoder takes something that the contract does not have.
    """

    def __init__(self, place: Path, device: str):
        self.name = str(place)
        folder = place if place.is_dir() else place.parent
        if not place.is_file() and not list(folder.glob("*.onnx")) and (folder / "onnx").is_dir():
            folder = folder / "onnx"
        chosen = [place.name] if place.is_file() else _chosen({file.name for file in folder.glob("*.onnx")})
        if not chosen:
            raise InputError(f"{place} has no {ALONE}, nor {ENCODER} and {DECODER}; name a file")
        crossed = place.is_file() and "decoder" in place.name and (folder / ENCODER).is_file()
        self.encoder = Graph(folder / ENCODER, device) if crossed or ENCODER in chosen else None
        self.graphs = [Graph(folder / name, device) for name in chosen if name != ENCODER]
        self.model = self.graphs[0]
        self.again = self.graphs[-1]  # reads what comes after the first tokens
        self.past = [name for name in self.again.inputs if name.startswith(f"{PAST}.")]

    @property
    def caches(self) -> bool:
        """See Reference."""
        return bool(self.past)

    @property
    def inputs(self) -> set[str]:
        """What its first graph takes; of an encoder-decoder the encoder."""
        return set((self.encoder or self.model).inputs)

    @property
    def outputs(self) -> set[str]:
        """What all its graphs give."""
        graphs = [self.encoder, *self.graphs] if self.encoder is not None else self.graphs
        return {name for graph in graphs for name in graph.outputs}

    def check_decoder(self) -> None:
        """Raise InputError for an input of a decoder that the contract does not have."""
        for graph in self.graphs:
            odd = [name for name in graph.inputs if name not in KNOWN and not name.startswith(f"{PAST}.")]
            if odd:
                raise InputError(f"{graph.name} takes {', '.join(odd)}, which no contract has")

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        return (self.encoder or self.model).run(inputs)

    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        given, found = self._read(source) if source is not None else ({}, {})
        most = len(tokens) - 1 if self.past and len(tokens) > 1 else len(tokens)
        first = self.model.run(self._feeds(self.model, tokens[:most], 0, {}) | given)
        own = {name: first[name] for name in first if name.startswith("present.")}
        if most < len(tokens):
            past = {name.replace("present", PAST, 1): array for name, array in own.items()}
            last = self.again.run(self._feeds(self.again, tokens[most:], most, past) | given)
            logits = np.concatenate([first["logits"], last["logits"]], axis=1)
            own |= {name: last[name] for name in last if name in own and ".encoder." not in name}
        else:
            logits = first["logits"]
        return found | {name: array[0] for name, array in own.items()} | {"logits": logits[0]}

    def _read(self, source: Source) -> tuple[Arrays, Arrays]:
        """What the encoder leaves for the decoder, and its outputs without batch axis."""
        if self.encoder is None:
            raise InputError(f"{self.name} has no {ENCODER}")
        if isinstance(source, np.ndarray):
            feeds = dict.fromkeys(self.encoder.inputs, source[None])
        else:
            ids = np.array([source])
            feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        outputs = self.encoder.run(feeds)
        hidden = outputs["last_hidden_state"]
        given = {"encoder_hidden_states": hidden, "encoder_attention_mask": np.ones(hidden.shape[:2], int)}
        return given, {name: array[0] for name, array in outputs.items()}

    def _feeds(self, graph: Graph, tokens: Sequence[int], before: int, past: Arrays) -> Arrays:
        """The inputs of a decoder for one row's next tokens."""
        ids, total = np.array([tokens]), before + len(tokens)
        feeds = {
            "input_ids": ids,
            "attention_mask": np.ones((1, total), int),
            "position_ids": np.arange(before, total)[None],
            "use_cache_branch": np.array([before > 0]),
        }
        return feeds | {name: past[name] if name in past else _empty(graph, name) for name in self.past}


def _chosen(files: set[str]) -> list[str]:
    """The files of a folder that make one model."""
    for names in ([ENCODER, DECODER, WITH_PAST], [ENCODER, MERGED], [ENCODER, DECODER], [ALONE], [DECODER]):
        if set(names) <= files:
            return names
    return sorted(files) if len(files) == 1 else []


def _empty(graph: Graph, name: str) -> np.ndarray:
    """A cache of nothing, as the input `name` declares it."""
    port = graph.inputs.get(name)
    if port is None:
        return np.zeros((1, 1, 0, 1), np.float32)
    heads, size = port.shape[1], port.shape[-1]
    if len(port.shape) != 4 or not isinstance(heads, int) or not isinstance(size, int):
        raise InputError(
            f"{graph.name}: input '{name}' is {declared(port)}, expected (batch, heads, past, size)"
        )
    return np.zeros((1, heads, 0, size), dtype_of(port))


class Bundled:
    """Another bundle as the reference."""

    caches = True

    def __init__(self, loaded: LoadedBundle):
        self.name, self.runner = str(loaded.folder), runner_of(loaded)

    @property
    def inputs(self) -> set[str]:
        """What the first graph takes."""
        return input_names(self.runner.manifest)

    @property
    def outputs(self) -> set[str]:
        """What all graphs give."""
        return output_names(self.runner.manifest)

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        if "text_model" not in self.runner.manifest.graphs:
            return self.runner.run(**inputs)
        texts = {name: array for name, array in inputs.items() if name != "pixel_values"}
        found = self.runner.run("text_model", **texts)
        found |= self.runner.run("vision_model", pixel_values=inputs["pixel_values"])
        return found | self.runner.run("similarity_model", **found)

    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        cross: Arrays = {}
        found: Arrays = {}
        if source is not None:
            port = self.runner.manifest.graphs["encoder_model"].inputs[0].name
            feeds = {port: np.asarray(source)[None]}
            if port == "input_ids":
                feeds["attention_mask"] = np.ones_like(feeds[port])
                cross["encoder_attention_mask"] = feeds["attention_mask"]
            encoded = self.runner.run("encoder_model", **feeds)
            cross |= {n.replace("present", PAST, 1): a for n, a in encoded.items() if n.startswith("present")}
            found = {name: array[0] for name, array in encoded.items()}
        counts = [len(tokens) - 1, 1] if len(tokens) > 1 else [1]
        sources = None if source is None else [source]
        case = DecoderCase("", [tokens], np.array(counts)[:, None], sources=sources)
        kind = StaticSteps if self.runner.manifest.cache == "static" else DynamicSteps
        steps = kind(self.runner, case, cross)
        parts = [steps.run([tokens[: counts[0]]])[0]]
        parts += [steps.run([tokens[-1:]])[0]] if len(counts) > 1 else []
        present = {name: array[0][:, steps.filled(0)] for name, array in steps.present.items()}
        return found | present | {"logits": np.concatenate(parts)}


def input_names(manifest: bundle.Manifest) -> set[str]:
    """What a bundle is given from outside: the inputs of the graphs that read."""
    roles = manifest.graphs.keys() & {"model", "encoder_model", "text_model", "vision_model"}
    return {port.name for role in roles for port in manifest.graphs[role].inputs}


def output_names(manifest: bundle.Manifest) -> set[str]:
    """The outputs of all graphs of a bundle."""
    return {port.name for graph in manifest.graphs.values() for port in graph.outputs}
