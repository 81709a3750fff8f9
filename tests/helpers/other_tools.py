"""Exports as other tools write them, made on the spot: by PyTorch's exporter, or in optimum's layout."""

import shutil
import warnings
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper

AXES = ("batch_size", "sequence_length")


def torch_export(module: torch.nn.Module, path: Path, inputs: dict, outputs: list[str]) -> Path:
    """`module` by torch.onnx.export, with batch and sequence free; inputs (B,S)."""
    dims = {0: torch.export.Dim(AXES[0]), 1: torch.export.Dim(AXES[1], min=2, max=40)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            *(module, (), path),
            kwargs=inputs,
            input_names=list(inputs),
            output_names=outputs,
            dynamo=True,
            verbose=False,
            dynamic_shapes={name: dict(dims) for name in inputs},
        )
    return path


def without_manifest(bundle: Path, folder: Path) -> Path:
    """A bundle's files without what says that it is one."""
    shutil.copytree(bundle, folder)
    (folder / "txexport.json").unlink()
    return folder


def as_optimum(bundle: Path, folder: Path) -> Path:
    """A dynamic encoder-decoder bundle as encoder, decoder, decoder_with_past, and merged decoder."""
    without_manifest(bundle, folder)
    encoder, decoder = (
        onnx.load(folder / f"{name}_model.onnx", load_external_data=False) for name in ("encoder", "decoder")
    )
    first = _first_decoder(encoder, decoder)
    del encoder.graph.output[1:]
    onnx.save(encoder, folder / "encoder_model.onnx")
    onnx.save(decoder, folder / "decoder_with_past_model.onnx")
    onnx.save(first, folder / "decoder_model.onnx")
    onnx.save(_merged(first, decoder), folder / "decoder_model_merged.onnx")
    return folder


def _first_decoder(encoder: onnx.ModelProto, decoder: onnx.ModelProto) -> onnx.ModelProto:
    """The decoder over an empty cache, which makes the encoder's keys and values of its hidden states."""
    made = onnx.ModelProto()
    made.CopyFrom(decoder)
    hidden, *cross = [output.name for output in encoder.graph.output]
    nodes, wanted = [], set(cross)
    for node in reversed(encoder.graph.node):
        if wanted & set(node.output) and hidden not in node.output:
            nodes.insert(0, node)
            wanted |= set(node.input)
    nodes.insert(0, helper.make_node("Identity", ["encoder_hidden_states"], [hidden]))
    nodes += [helper.make_node("Identity", [name], [_past(name)]) for name in cross]
    nodes += [
        helper.make_node("Shape", ["input_ids"], ["rows"], start=0, end=1),
        helper.make_node("Constant", [], ["none"], value_ints=[0]),
    ]
    for port in decoder.graph.input:
        if ".decoder." in port.name:
            heads, size = (port.type.tensor_type.shape.dim[i].dim_value for i in (1, 3))
            nodes += [
                helper.make_node("Constant", [], [f"{port.name}.heads"], value_ints=[heads]),
                helper.make_node("Constant", [], [f"{port.name}.size"], value_ints=[size]),
                helper.make_node(
                    *("Concat", ["rows", f"{port.name}.heads", "none", f"{port.name}.size"]),
                    *([f"{port.name}.shape"],),
                    axis=0,
                ),
                helper.make_node("ConstantOfShape", [f"{port.name}.shape"], [port.name]),
            ]
    kept = [port for port in decoder.graph.input if not port.name.startswith("past_key_values.")]
    states = encoder.graph.output[0]
    states.name, given = hidden, onnx.ValueInfoProto()
    given.CopyFrom(states)
    given.name = "encoder_hidden_states"
    del made.graph.input[:], made.graph.node[:], made.functions[:]
    made.graph.input.extend([*kept, given])
    made.graph.node.extend([*nodes, *decoder.graph.node])
    made.graph.output.extend(encoder.graph.output[1:])
    known = {tensor.name for tensor in decoder.graph.initializer}
    used = {name for node in nodes for name in node.input}
    made.graph.initializer.extend(
        tensor for tensor in encoder.graph.initializer if tensor.name in used - known
    )
    functions = {(f.domain, f.name): f for model in (encoder, decoder) for f in model.functions}
    made.functions.extend(functions.values())
    return made


def _past(name: str) -> str:
    return name.replace("present", "past_key_values", 1)


def _merged(first: onnx.ModelProto, later: onnx.ModelProto) -> onnx.ModelProto:
    """Both decoders in one graph, of which `use_cache_branch` picks one."""
    made = onnx.ModelProto()
    made.CopyFrom(first)
    names = [output.name for output in first.graph.output]
    own = {output.name for output in later.graph.output}
    empty = [helper.make_node("Identity", [_past(name)], [name]) for name in names if name not in own]
    branches = [
        _branch("then", [*later.graph.node, *empty], first.graph.output),
        _branch("else", first.graph.node, first.graph.output),
    ]
    choice = helper.make_node(
        *("If", ["use_cache_branch"], names), then_branch=branches[0], else_branch=branches[1]
    )
    del made.graph.node[:]
    made.graph.node.append(choice)
    taken = {port.name for port in made.graph.input}
    made.graph.input.extend(port for port in later.graph.input if port.name not in taken)
    made.graph.input.append(helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]))
    return made


def _branch(prefix: str, nodes, outputs) -> onnx.GraphProto:
    """A subgraph of those nodes, whose names are its own."""
    made = {name for node in nodes for name in node.output}
    renamed = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [f"{prefix}.{name}" if name in made else name for name in node.input]
        copy.output[:] = [f"{prefix}.{name}" for name in node.output]
        renamed.append(copy)
    ports = []
    for output in outputs:
        port = onnx.ValueInfoProto()
        port.CopyFrom(output)
        port.name = f"{prefix}.{output.name}"
        ports.append(port)
    return helper.make_graph(renamed, prefix, [], ports)
