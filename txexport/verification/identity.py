"""The graphs of a bundle against those that export makes of its checkpoint: the same, node by node.

Cases sample a graph, and cannot see what it does with other inputs; export is deterministic, so here every
node, attribute and constant is compared. Under other versions of the libraries that write graphs, names of
values and notes may differ; what is computed may not.
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

WRITERS = ("txexport", "onnx", "onnx-ir", "onnxscript", "numpy", "python")  # those of versions() that do
NOTES = ("doc_string", "metadata_props", "producer_name", "producer_version")  # what no runtime computes with
SHOWN = 60  # characters of either side of a difference


def check_graphs(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved, allow_edited: bool = False
) -> list[TensorCheck]:
    """Every graph against the one that export writes.

    Raises AssertionError where one is another, named by its first differing node, or SkipError where that is
    allowed; and where txexport.json does not say what the files are.
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
        if not recorded[one.path].onnxruntime:  # made by an older txexport
            del model.metadata_props[LEAST_RUNTIME]
        content, expected = (folder / one.path).read_bytes(), to_proto(model)
        if manifest.form.single_file:
            content = _pointing(content, expected)
        difference, how = _compared(content, expected, manifest)
        if difference is not None:
            differences[one.path] = difference
        elif sha256(folder / one.path) != recorded[one.path].sha256:
            raise AssertionError(f"txexport.json: sha256 of {one.path} is not that of the file")
        checks.append(TensorCheck(one.path + how, 1, 0.0, 0.0))
    if differences:
        _tell(differences, manifest, allow_edited)
    return checks


def _pointing(content: bytes, expected: onnx.ModelProto) -> bytes:
    """A graph that holds its weights, pointing to them as the expected one does; they are checked apart."""
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
    """The first difference, None where there is none; and how they were compared, if not by bytes."""
    wanted = expected.SerializeToString()
    if found == wanted:
        return None, ""
    try:
        difference = first_difference(onnx.load_model_from_string(found), expected)
    except DecodeError:
        return "at its start: it is no ONNX file", ""
    if difference is None and _others(manifest):
        return None, BY_STRUCTURE
    at = next((i for i, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), 0)
    return difference or f"at byte {at}, in names or notes alone", ""


def _tell(differences: dict[str, str], manifest: Manifest, allow_edited: bool) -> None:
    """Raise what there is to say of graphs that are not the exported ones."""
    [(file, first), *more] = differences.items()
    message = f"{file} is not the exported graph: first difference {first}"
    if more:
        message = (
            f"{' and '.join(differences)} are not the exported graphs: first difference of {file} {first}"
        )
    if allow_edited:
        raise SkipError(message)
    if others := _others(manifest):
        message += f"; the bundle was made by {', '.join(others)}: export again, or give --allow-edited"
    raise AssertionError(message)


def _others(manifest: Manifest) -> list[str]:
    """The versions that made a bundle and are not those here."""
    here = versions()
    return [
        f"{name} {manifest.versions.get(name, 'unknown')} (here {here[name]})"
        for name in WRITERS
        if manifest.versions.get(name) != here[name]
    ]


def first_difference(found: onnx.ModelProto, expected: onnx.ModelProto) -> str | None:
    """Where two models compute something else, and how; None where they differ in names and notes at most.

    Inputs, outputs and initialisers of a model go by their names; the values between by their places.
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
    """Take out notes, here and in all that is within, and put attributes in order."""
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
    """Give the values of `found` the names of those in their places, but for `fixed` ones; `names` are known.

    A value that nothing makes is marked.
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
    """Put into one order what has none, here and in all that is within."""
    for field, value in message.ListFields():
        if field.name in ("functions", "initializer", "value_info", "opset_import"):
            value.sort(key=_label)
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                _sort(part)


def _label(message) -> str:
    return getattr(message, "name", "") or getattr(message, "domain", "")


def _differences(found: Message, expected: Message, place: str) -> Iterator[str]:
    """Where two models, graphs or functions differ: nodes first; `place` is what they lie in."""
    for field in sorted(found.DESCRIPTOR.fields, key=lambda field: field.name not in ("node", "graph")):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if field.name == "graph":
            yield from _differences(one, other, place)
        elif field.message_type is not None and not isinstance(one, Message):
            for at, (part, wanted) in enumerate(zip_longest(one, other)):
                yield from _of_parts(field.name, at, part, wanted, place)
        elif _text(one) != _text(other):
            yield f"in {field.name}{place}: {_told(one, other)}"


def _of_parts(field: str, at: int, found, expected, place: str) -> Iterator[str]:
    """Where two parts of a model differ, of which one may be missing."""
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
        yield f"{here}: it {_told(found, expected)}"


def _of_nodes(found: onnx.NodeProto, expected: onnx.NodeProto, place: str) -> Iterator[str]:
    """Where two nodes differ in more than their own names."""
    for field in sorted(found.DESCRIPTOR.fields, key=lambda field: field.name != "op_type"):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if field.name == "attribute":
            for part, wanted in zip_longest(one, other):
                yield from _of_attributes(part, wanted, place)
        elif field.name != "name" and _text(one) != _text(other):
            yield f"{place}: {field.name} {_told(one, other)}"


def _of_attributes(found, expected, place: str) -> Iterator[str]:
    """Where two attributes differ, of which one may be missing."""
    if found is not None and expected is not None and found.HasField("g") and expected.HasField("g"):
        yield from _differences(found.g, expected.g, f", within {place.removeprefix('at ')}")
    elif found is None or expected is None or _text(found) != _text(expected):
        values = ["missing" if part is None else _value(part) for part in (found, expected)]
        yield f"{place}: attribute {_label(expected or found)} {_told(*values)}"


def _value(attribute: onnx.AttributeProto):
    if (
        attribute.type in (onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.TENSOR)
        or attribute.ref_attr_name
    ):
        return attribute
    return get_attribute_value(attribute)


def _text(value):
    """Equal for equal values alone, NaN and signs of zero included."""
    if isinstance(value, Message):
        return value.SerializeToString(deterministic=True)
    return repr(value) if isinstance(value, str | bytes | int | float) else [_text(part) for part in value]


def _told(found, expected) -> str:
    """Two values in a line, from shortly before where they begin to differ."""
    texts = [" ".join(str(value).split()) for value in (found, expected)]
    same = next((i for i, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), 0)
    start = max(0, same - SHOWN // 2) if max(map(len, texts)) > SHOWN else 0
    one, other = (
        ("…" if start else "") + text[start : start + SHOWN] + ("…" if text[start + SHOWN :] else "")
        for text in texts
    )
    return f"is {one}, expected {other}"
