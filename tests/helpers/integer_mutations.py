"""Wrong quantised weights: in the file, in the graph, or in how a format encodes them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from safetensors import safe_open

from helpers.graph_edits import (
    become,
    blocks,
    function,
    named,
    node,
    replace_input,
    set_constant,
)
from txexport import bundle
from txexport.checkpoints.checkpoint import read_header

SECOND = "encoder.layers.1.feed_forward.up.weight"  # (100, 48): K is no multiple of 32
SQUARE = "encoder.layers.1.attention.q.weight"
WORDS = "encoder.embedding.word.weight"


@dataclass(frozen=True)
class OfFile:
    """A change of one part of a stored parameter."""

    dtype: str
    parameter: str
    part: str
    change: Callable[[np.ndarray], np.ndarray]
    seen: bool = True  # a single case reads few rows and tolerates a last bit

    def __call__(self, folder: Path) -> None:
        """Change the file."""
        name = f"{self.parameter}.{self.part}" if self.part else self.parameter
        path = folder / next(iter(bundle.read_manifest(folder).data))
        with safe_open(path, "np") as file:
            numbers = file.get_tensor(name)
        changed = self.change(numbers.copy())
        assert (changed.dtype, changed.shape) == (numbers.dtype, numbers.shape)
        assert changed.tobytes() != numbers.tobytes()
        with path.open("r+b") as file:
            file.seek(read_header(path)[name].offset)
            file.write(np.ascontiguousarray(changed).tobytes())


def next_block(scales):
    """Each block with the scale of the one before it."""
    return np.roll(scales, 1, axis=0)


def next_output(scales):
    """Each output with the scale of the one before it."""
    return np.roll(scales, 1)


def zero_plus_one(zeros):
    """Zero points off by one, where the range allows it."""
    low, high = np.minimum((zeros & 15) + 1, 15), np.minimum((zeros >> 4) + 1, 15)
    return low | high << 4


def swapped_nibbles(integers):
    """The upper half of each byte exchanged with the lower."""
    return integers >> 4 | integers << 4


def turned(integers):
    """A square matrix transposed."""
    return integers.T


def exchanged_columns(integers):
    """Two inputs exchanged."""
    return integers[[1, 0, *range(2, len(integers))]]


def exchanged_blocks(integers):
    """The first 32 inputs of all outputs moved to the end; packed, two in a byte."""
    return np.roll(integers, len(integers) // 3)


def one_bit(integers):
    """One integer off by its lowest bit."""
    integers.reshape(-1)[5] ^= 1
    return integers


def one_last_bit(scales):
    """One scale off by the last bit of float32."""
    scales.reshape(-1)[3] = np.nextafter(scales.reshape(-1)[3], np.float32(np.inf))
    return scales


def negated(integers):
    """All signs flipped."""
    return -integers


OF_FILE = (
    OfFile("int4", SECOND, "scale", next_block),
    OfFile("int4", SECOND, "scale", one_last_bit, seen=False),
    OfFile("int4", SECOND, "zero", zero_plus_one),
    OfFile("int4", SECOND, "zero", swapped_nibbles),
    OfFile("int4", SECOND, "", swapped_nibbles),
    OfFile("int4", SECOND, "", exchanged_blocks),
    OfFile("int4", SECOND, "", one_bit),
    OfFile("int4", WORDS, "scale", next_output),
    OfFile("int8", SECOND, "scale", next_output),
    OfFile("int8", SECOND, "scale", one_last_bit, seen=False),
    OfFile("int8", SECOND, "", exchanged_columns),
    OfFile("int8", SECOND, "", negated),
    OfFile("int8", SECOND, "", one_bit),
    OfFile("int8", SQUARE, "", turned),
    OfFile("int8", SQUARE, "sums", next_output),
    OfFile("int8", WORDS, "", one_bit, seen=False),
    OfFile("int8", WORDS, "scale", next_output),
)


def product_bodies(model: onnx.ModelProto) -> list[onnx.FunctionProto]:
    """The functions that quantise activations."""
    return [body for body in model.functions if any(one.op_type == "QuantizeLinear" for one in body.node)]


def _made(body: onnx.FunctionProto, name: str) -> onnx.NodeProto:
    return next(one for one in body.node if name in one.output)


def step_of_128(model):
    """Activations rounded to 128 steps, of which the last overflows, and dequantised accordingly."""
    for body in product_bodies(model):
        set_constant(_made(body, node(body, "QuantizeLinear").input[1]), 1 / 128)


def step_of_128_back(model):
    """Activations rounded to 127 steps, and dequantised as if there were 128."""
    for body in product_bodies(model):
        body.node.insert(0, helper.make_node("Constant", [], ["other_step"], value_float=1 / 128))
        back = next(one for one in body.node if one.output[0].startswith("rounded"))
        back.input[1] = "other_step"


def without_slice(model):
    """The row maximum without its slice, which differs where there are no rows."""
    for body in product_bodies(model):
        cut = node(body, "Slice")
        become(cut, "Identity", cut.input[0])


def without_maximum(model):
    """Rows divided by a number other than their maximum: the first one, or an uncentred one."""
    for body in product_bodies(model):
        most = node(body, "ReduceMax")
        centred = [one for one in body.node if one.op_type == "Sub" and one.output[0].startswith("largest")]
        for one in centred:
            become(one, "Identity", one.input[0])
        if not centred:
            become(most, "Identity", most.input[0])


def without_middle(model):
    """Products without the correction for the rows' mid-range."""
    for body in product_bodies(model):
        for one in body.node:
            if one.op_type == "Mul" and one.output[0].startswith("taken"):
                become(one, "Sub", one.input[1], one.input[1])


