"""The OpenVINO engine, in float32 by default or in bfloat16.

OpenVINO does not support model-local functions, so it runs the flat graphs for other clients. Where these are
split differently from the native graphs, they are recombined when they are loaded: the cross-attention keys
and values, which a decoder's first step computes, move into the encoder, and the scores of text and image
vectors become a graph. A decoder takes `logits_indices` as the native one does: of a prompt, only the last
token's logits are computed.
"""

import dataclasses
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from txexport import bundle
from txexport.bundle.manifest import Manifest, rounds_activations
from txexport.bundle.stages import with_native_roles
from txexport.contracts import cache_names, roles, static
from txexport.contracts.compared import compared_in
from txexport.contracts.names import (
    ENCODER_HIDDEN_STATES,
    LAST_HIDDEN_STATE,
    LOGITS_INDICES,
    LOGITS_PER_TEXT,
    TEXT_EMBEDS,
)
from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime import cpus
from txexport.runtime.engines import BFLOAT16, FLOAT32, Opened
from txexport.runtime.engines.computed import Arrays, Compute, Computed
from txexport.runtime.session import Session
from txexport.support import telemetry

with telemetry.openvino_without_telemetry():
    import openvino
    import openvino.passes

    from txexport.runtime.engines.openvino_logits import pick_logits

NAME = "OpenVINO"
# Tasks whose graphs other clients split otherwise.
APART = ("mask-generation", "zero-shot-object-detection", "visual-document-retrieval")
DESCRIBED = ("image-segmentation",)  # the same of models that read texts in place of labels
LINKED = (
    f"{NAME} does not open weights behind symbolic links, as in a model hub's cache; download the files "
    "themselves (snapshot_download with local_dir), or export with --single-file"
)
WRONG_IF = f"{NAME} 2026.4 may compute these wrongly when an input shape is new"
# Without a hint, OpenVINO computes in bfloat16 or float16 where a processor supports it.
ROUNDED_TOGETHER = "DYNAMIC_QUANTIZATION_GROUP_SIZE"  # activations that share an int8 scale; 0 for none
HINTS = {FLOAT32: "f32", BFLOAT16: "bf16"}
[PICKS] = [port for port in static.STEP if port.name == LOGITS_INDICES]

Read = Callable[[str], openvino.Model]  # the graph of a role


def open_graphs(
    folder: Path, manifest: Manifest, device: str | None, threads: int | None, precision: str
) -> Opened:
    """See engines.Open."""
    check_weights(folder, manifest)
    core = openvino.Core()
    where = _known(core, device or "cpu")
    if precision == BFLOAT16 and "BF16" not in core.get_property(where.upper(), "OPTIMIZATION_CAPABILITIES"):
        raise InputError(f"there is no {BFLOAT16} on this {where}; leave the precision out")
    view = _view(folder, manifest)

    def read(role: str) -> openvino.Model:
        return read_graph(core, folder / manifest.hub[role].file)

    sessions = {}
    for role, graph in view.hub.items():
        model, inputs = _model(role, read), list(graph.inputs)
        if any(map(cache_names.is_past, (port.name for port in inputs))) and pick_logits(model):
            inputs.append(PICKS)
        compute = compiled(core, model, where, threads, precision, manifest.session_options)
        sessions[role] = Session(Computed(inputs, graph.outputs, compute), where, NAME)
    return Opened(view, where, sessions)


def check_weights(folder: Path, manifest: Manifest) -> None:
    """Raise BundleError for weights that OpenVINO does not open."""
    if bundle.has_linked_weights(folder, manifest):
        raise BundleError(f"{folder}: {LINKED}")


def read_graph(core: openvino.Core, path: Path) -> openvino.Model:
    """A graph as OpenVINO's model. Raises BundleError for one that it cannot load, or may compute wrongly."""
    model: openvino.Model = _loaded(core.read_model, path, path)
    if any(node.get_type_name() == "If" for node in model.get_ops()):
        raise BundleError(f"{path} has If nodes; {WRONG_IF}; export with --for openvino")
    return model


def from_file(path: Path, session_options: Mapping[str, str]) -> Compute:
    """A graph on the CPU, in float32. Raises RuntimeError for a graph that OpenVINO does not support."""
    core = openvino.Core()
    return compiled(core, core.read_model(path), "cpu", None, FLOAT32, session_options)


def compiled(
    core: openvino.Core,
    model: openvino.Model,
    device: str,
    threads: int | None,
    precision: str,
    session_options: Mapping[str, str],
) -> Compute:
    """A thread-safe function of a model's inputs by name. Raises BundleError as `_loaded`.

    `session_options` are the manifest's: activations are quantised where these options say so for ONNX
    Runtime.
    """
    settings: dict[str, object] = {"INFERENCE_PRECISION_HINT": HINTS[precision]}
    if not rounds_activations(session_options):
        settings[ROUNDED_TOGETHER] = 0
    if threads is None and device == "cpu":
        threads = cpus.fewer()
    if threads:
        settings["INFERENCE_NUM_THREADS"] = threads
    if device == "cpu":  # pinned, all models and processes would use the same cores
        settings["ENABLE_CPU_PINNING"] = False
    network = _loaded(
        lambda one: core.compile_model(one, device.upper(), settings), model, model.get_friendly_name()
    )

    creating = threading.Lock()  # concurrent creation of requests crashes the process

    def compute(feeds: Arrays) -> Arrays:
        with creating:
            request = network.create_infer_request()  # one a run, which owns its outputs
        result = request.infer(dict(feeds), share_inputs=True, share_outputs=True)
        return {name: array for port, array in result.items() for name in port.get_names()}

    return compute


