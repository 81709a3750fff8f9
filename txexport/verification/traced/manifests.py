"""The manifests of traced bundles: made of a class and its graphs, and compared with what a bundle says."""

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
from txexport.verification.traced import inputs
from txexport.verification.traced.decoders import LIMIT, stage_of
from txexport.verification.traced.free_axes import TracedGraph, accepted_layout, longest_of
from txexport.verification.traced.originals import UNLIMITED, Original
from txexport.verification.traced.sequences import ENCODER_LIMIT, stages_of

BY_FILES = ("source", "companions", "data", "versions", "proof")  # which other checks compare


@dataclass(frozen=True)
class BundleFiles:
    """The files of a bundle as a manifest lists them, graphs by role, and the versions of what made them."""

    graphs: dict[str, GraphFile]
    data: dict[str, DataFile]
    source: Source
    companions: dict[str, str]
    versions: dict[str, str]


def decoder_manifest(judge: Original, written: BundleFiles, opset: int) -> Manifest:
    """The manifest of a decoder, as of a family's graph for other clients."""
    stage = stage_of(judge, written.graphs[roles.MODEL].inputs, roles.MODEL)
    return _steps_manifest(
        judge,
        written,
        form=ExportOptions(str(Cache.DYNAMIC), opset, only="hub", widened=True),
        formats={DEFAULT: Graphs({}, written.graphs)},
        stages={"native": [], "hub": [stage]},
        limits={LIMIT: _longest(judge)},
        task=tasks_of_method("generate")[0],
        spec={"type": "decoder"},
    )


def sequence_manifest(judge: Original, written: BundleFiles, opset: int) -> Manifest:
    """The manifest of an encoder-decoder, as of a family's graphs with a growing cache."""
    return _steps_manifest(
        judge,
        written,
        form=ExportOptions(str(Cache.DYNAMIC), opset, only="native", widened=True),
        formats={DEFAULT: Graphs(written.graphs, {})},
        stages={"native": stages_of(judge, written.graphs), "hub": []},
        limits={ENCODER_LIMIT: _longest(judge), LIMIT: _longest(judge)},
        task=tasks_of_method("generate")[1],
        spec={"type": "encoder_decoder"},
    )


def _longest(judge: Original) -> int | None:
    return None if judge.longest == UNLIMITED else judge.longest


def _steps_manifest(judge: Original, written: BundleFiles, **entries: Any) -> Manifest:
    return Manifest(
        model_type=judge.config.model_type,
        data=written.data,
        source=written.source,
        companions=written.companions,
        versions=written.versions,
        format=OF_TRACED,
        traced=judge.architecture,
        **entries,
    )


def one_pass_manifest(
    judge: Original, written: BundleFiles, opset: int, result: TracedGraph
) -> TracedManifest:
    """The manifest of a graph of the whole forward."""
    return TracedManifest(
        model_type=judge.config.model_type,
        architecture=judge.architecture,
        opset=opset,
        graph=written.graphs[roles.MODEL],
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
    manifest: Manifest | TracedManifest, judge: Original, ports: dict[str, tuple[list[Port], list[Port]]]
) -> Iterator[str]:
    """The entries of a manifest that are not what an export of the class writes for graphs of these ports.

    `ports` are the inputs and outputs by file. Reasons of limits are not compared. Least sizes are compared
    by cases.
    """
    graphs = {
        role: replace(graph, inputs=ports[graph.file][0], outputs=ports[graph.file][1])
        for role, graph in graphs_of(manifest).items()
    }
    written = BundleFiles(
        graphs,
        manifest.data,
        manifest.source,
        manifest.companions,
        manifest.versions,
    )
    if isinstance(manifest, Manifest):
        make = sequence_manifest if roles.DECODER in graphs else decoder_manifest
        expected: Any = make(judge, written, manifest.form.opset)
    else:
        layout, sizes = accepted_layout(judge)
        varied = [axis for axis in inputs.axes_of(layout) if _is_free(axis, manifest, graphs[roles.MODEL])]
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


def graphs_of(manifest: Manifest | TracedManifest) -> dict[str, GraphFile]:
    """The graphs of a traced bundle by role."""
    if isinstance(manifest, TracedManifest):
        return {roles.MODEL: manifest.graph}
    formats = manifest.formats[DEFAULT]
    return formats.native or formats.hub


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
