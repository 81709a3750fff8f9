"""The manifests of traced bundles: made of a class and its graph, and compared with what a bundle says."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from txexport.bundle import Manifest, TracedManifest
from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import OF_TRACED, DataFile, GraphFile, Graphs, Source
from txexport.contracts import Port, roles
from txexport.formats import DEFAULT
from txexport.spec import Cache
from txexport.tasks import tasks_of_method
from txexport.verification.traced import cases, inputs
from txexport.verification.traced.decoders import LIMIT, stage_of
from txexport.verification.traced.free_axes import TracedGraph, accepted_layout, longest_of
from txexport.verification.traced.originals import UNLIMITED, Original

BY_FILES = ("source", "companions", "data", "versions", "proof")  # which other checks compare


@dataclass(frozen=True)
class BundleFiles:
    """The files of a bundle as a manifest lists them, and the versions of what made them."""

    graph: GraphFile
    data: dict[str, DataFile]
    source: Source
    companions: dict[str, str]
    versions: dict[str, str]


def decoder_manifest(judge: Original, written: BundleFiles, opset: int) -> Manifest:
    """The manifest of a decoder, as of a family's graph for other clients."""
    longest = judge.longest
    return Manifest(
        model_type=judge.config.model_type,
        task=tasks_of_method("generate")[0],
        form=ExportOptions(str(Cache.DYNAMIC), opset, only="hub", widened=True),
        formats={DEFAULT: Graphs({}, {roles.MODEL: written.graph})},
        data=written.data,
        limits={LIMIT: None if longest == UNLIMITED else longest},
        spec={"type": "decoder"},
        source=written.source,
        companions=written.companions,
        versions=written.versions,
        format=OF_TRACED,
        stages={"native": [], "hub": [stage_of(judge, written.graph.inputs, roles.MODEL)]},
        traced=judge.architecture,
    )


def one_pass_manifest(
    judge: Original, written: BundleFiles, opset: int, result: TracedGraph
) -> TracedManifest:
    """The manifest of a graph of the whole forward."""
    return TracedManifest(
        model_type=judge.config.model_type,
        architecture=judge.architecture,
        opset=opset,
        graph=written.graph,
        data=written.data,
        layout={name: list(axes) for name, axes in result.layout.items()},
        sizes={axis: result.sizes[axis] for axes in result.layout.values() for axis in axes},
        varied=result.varied,
        least=result.least,
        most=result.most,
        limits=result.limits,
        source=written.source,
        companions=written.companions,
        versions=written.versions,
    )


def contradictions(
    manifest: Manifest | TracedManifest, judge: Original, ports: tuple[list[Port], list[Port]]
) -> Iterator[str]:
    """The entries of a manifest that are not what an export of the class writes for a graph of these ports.

    Reasons of limits are not compared. Least sizes are compared by cases.
    """
    [graph] = manifest.every_graph
    written = BundleFiles(
        replace(graph, inputs=ports[0], outputs=ports[1]),
        manifest.data,
        manifest.source,
        manifest.companions,
        manifest.versions,
    )
    if isinstance(manifest, Manifest):
        expected: Any = decoder_manifest(judge, written, manifest.form.opset)
    else:
        sizes = cases.base_sizes(judge)
        layout = accepted_layout(judge, sizes)
        varied = [axis for axis in inputs.axes_of(layout) if _is_free(axis, manifest, written.graph)]
        if inputs.BATCH not in varied:
            sizes[inputs.BATCH] = 1
        fixed = [axis for axis in inputs.axes_of(layout) if axis not in varied]
        limits = {axis: manifest.limits.get(axis, "") for axis in [*fixed, *manifest.least]}
        result = TracedGraph(None, layout, sizes, varied, limits, manifest.least, longest_of(judge, varied))
        expected = one_pass_manifest(judge, written, manifest.opset, result)
    for entry in fields(manifest):
        name = entry.name
        if name not in BY_FILES and getattr(manifest, name) != getattr(expected, name):
            yield f"txexport.json: {name} is not as export writes it"


def _is_free(axis: str, manifest: TracedManifest, graph: GraphFile) -> bool:
    """Tell whether an axis is free in the graph's inputs; of one that none reads, the manifest tells."""
    dims = [
        dim
        for port in graph.inputs
        for one, dim in zip(
            manifest.layout.get(port.name.removeprefix("input."), []), port.shape, strict=False
        )
        if one == axis
    ]
    return all(dim == axis for dim in dims) if dims else axis in manifest.varied