def _known(core: openvino.Core, device: str) -> str:
    """The name of a device in lower case. Raises InputError for a device that is not available."""
    there = [name.lower() for name in core.available_devices]
    if device.lower() not in there:
        raise InputError(f"device '{device}' is not there; {NAME} has {', '.join(there)} here")
    return device.lower()


def _loaded(load: Callable[[Any], Any], what: Any, name: object) -> Any:
    """The result of `load`. Raises BundleError with the last line of OpenVINO's message."""
    try:
        return load(what)
    except RuntimeError as error:
        reason = [line for line in str(error).splitlines() if line.strip()][-1].removeprefix("-- ")
        raise BundleError(f"{NAME} cannot load {name}: {reason}") from None


def _view(folder: Path, manifest: Manifest) -> Manifest:
    """The manifest for the graphs that OpenVINO runs, with the roles of the native graphs."""
    hub = manifest.hub
    if hub and (manifest.task in APART or (roles.TEXT in hub and manifest.task in DESCRIBED)):
        raise UnsupportedError(
            f"{folder} is for {manifest.task}, whose graphs {NAME} does not run; leave the engine out"
        )
    if {roles.ENCODER, roles.DECODER, roles.DECODER_WITH_PAST} <= hub.keys():
        cross = [port for port in hub[roles.DECODER].outputs if _is_cross(port.name)]
        encoder = dataclasses.replace(hub[roles.ENCODER], outputs=[*hub[roles.ENCODER].outputs, *cross])
        graphs = {roles.ENCODER: encoder, roles.DECODER: hub[roles.DECODER_WITH_PAST]}
    elif roles.TEXT in hub:
        outputs = {port.name: port for port in hub[roles.MODEL].outputs}
        other = compared_in(outputs)
        inputs = [outputs[name] for name in (TEXT_EMBEDS, other.vectors)]
        scores = [outputs[name] for name in (LOGITS_PER_TEXT, other.scores)]
        similarity = dataclasses.replace(hub[roles.MODEL], inputs=inputs, outputs=scores)
        graphs = {role: hub[role] for role in (roles.TEXT, other.role)} | {roles.SIMILARITY: similarity}
    elif roles.MODEL in hub:
        graphs = {roles.MODEL: hub[roles.MODEL]}
    else:
        raise BundleError(
            f"{folder} lacks graphs for other clients that {NAME} runs; export without --only native, "
            "and without --for web or cuda"
        )
    entry = dataclasses.replace(manifest.formats[manifest.dtype], native={}, hub=graphs)
    formats = {manifest.dtype: entry}
    view = dataclasses.replace(manifest.for_others, formats=formats, limits=manifest.limits)
    return with_native_roles(view)


def _model(role: str, read: Read) -> openvino.Model:
    """The graph of a role of `_view`."""
    if role == roles.ENCODER:
        return _with_cross(read(roles.ENCODER), read(roles.DECODER))
    if role == roles.SIMILARITY:
        return _scores(read(roles.MODEL))
    return read(roles.DECODER_WITH_PAST if role == roles.DECODER else role)


def _with_cross(encoder: openvino.Model, first: openvino.Model) -> openvino.Model:
    """The encoder with cross-attention keys and values, which `first` computes from its output."""
    hidden = encoder.output(LAST_HIDDEN_STATE).get_node().input_value(0)
    for target in first.input(ENCODER_HIDDEN_STATES).get_target_inputs():
        target.replace_source_output(hidden)
    cross = [port.get_node() for port in first.outputs if _is_cross(port.get_any_name())]
    return openvino.Model([*encoder.get_results(), *cross], encoder.get_parameters(), roles.ENCODER)


def _scores(towers: openvino.Model) -> openvino.Model:
    """The subgraph after the vectors in a graph with a text encoder and one of images or sounds."""
    vectors, other = [], compared_in({port.get_any_name() for port in towers.outputs})
    for name in (TEXT_EMBEDS, other.vectors):
        source = towers.output(name).get_node().input_value(0)
        vector = openvino.opset13.parameter(source.get_partial_shape(), source.get_element_type(), name)
        vector.output(0).get_tensor().set_names({name})
        source.replace(vector.output(0))
        vectors.append(vector)
    scores = [towers.output(name).get_node() for name in (LOGITS_PER_TEXT, other.scores)]
    return openvino.Model(scores, vectors, roles.SIMILARITY)


def _is_cross(name: str) -> bool:
    return cache_names.is_present(name) and cache_names.is_cross(name)
