"""The runner of a bundle's graphs that a case calls by role."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.contracts import roles
from txexport.contracts.meaning import NUMBERS, Meaning, meaning_of
from txexport.runtime.loaded_bundle import LoadedBundle


@dataclass(frozen=True)
class GraphRunner:
    """A loaded bundle, and the function that runs its graphs: the bundle's own, or one that wraps it.

    `left_out` are the outputs that `run` omits. Generation uses the bundle itself.
    """

    bundle: LoadedBundle
    run: Callable[..., dict[str, np.ndarray]]
    left_out: frozenset[str] = frozenset()

    @property
    def manifest(self) -> Manifest:
        """The manifest of the bundle."""
        return self.bundle.manifest

    @property
    def generating(self) -> str | None:
        """The file of a decoder that generates alone, None for an encoder-decoder."""
        return None if self.bundle.is_encoder_decoder else self.file(roles.MODEL)

    def file(self, role: str) -> str:
        """The file of the graph of a role."""
        return self.manifest.graphs[role].file

    def meaning(self, output: str) -> Meaning:
        """The meaning of an output of the graphs; plain numbers for one that a case computes itself."""
        declared = {port.name for graph in self.manifest.graphs.values() for port in graph.outputs}
        return meaning_of(output) if output in declared else NUMBERS


def runner_of(bundle: LoadedBundle) -> GraphRunner:
    """The runner of an unmodified bundle; errors of a graph have the graph's file as a note.

    Numbers are float32 everywhere; graphs that compute in float16 get them, and give them, as float16.
    """

    def run(role: str | None = None, /, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        graph = bundle.manifest.graphs[role or next(iter(bundle.manifest.graphs))]
        halves = {port.name for port in graph.inputs if port.dtype == "float16"}
        try:
            outputs = bundle.run(
                role, **{name: _half(one) if name in halves else one for name, one in inputs.items()}
            )
            return {name: _single(one) for name, one in outputs.items()}
        except Exception as error:
            if role is not None:
                error.add_note(bundle.manifest.graphs[role].file)
            raise

    return GraphRunner(bundle, run)


def _half(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16) if array.dtype == np.float32 else array


def _single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float16 else array
