"""Graphs of another tool in ONNX Runtime, by the names of the contract."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from txexport.contracts import Port, cache_names, names
from txexport.contracts.other_names import standard
from txexport.errors import InputError, UnsupportedError
from txexport.runtime.engines.onnxruntime import open_session

TYPES: dict[str, Any] = {
    "float": np.float32,
    "float16": np.float16,
    "double": np.float64,
    "int64": np.int64,
    "int32": np.int32,
    "bool": np.bool_,
}
ROUNDED = ("float16", "bfloat16")


@dataclass
class Piece:
    """One graph: its inputs and outputs by the contract's names, and the file's own names of these."""

    path: Path
    device: str = "cpu"
    of_decoder: bool = False
    inputs: dict[str, Port] = field(init=False)
    outputs: dict[str, Port] = field(init=False)

    def __post_init__(self) -> None:
        self.session = open_session(self.path, self.device, None)
        self.inputs = self._by_standard(self.session.inputs, cache_names.PAST)
        self.outputs = self._by_standard(self.session.outputs, cache_names.PRESENT)
        if names.ENCODER_HIDDEN_STATES in self.inputs:  # keys of no part are the decoder's own
            self.inputs = {cache_names.in_decoder(name): port for name, port in self.inputs.items()}
            self.outputs = {cache_names.in_decoder(name): port for name, port in self.outputs.items()}
        for port in (*self.inputs.values(), *self.outputs.values()):
            if port.dtype in ROUNDED:
                raise UnsupportedError(
                    f"{self.path}: '{port.name}' is {port.dtype}; other tools' exports are judged in "
                    "float32: export a model that is loaded with dtype=float32"
                )
            if port.dtype not in TYPES:
                raise UnsupportedError(f"{self.path}: '{port.name}' is {port.dtype}, which is not compared")

    def _by_standard(self, ports: Mapping[str, Port], kind: str) -> dict[str, Port]:
        return {standard(name, kind, of_decoder=self.of_decoder): port for name, port in ports.items()}

    @property
    def past(self) -> list[str]:
        """The inputs of keys and values."""
        return [name for name in self.inputs if cache_names.is_past(name)]

    def size(self, name: str, place: int) -> int | None:
        """The size that the graph declares for a dimension of an input; None if it is free."""
        port = self.inputs.get(name)
        if port is None or place >= len(port.shape):
            return None
        return number(port.shape[place])

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every output for the inputs that the graph has, in its types. Raises InputError, EngineError.

        An input that `values` lack is an InputError.
        """
        feeds = {}
        for name, port in self.inputs.items():
            if name not in values:
                raise InputError(f"{self.path.name} needs '{port.name}', which is not known")
            array = np.asarray(values[name])
            sizes = zip(array.shape, port.shape, strict=False)
            if len(array.shape) != len(port.shape) or any(isinstance(b, int) and a != b for a, b in sizes):
                raise InputError(f"{self.path.name} takes '{port.name}' as {port.shape}, not {array.shape}")
            feeds[port.name] = np.ascontiguousarray(array.astype(TYPES[port.dtype], copy=False))
        outputs = self.session.run_fitted(feeds)
        return {name: outputs[port.name] for name, port in self.outputs.items()}


def number(size: int | str) -> int | None:
    """A declared size as a number; some tools write numbers as names."""
    return size if isinstance(size, int) else int(size) if size.isdigit() else None


@dataclass(frozen=True)
class DecoderGraphs:
    """The graphs of a decoder: `first` reads tokens without a past, `later` those after.

    The two may be one graph. `encoder` is None for a decoder alone, and where the export leaves it out.
    """

    first: Piece
    later: Piece
    encoder: Piece | None = None

    @property
    def inputs(self) -> set[str]:
        """The inputs of both graphs."""
        return {*self.first.inputs, *self.later.inputs}

    @property
    def reads_source(self) -> bool:
        """True for a decoder over an encoder."""
        return self.encoder is not None or names.ENCODER_HIDDEN_STATES in self.inputs

    def encode(self, source: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The decoder's inputs that the encoder gives: its hidden states, and keys and values if it has them.

        Hidden states (rows, tokens, D) may have any name. Errors as `Piece.run`.
        """
        assert self.encoder is not None
        outputs = self.encoder.run(source)
        keys = {cache_names.to_past(name): a for name, a in outputs.items() if cache_names.is_cross(name)}
        others = {name: array for name, array in outputs.items() if not cache_names.is_cross(name)}
        hidden = others.get(names.LAST_HIDDEN_STATE)
        if hidden is None and len(others) == 1:
            [hidden] = others.values()
        if hidden is None:
            raise InputError(
                f"{self.encoder.path.name} gives {', '.join(outputs)}, not {names.LAST_HIDDEN_STATE}"
            )
        return {names.ENCODER_HIDDEN_STATES: hidden} | keys

    def step(self, fixed: Mapping[str, np.ndarray], **values: np.ndarray) -> dict[str, np.ndarray]:
        """Logits, keys and values after tokens; `fixed` are inputs that are the same at every step."""
        is_first = values[names.ATTENTION_MASK].shape[1] == values[names.INPUT_IDS].shape[1]
        if names.ENCODER_ATTENTION_MASK in fixed:  # some graphs call it attention_mask
            values[names.ATTENTION_MASK] = fixed[names.ENCODER_ATTENTION_MASK]
        branch = {names.USE_CACHE_BRANCH: np.array([not is_first])}
        piece = self.first if is_first else self.later
        outputs = piece.run({**values, **fixed, **branch})
        if names.LOGITS not in outputs:
            raise InputError(f"{piece.path.name} gives no {names.LOGITS}")
        wanted = {name for name in outputs if name == names.LOGITS or cache_names.is_present(name)}
        if not is_first:  # a merged decoder gives empty keys of the source, others the same again
            wanted = {name for name in wanted if not cache_names.is_cross(name)}
        return {name: array for name, array in outputs.items() if name in wanted}
