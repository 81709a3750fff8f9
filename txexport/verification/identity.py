"""Comparison of a bundle's graphs with those that export writes for its checkpoint, node by node.

Cases sample a graph and cannot see its behaviour on other inputs. Export is deterministic, so every node,
attribute and constant can be compared. Graphs of other library versions may differ in names of values and in
notes, but not in what they compute.
"""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message
from onnx.helper import get_attribute_value

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.exporter.bundle_plan import LEAST_RUNTIME, BundlePlan, to_proto
from txexport.exporter.bundle_writing import versions
from txexport.families import Resolved
from txexport.inspection.graph_stats import initializers
from txexport.support.paths import sha256
from txexport.verification.checks import BY_STRUCTURE, SkipError, TensorCheck

Body = onnx.GraphProto | onnx.FunctionProto

WRITERS = (
    "txexport",
    "onnx",
    "onnx-ir",
    "onnxscript",
    "numpy",
    "python",
)  # they write graphs
NOTES = ("doc_string", "metadata_props", "producer_name", "producer_version")  # ignored by runtimes
SHOWN = 60  # characters shown of each side of a difference


def check_graphs(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved, allow_edited: bool = False
) -> list[TensorCheck]:
    """Compare every graph with the one that export writes.

    Raises AssertionError for a different graph, with its first difference, or SkipError if `allow_edited`;
    and AssertionError if txexport.json contradicts the files.
    """
    plan = BundlePlan(checkpoint, resolved, manifest.form)
    for dtype, of_dtype in plan.dtypes.items():
        graphs = manifest.formats[dtype]
        for kind, planned, given in (
            ("native", of_dtype.native, graphs.native),
            ("hub", of_dtype.hub, graphs.hub),
        ):
            files = {one.role: one.path for one in planned}
            listed = {role: graph.file for role, graph in given.items()}
            if listed != files:
                raise AssertionError(f"txexport.json: {kind} graphs are {listed}, expected {files}")
    recorded = {graph.file: graph for graph in manifest.every_graph}
    differences, checks = {}, []
    for one, model in plan.models(folder):
        if not recorded[one.path].onnxruntime:  # written by an older txexport
            del model.metadata_props[LEAST_RUNTIME]
        content, expected = (folder / one.path).read_bytes(), to_proto(model)
        if manifest.form.single_file:
            content = _with_pointers(content, expected)
        difference, note = _compared(content, expected, manifest)
        if difference is not None:
            differences[one.path] = difference
        elif sha256(folder / one.path) != recorded[one.path].sha256:
            raise AssertionError(f"txexport.json: sha256 of {one.path} is not that of the file")
        checks.append(TensorCheck(one.path + note, 1, 0.0, 0.0))
    if differences:
        _raise(differences, manifest, allow_edited)
    return checks


def _with_pointers(content: bytes, expected: onnx.ModelProto) -> bytes:
    """A graph with weights inside, with pointers in their place; the weights are checked elsewhere."""
    try:
        found = onnx.load_model_from_string(content)
    except DecodeError:
        return content
    known = {tensor.name: tensor for tensor in initializers(expected.graph)}
    for tensor in initializers(found.graph):
        other = known.get(tensor.name, onnx.TensorProto())
        same = (tensor.data_type, tensor.dims) == (other.data_type, other.dims)
        if same and other.data_location == onnx.TensorProto.EXTERNAL and tensor.HasField("raw_data"):
            tensor.CopyFrom(other)
    return found.SerializeToString()


def _compared(found: bytes, expected: onnx.ModelProto, manifest: Manifest) -> tuple[str | None, str]:
    """The first difference, None if there is none; and a note if the comparison was not by bytes."""
    wanted = expected.SerializeToString()
    if found == wanted:
        return None, ""
    try:
        difference = first_difference(onnx.load_model_from_string(found), expected)
    except DecodeError:
        return "at its start: it is no ONNX file", ""
    if difference is None and _other_versions(manifest):
        return None, BY_STRUCTURE
    at = next((i for i, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), 0)
    return difference or f"at byte {at}, in names or notes alone", ""


def _raise(differences: dict[str, str], manifest: Manifest, allow_edited: bool) -> None:
    """Raise the error for graphs that are not the exported ones."""
    [(file, first), *more] = differences.items()
    message = f"{file} is not the exported graph: first difference {first}"
    if more:
        message = (
            f"{' and '.join(differences)} are not the exported graphs: first difference of {file} {first}"
        )
    if allow_edited:
        raise SkipError(message)
    if writers := _other_versions(manifest):
        message += f"; the bundle was made by {', '.join(writers)}: export again, or give --allow-edited"
    raise AssertionError(message)


def _other_versions(manifest: Manifest) -> list[str]:
    """The versions of libraries that wrote a bundle, where they differ from those installed here."""
    here = versions()
    return [
        f"{name} {manifest.versions.get(name, 'unknown')} (here {here[name]})"
        for name in WRITERS
        if manifest.versions.get(name) != here[name]
    ]


def first_difference(found: onnx.ModelProto, expected: onnx.ModelProto) -> str | None:
    """The first difference between two models; None if they differ at most in names and notes.

    Inputs, outputs and initialisers of a model are matched by name, the values between by position.
    """
    one, other = onnx.ModelProto(), onnx.ModelProto()
    one.CopyFrom(found)
    other.CopyFrom(expected)
    for model in (one, other):
        _strip(model)
    graphs = one.graph, other.graph
    fixed = {part.name for graph in graphs for part in (*graph.input, *graph.output, *graph.initializer)}
    _rename(*graphs, {name: name for name in fixed}, fixed)
    functions = {_key(function): function for function in other.functions}
    for function in one.functions:
        if _key(function) in functions:
            _rename(function, functions[_key(function)], {}, set())
    for model in (one, other):
        _sort(model)
    return next(_differences(one, other, ""), None)


