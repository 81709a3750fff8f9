"""What a case is tried on: something that runs a bundle's graphs by role."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from txexport.manifest import Manifest
from txexport.runtime.loaded_bundle import LoadedBundle


@dataclass(frozen=True)
class GraphRunner:
    """A loaded bundle, and `run`: the bundle's own, or one that keeps what passes or leaves outputs out.

    What a case generates comes from the bundle itself.
    """

    bundle: LoadedBundle
    run: Callable[..., dict[str, np.ndarray]]

    @property
    def manifest(self) -> Manifest:
        """What txexport.json says of the bundle."""
        return self.bundle.manifest


def runner_of(bundle: LoadedBundle) -> GraphRunner:
    """The bundle as it is."""
    return GraphRunner(bundle, bundle.run)
