"""What a case is tried on: something that runs a bundle's graphs by role."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.contracts import roles
from txexport.runtime.loaded_bundle import LoadedBundle


@dataclass(frozen=True)
class GraphRunner:
    """A loaded bundle, and `run`: the bundle's own, or one that keeps what passes or leaves outputs out.

    What a case generates comes from the bundle itself. `left_out` are the outputs which `run` leaves out.
    """

    bundle: LoadedBundle
    run: Callable[..., dict[str, np.ndarray]]
    left_out: frozenset[str] = frozenset()

    @property
    def manifest(self) -> Manifest:
        """What txexport.json says of the bundle."""
        return self.bundle.manifest

    @property
    def generating(self) -> str | None:
        """The file of the graph that generates alone, None where one stands behind an encoder."""
        return None if self.bundle.has_encoder else self.file(roles.MODEL)

    def file(self, role: str) -> str:
        """Where the bundle has the graph of a role."""
        return self.manifest.graphs[role].file


def runner_of(bundle: LoadedBundle) -> GraphRunner:
    """The bundle as it is; what a graph raises has the graph's file as a note."""

    def run(role: str | None = None, /, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        try:
            return bundle.run(role, **inputs)
        except Exception as error:
            if role is not None:
                error.add_note(bundle.manifest.graphs[role].file)
            raise

    return GraphRunner(bundle, run)
