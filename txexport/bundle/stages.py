"""The stages in txexport.json: derived from the architecture by export, and checked when they are read."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import GraphFile, Manifest
from txexport.contracts import ECOSYSTEM, SHARED, of_cache, roles
from txexport.contracts.stage import SOURCES, STEP, GraphFacts, Stage
from txexport.parts import for_others, stages
from txexport.spec import ModelSpec
from txexport.spec.serialization import from_dict
from txexport.support.arguments import check_fields


def stages_of(spec: ModelSpec, options: ExportOptions) -> dict[str, list[Stage]]:
    """The stages of the native and the hub graphs of a bundle, in running order."""
    result: dict[str, list[Stage]] = {"native": [], "hub": []}
    if options.only != "hub":
        result["native"] = stages(spec, of_cache(options.cache))
    if options.only != "native":
        written = for_others(spec, options.client)
        every = stages(spec, ECOSYSTEM) + (stages(spec, SHARED) if roles.SHARED in written else [])
        result["hub"] = [_among(stage, written) for stage in every if stage.role in written]
    return result


def with_native_roles(manifest: Manifest) -> Manifest:
    """A manifest whose hub graphs have the roles, inputs and stages of native ones with its cache."""
    spec = from_dict(ModelSpec, manifest.spec)
    known = [stage for stage in stages(spec, of_cache(manifest.cache)) if stage.role in manifest.hub]
    return replace(manifest, stages={"native": [], "hub": known})


def _among(stage: Stage, written: Iterable[str]) -> Stage:
    return replace(stage, instead_of=[role for role in stage.instead_of if role in written])


def read_stages(values: Any) -> dict[str, list[Stage]]:
    """The stages of their JSON. Raises TypeError, KeyError or AttributeError for any other value."""
    if not isinstance(values, dict) or values.keys() != {"native", "hub"}:
        raise TypeError(f"stages are a {type(values).__name__}, expected those of native and hub")
    return {kind: [_stage(one) for one in entries] for kind, entries in values.items()}


def _stage(values: dict[str, Any]) -> Stage:
    stage = Stage(**values | {"facts": GraphFacts(**values.get("facts", {}))})
    check_fields(stage)
    check_fields(stage.facts)
    return stage


def check_stages(manifest: Manifest) -> None:
    """Raise ValueError if the stages contradict the graphs, or each other."""
    for graphs in manifest.formats.values():
        for kind, files in (("native", graphs.native), ("hub", graphs.hub)):
            listed = manifest.stages[kind]
            if sorted(stage.role for stage in listed) != sorted(files):
                wrong = ", ".join(stage.role for stage in listed) or "none"
                raise ValueError(f"{kind} stages are {wrong}, expected {', '.join(files) or 'none'}")
            if listed and manifest.cache is not None and not any(stage.when == STEP for stage in listed):
                raise ValueError(f"no {kind} stage runs at every step, but there is a cache")
            known = set(SOURCES)
            for stage in listed:
                _check_inputs(stage, files[stage.role], known)
                _check_facts(stage, files, manifest.limits)
                ports = (*files[stage.role].inputs, *files[stage.role].outputs)
                known |= {f"{stage.role}.{port.name}" for port in ports}


def _check_inputs(stage: Stage, graph: GraphFile, known: set[str]) -> None:
    """Raise ValueError for other inputs than the graph's, and for a source that no earlier stage has."""
    if stage.inputs.keys() != {port.name for port in graph.inputs}:
        raise ValueError(f"stage {stage.role} has inputs {', '.join(stage.inputs)}, expected the graph's")
    for name, source in stage.inputs.items():
        if source not in known:
            raise ValueError(f"stage {stage.role} takes {name} from {source!r}, which no earlier stage has")


def _check_facts(stage: Stage, files: Mapping[str, GraphFile], limits: Mapping[str, int | None]) -> None:
    """Raise ValueError for facts that the graph cannot have."""
    facts, outputs = stage.facts, [port.name for port in files[stage.role].outputs]
    tokens = (facts.pad_token_id or 0, facts.eos_token_id or 0)
    samples = (facts.least_samples, facts.vector_stride, facts.layer_stride, facts.filter_width)
    numbers = (facts.vocab_size, facts.prefix_tokens, *samples, *tokens)
    if min(numbers) < 0 or bool(facts.vocab_size) != (stage.ids_source is not None):
        raise ValueError(f"stage {stage.role} has {facts}, which do not fit its inputs")
    if facts.limit is not None and facts.limit not in limits:
        raise ValueError(f"stage {stage.role} has limit {facts.limit!r}, expected one of {', '.join(limits)}")
    if facts.pads_to_limit and (facts.limit is None or limits[facts.limit] is None):
        raise ValueError(f"stage {stage.role} pads to a limit, but has none")
    if facts.vector is not None and facts.vector not in outputs:
        raise ValueError(f"stage {stage.role} has vector {facts.vector!r}, expected an output")
    if unknown := [role for role in stage.instead_of if role not in files or role == stage.role]:
        raise ValueError(f"stage {stage.role} runs instead of {unknown[0]!r}, which is no other stage")