def _strip(message: Message) -> None:
    """Remove notes and sort attributes, recursively."""
    for field, value in message.ListFields():
        if field.name in NOTES:
            message.ClearField(field.name)
        elif field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                _strip(part)
    if isinstance(message, onnx.NodeProto):
        message.attribute.sort(key=_label)


def _key(function: onnx.FunctionProto) -> tuple[str, str, str]:
    return function.domain, function.name, function.overload


def _rename(found: Body, expected: Body, names: dict[str, str], fixed: set[str]) -> None:
    """Give the values of `found` the names of those at the same position, except `fixed` ones.

    `names` are known already. A value that no node produces is marked.
    """
    for name, new in zip(_names(found.input), _names(expected.input), strict=False):
        names.setdefault(name, new)
    for node, other in zip(found.node, expected.node, strict=False):
        node.input[:] = [names.get(name, f"{name} (unknown)") if name else "" for name in node.input]
        for one, two in zip(node.attribute, other.attribute, strict=False):
            if one.HasField("g") and two.HasField("g"):
                _rename(one.g, two.g, dict(names), fixed)
        for name, new in zip(node.output, other.output, strict=False):
            names[name] = name if {name, new} & fixed else new
        node.output[:] = [names.get(name, name) for name in node.output]
    if isinstance(found, onnx.FunctionProto):
        for listed in (found.input, found.output):
            listed[:] = [names.get(name, name) for name in listed]
    else:
        for part in (*found.input, *found.output):
            part.name = names.get(part.name, part.name)
    for part in found.value_info:
        part.name = names.get(part.name, part.name)


def _names(parts) -> list[str]:
    return [part if isinstance(part, str) else part.name for part in parts]


def _sort(message: Message) -> None:
    """Sort fields whose order has no meaning, recursively."""
    for field, value in message.ListFields():
        if field.name in ("functions", "initializer", "value_info", "opset_import"):
            value.sort(key=_label)
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                _sort(part)


def _label(message) -> str:
    return getattr(message, "name", "") or getattr(message, "domain", "")


def _differences(found: Message, expected: Message, place: str) -> Iterator[str]:
    """The differences of two models, graphs or functions, nodes first; `place` is the enclosing part."""
    for field in sorted(found.DESCRIPTOR.fields, key=lambda field: field.name not in ("node", "graph")):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if field.name == "graph":
            yield from _differences(one, other, place)
        elif field.message_type is not None and not isinstance(one, Message):
            for at, (part, wanted) in enumerate(zip_longest(one, other)):
                yield from _of_parts(field.name, at, part, wanted, place)
        elif _text(one) != _text(other):
            yield f"in {field.name}{place}: {_both(one, other)}"


def _of_parts(field: str, at: int, found, expected, place: str) -> Iterator[str]:
    """The differences of two parts of a model, one of which may be missing."""
    part = expected if found is None else found
    here = f"in {field} {_label(part)}".rstrip() + place
    if isinstance(part, onnx.NodeProto):
        here = f"at node {part.name or at} ({part.op_type}){place}"
    if found is None or expected is None:
        yield f"{here}: it is {'missing' if found is None else 'not expected'}"
    elif isinstance(found, onnx.NodeProto):
        yield from _of_nodes(found, expected, here)
    elif _label(found) != _label(expected):
        yield f"{here}: it stands in the place of {_label(expected)}"
    elif isinstance(found, onnx.FunctionProto):
        yield from _differences(found, expected, f" of function {found.name}")
    elif _text(found) != _text(expected):
        yield f"{here}: it {_both(found, expected)}"


def _of_nodes(found: onnx.NodeProto, expected: onnx.NodeProto, place: str) -> Iterator[str]:
    """The differences of two nodes other than their names."""
    for field in sorted(found.DESCRIPTOR.fields, key=lambda field: field.name != "op_type"):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if field.name == "attribute":
            for part, wanted in zip_longest(one, other):
                yield from _of_attributes(part, wanted, place)
        elif field.name != "name" and _text(one) != _text(other):
            yield f"{place}: {field.name} {_both(one, other)}"


def _of_attributes(found, expected, place: str) -> Iterator[str]:
    """The differences of two attributes, one of which may be missing."""
    if found is not None and expected is not None and found.HasField("g") and expected.HasField("g"):
        yield from _differences(found.g, expected.g, f", within {place.removeprefix('at ')}")
    elif found is None or expected is None or _text(found) != _text(expected):
        values = ["missing" if part is None else _value(part) for part in (found, expected)]
        yield f"{place}: attribute {_label(expected or found)} {_both(*values)}"


def _value(attribute: onnx.AttributeProto):
    if (
        attribute.type in (onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.TENSOR)
        or attribute.ref_attr_name
    ):
        return attribute
    return get_attribute_value(attribute)


def _text(value):
    """A representation that is equal only for equal values, NaN and signs of zero included."""
    if isinstance(value, Message):
        return value.SerializeToString(deterministic=True)
    return repr(value) if isinstance(value, str | bytes | int | float) else [_text(part) for part in value]


def _both(found, expected) -> str:
    """Two values in a line, from shortly before their first difference."""
    texts = [" ".join(str(value).split()) for value in (found, expected)]
    same = next((i for i, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), 0)
    start = max(0, same - SHOWN // 2) if max(map(len, texts)) > SHOWN else 0
    one, other = (
        ("…" if start else "") + text[start : start + SHOWN] + ("…" if text[start + SHOWN :] else "")
        for text in texts
    )
    return f"is {one}, expected {other}"
