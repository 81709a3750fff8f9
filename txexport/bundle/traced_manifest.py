"""The txexport.json of a traced bundle, whose graph transformers' exporter made."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from txexport.bundle.manifest import MANIFEST, OF_TRACED, DataFile, GraphFile, Source
from txexport.bundle.proof import Proof
from txexport.contracts import Port
from txexport.errors import BundleError, damage
from txexport.support.arguments import check_fields
from txexport.support.paths import stays_inside

TRACED = "traced"  # the value of `kind`; a bundle with graphs of ours has none


@dataclass(frozen=True)
class TracedManifest:
    """The content of a traced bundle's txexport.json.

    `architecture` is the class of transformers. `graph` is the one graph, `data` its weights by path.
    `layout` has the axes of each input by name, `sizes` the size of each axis in the trace, `varied` the axes
    that may have other sizes, `least` and `most` the smallest and largest sizes of those that have one.
    `limits` has the reason for each axis that is fixed or has a least size. `companions` are the files copied
    from the checkpoint, with their SHA-256.
    """

    model_type: str
    architecture: str
    opset: int
    graph: GraphFile
    data: dict[str, DataFile]
    layout: dict[str, list[str]]
    sizes: dict[str, int]
    varied: list[str]
    least: dict[str, int]
    most: dict[str, int]
    limits: dict[str, str]
    source: Source
    companions: dict[str, str]
    versions: dict[str, str]
    kind: str = TRACED
    format: int = OF_TRACED
    proof: Proof | None = field(default=None)

    @property
    def traced(self) -> str:
        """The class of transformers, by the name that a manifest of a decoder has for it."""
        return self.architecture

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of each input by name."""
        return {name: tuple(axes) for name, axes in self.layout.items()}

    @property
    def limited(self) -> list[str]:
        """The limits in words."""
        return [f"{axis} is {self._bound(axis)}: {why}" for axis, why in self.limits.items()]

    def reason(self, axis: str, size: int) -> str:
        """The reason why an axis cannot have a size that `takes` refuses."""
        if axis in self.varied and size > self.most.get(axis, size):
            return f"the model has {self.most[axis]} positions"
        return f"{axis} is {self._bound(axis)}: {self.limits.get(axis, 'the graph is fixed')}"

    def _bound(self, axis: str) -> str:
        least = self.least.get(axis)
        return f"{self.sizes[axis]} always" if least is None else f"{least} or more"

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Tell whether axes may have these sizes."""
        return all(
            size == self.sizes[axis]
            or (axis in self.varied and self.least.get(axis, 0) <= size <= self.most.get(axis, size))
            for axis, size in sizes.items()
        )

    @property
    def every_graph(self) -> list[GraphFile]:
        """All graphs: the one."""
        return [self.graph]

    @property
    def files(self) -> list[str]:
        """Every file of the bundle, as paths below its folder."""
        return [MANIFEST, *self.data, self.graph.file, *self.companions]

    @property
    def sha256(self) -> str:
        """SHA-256 of the manifest without its proof."""
        values = dataclasses.asdict(dataclasses.replace(self, proof=None))
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    def write(self, path: Path) -> None:
        """Write this as txexport.json at `path`."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")


def parsed(path: Path, values: dict) -> TracedManifest:
    """The manifest in the JSON file `path`. Raises BundleError if it is invalid, or of a newer txexport."""
    try:
        if values["format"] > OF_TRACED:
            raise BundleError(
                f"{path} has format {values['format']}, this txexport reads up to {OF_TRACED}; update it"
            )
        graph = values["graph"]
        ports = {kind: [Port(**port) for port in graph[kind]] for kind in ("inputs", "outputs")}
        proof = values.get("proof")
        manifest = TracedManifest(
            **values
            | {
                "graph": GraphFile(**graph | ports),
                "data": {name: DataFile(**entry) for name, entry in values["data"].items()},
                "source": Source(**values["source"]),
                "proof": None if proof is None else Proof(**proof),
            }
        )
        entries = [manifest, manifest.graph, manifest.source, *manifest.data.values()]
        entries += [*ports["inputs"], *ports["outputs"], *([manifest.proof] if manifest.proof else [])]
        for entry in entries:
            check_fields(entry)
        axes = {axis for one in manifest.layout.values() for axis in one}
        if (
            not axes <= manifest.sizes.keys()
            or not {*manifest.varied, *manifest.least, *manifest.most, *manifest.limits} <= axes
        ):
            raise ValueError(f"axes are {', '.join(sorted(axes))}, and others have sizes or limits")
        if not {port.name for port in ports["inputs"]} <= manifest.layout.keys():
            raise ValueError(f"the layout has {', '.join(manifest.layout)}, expected every input")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path} is damaged: {damage(error)}; export again") from None
    for name in manifest.files:
        if not stays_inside(name):
            raise BundleError(f"{path} names {name!r}, expected a path within its folder; export again")
    return manifest
