"""Reading and validation of txexport.json."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from txexport.bundle.form import Calibration, ExportOptions
from txexport.bundle.limits import BEYOND
from txexport.bundle.manifest import (
    FORMAT,
    OF_TRACED,
    OLDEST,
    STAGED,
    DataFile,
    GraphFile,
    Graphs,
    Manifest,
    Source,
)
from txexport.bundle.proof import Proof
from txexport.bundle.stages import check_stages, read_stages, stages_of
from txexport.contracts import OUTPUTS, Port, roles
from txexport.errors import BundleError, SpecError, damage
from txexport.formats import DTYPES
from txexport.parts import for_others, limits, roles_of
from txexport.spec import ModelSpec
from txexport.spec.serialization import from_dict
from txexport.support.arguments import check_fields
from txexport.support.paths import stays_inside


def parsed(path: Path, values: dict) -> Manifest:
    """The manifest in the JSON file `path`. Raises BundleError if it is invalid or not ours."""
    try:
        newest = FORMAT if values.get("traced") is None else OF_TRACED
        if values["format"] > newest:
            raise BundleError(
                f"{path} has format {values['format']}, this txexport reads up to {newest}; update it"
            )
        if values["format"] < OLDEST:
            raise BundleError(f"{path} is of an older txexport; export again")
        formats = {
            dtype: Graphs(
                _graph_files(graphs["native"]), _graph_files(graphs["hub"]), graphs.get("session_options", {})
            )
            for dtype, graphs in values.pop("formats").items()
        }
        data = {name: DataFile(**entry) for name, entry in values.pop("data").items()}
        recorded = values.pop("proof", None)
        proof = None if recorded is None else Proof(**recorded)
        source, form = Source(**values["source"]), _form(values["form"])
        stages = None
        if values["format"] >= STAGED:
            stages = read_stages(values.pop("stages"))
        elif "stages" in values:
            raise ValueError(f"stages are listed, but format {values['format']} has none")
        manifest = Manifest(
            **values | {"formats": formats, "data": data, "source": source, "form": form, "proof": proof}
        )
        graphs = manifest.every_graph
        for name in [*(graph.file for graph in graphs), *data, *manifest.companions]:
            if not stays_inside(name):
                raise BundleError(f"{path} names {name!r}, expected a path within its folder; export again")
        ports = [port for graph in graphs for port in (*graph.inputs, *graph.outputs)]
        entries = (manifest, source, form, *form.calibrated.values(), *graphs, *data.values(), *ports)
        for entry in (*entries, *([proof] if proof is not None else [])):
            check_fields(entry)
        _check_dtypes(form)
        if form.client not in (None, *roles.CLIENTS):
            raise ValueError(f"client is {form.client!r}, expected {', '.join(roles.CLIENTS)}")
        _check_options(formats)
        if len(set(form.outputs)) != len(form.outputs) or not set(form.outputs) <= set(OUTPUTS):
            raise ValueError(f"outputs are {form.outputs}, expected some of {', '.join(OUTPUTS)}")
        if not manifest.promised.keys() <= BEYOND.keys() or (
            manifest.promised and None in manifest.limits.values()
        ):
            raise ValueError(f"promised is {manifest.promised}, of limits {manifest.limits}")
        listed: list[tuple[str, Iterable[str], Iterable[str]]] = [("dtypes", formats, form.dtypes)]
        listed += _of_spec(manifest) if manifest.traced is None else []
        for key, names, expected in listed:
            if set(names) != set(expected):
                listed_roles = ", ".join(names) or "none"
                raise ValueError(
                    f"{key} are {listed_roles}, expected {', '.join(sorted(expected)) or 'none'}"
                )
        if stages is None:
            stages = stages_of(from_dict(ModelSpec, manifest.spec), form)
        manifest = replace(manifest, stages=stages)
        check_stages(manifest)
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError, SpecError) as error:
        raise BundleError(f"{path} is damaged: {damage(error)}; export again") from None


def _of_spec(manifest: Manifest) -> Iterator[tuple[str, Iterable[str], Iterable[str]]]:
    """The limits and the roles of graphs, and those that the spec has."""
    spec, form = from_dict(ModelSpec, manifest.spec), manifest.form
    native_roles = () if form.only == "hub" else roles_of(spec)
    others = () if form.only == "native" else for_others(spec, form.client)
    yield "limits", manifest.limits, limits(spec)
    for one in manifest.formats.values():
        yield from (("native graphs", one.native, native_roles), ("hub graphs", one.hub, others))


def _form(values: dict) -> ExportOptions:
    calibrated = {dtype: Calibration(**one) for dtype, one in values.get("calibrated", {}).items()}
    return ExportOptions(**values | {"calibrated": calibrated})


def _check_dtypes(form: ExportOptions) -> None:
    """Raise ValueError for unknown or repeated dtypes, and for a calibration of a dtype without one."""
    dtypes = form.dtypes
    if not dtypes or len(set(dtypes)) != len(dtypes) or not set(dtypes) <= DTYPES.keys():
        raise ValueError(f"dtypes are {dtypes}, expected some of {', '.join(DTYPES)}")
    if not form.calibrated.keys() <= {name for name in dtypes if DTYPES[name].calibrates}:
        raise ValueError(f"calibrated are {', '.join(form.calibrated)}, of dtypes {', '.join(dtypes)}")


def _check_options(formats: Mapping[str, Graphs]) -> None:
    """Raise ValueError for session options other than those of the dtype; older bundles have none."""
    for dtype, graphs in formats.items():
        expected = dict(DTYPES[dtype].session_options)
        if graphs.session_options not in ({}, expected):
            raise ValueError(f"session_options of {dtype} are {graphs.session_options}, expected {expected}")


def _graph_files(values: dict) -> dict[str, GraphFile]:
    return {
        role: GraphFile(
            graph["file"],
            [Port(**port) for port in graph["inputs"]],
            [Port(**port) for port in graph["outputs"]],
            graph["sha256"],
            graph.get("onnxruntime", ""),
            graph.get("captured", False),
        )
        for role, graph in values.items()
    }