def one_middle_for_all(model):
    """Rows centred by the minimum of the whole batch, so that a result depends on the other rows."""
    for body in product_bodies(model):
        for one in body.node:
            if one.op_type == "ReduceMin":
                become(one, "ReduceMin", one.input[0], keepdims=1)


def one_scale_for_all(model):
    """One scale for the batch, as DynamicQuantizeLinear has, so that a result depends on the other rows."""
    for body in product_bodies(model):
        most = node(body, "ReduceMax")
        become(most, "ReduceMax", most.input[0], keepdims=1)
        cut = node(body, "Slice")
        become(cut, "Identity", cut.input[0])


def without_return(model):
    """Products that are not multiplied by the rows' scales."""
    for body in product_bodies(model):
        scaled = next(
            one for one in body.node if one.op_type == "Mul" and one.output[0].startswith("products")
        )
        become(scaled, "Identity", scaled.input[0])


def scales_of_inputs(model):
    """Scales along the inputs where a matrix is square; elsewhere along the outputs."""
    call = blocks(model)[0]
    own = [
        name for name in call.input if name.endswith(("attention.q.weight.scale", "attention.k.weight.scale"))
    ]
    call.input[:] = [dict(zip(own, own[::-1], strict=True)).get(name, name) for name in call.input]


def without_zero(model):
    """Four bits without zero points."""
    for read in model.graph.node:
        if read.op_type == "DequantizeLinear":
            del read.input[2:]


def rows_without_scale(model):
    """An embedding's integers without scales."""
    body = function(model, "embedding")
    rows = next(one for one in body.node if one.op_type == "Mul" and one.output[0].startswith("rows"))
    become(rows, "Identity", rows.input[0])


def another_layer_s(model):
    """The second layer's products with the first layer's integers and its own scales."""
    name, other = (f"encoder.layers.{i}.attention.v.weight" for i in (1, 0))
    for part in ("", ".numbers"):
        for call in blocks(model):
            if name + part in call.input:
                replace_input(call, name + part, other + part)


def zero_point_of_one(model):
    """Activations quantised around one, and dequantised as if around zero."""
    for body in product_bodies(model):
        one = numpy_helper.from_array(np.array(1, np.int8))
        body.node.insert(0, helper.make_node("Constant", [], ["one_off"], value=one))
        node(body, "QuantizeLinear").input[2] = "one_off"


@dataclass(frozen=True)
class OfGraph:
    """A change of the native graph, and the case that detects it: without rounding, or by accuracy."""

    dtype: str
    change: Callable[[Any], None]
    seen: bool = True


OF_GRAPH = (
    OfGraph("int8", step_of_128, seen=False),
    OfGraph("int8", step_of_128_back, seen=False),
    OfGraph("int8", without_slice, seen=False),
    OfGraph("int8", one_scale_for_all, seen=False),
    OfGraph("int8", one_middle_for_all, seen=False),
    OfGraph("int8", without_middle),
    OfGraph("int8", without_maximum),
    OfGraph("int8", zero_point_of_one, seen=False),
    OfGraph("int8", without_return),
    OfGraph("int8", scales_of_inputs),
    OfGraph("int8", rows_without_scale),
    OfGraph("int8", another_layer_s),
    OfGraph("int4", without_zero),
    OfGraph("int4", rows_without_scale),
    OfGraph("int4", another_layer_s),
)


def untied_head(model):
    """The head multiplies by another copy of the word embedding."""
    head = named(model, "head")
    own = next(name for name in head.input if name.endswith("word.weight"))
    model.graph.node.insert(0, helper.make_node("Abs", [own], ["older"]))
    replace_input(head, own, "older")
