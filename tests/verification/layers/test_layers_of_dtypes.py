"""verify --layers names what is wrong in every number format, activations rounded or not."""

import inspect
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from helpers.bundle_edits import graph_path
from helpers.graph_edits import become, node
from helpers.integer_mutations import (
    OF_GRAPH,
    OfFile,
    another_layer_s,
    negated,
    next_block,
    next_output,
    one_middle_for_all,
    one_scale_for_all,
    product_bodies,
    scales_of_inputs,
    step_of_128,
    step_of_128_back,
    without_maximum,
    without_middle,
    without_return,
    without_zero,
    zero_point_of_one,
)
from helpers.reports import SCHEMA, valid
from helpers.rows import Row
from helpers.saturation import skip_where_products_saturate
from torch import nn

from txexport.errors import InputError
from txexport.exporter import export
from txexport.formats import DTYPES
from txexport.formats.int8 import INT8_IN_OUT, about_middles, at_once, by_rows
from txexport.verification import verify
from txexport.verification.layers.result import LayerReport
from txexport.verification.layers.rounding import RoundedModules
from txexport.verification.layers.trace import ModuleCall
from txexport.verification.references.precision import in_float64

PADDED, STEPS = "three ragged rows, right padding", "two equal rows, several tokens a step"
ROUNDING = ("int8", "int8-fast")
UP = "encoder.layers.1.feed_forward.up"


@pytest.fixture(scope="module")
def made(checkpoint_of, tmp_path_factory):
    """A function from a row, or a model_type, and dtypes to a bundle of our graphs alone, as it was made."""
    folders: dict[tuple, Path] = {}

    def get(what: Row | str, *dtypes: str) -> Path:
        key = (what if isinstance(what, str) else what.id, *dtypes)
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("layers") / "out"
            export(checkpoint_of(what), folders[key], dtype=dtypes, only="native")
        return folders[key]

    return get


@pytest.fixture
def copy_of(made, tmp_path):
    """Such a bundle of one's own."""
    return lambda what, dtype: Path(shutil.copytree(made(what, dtype), tmp_path / "copy"))


def found(folder: Path, case: str) -> LayerReport:
    report = verify(folder, reference="twin", cases=[case], layers=True)
    assert report.layers is not None
    return report.layers


ENCODER = tuple(name for name, dtype in DTYPES.items() if not dtype.stored)


@pytest.mark.parametrize(
    ("what", "case", "dtypes"),
    [
        ("bert", PADDED, ENCODER),
        ("gpt2", STEPS, ("int8", "int8-fast", "int4")),
        pytest.param("bart", STEPS, ("int8-fast", "int4-128"), marks=pytest.mark.slow),
        pytest.param("mixtral", STEPS, ("int8", "int4"), marks=pytest.mark.slow),
        pytest.param("t5", STEPS, ("int8", "int4"), marks=pytest.mark.slow),
        pytest.param("clip", "three ragged texts, two images", ("int8", "int4"), marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_dtype_s_components_are_right_alone(what, case, dtypes, made):
    """In float32's own bound, whether what products are given is rounded or not."""
    layers = found(made(what, *dtypes), case)
    assert layers.beyond == []
    assert max(check.error for check in layers.checks) < 1e-5
    compared = {(check.dtype, check.rounds): set() for check in layers.checks}
    for check in layers.checks:
        of_expert = ".experts." in check.component or check.value.startswith("rows.")
        if not of_expert:  # whose products int8 has within the network
            compared[check.dtype, check.rounds].add((check.component, check.value))
    rounds = {name for name in dtypes if name.startswith("int")}
    assert compared.keys() == {(name, False) for name in dtypes} | {(name, True) for name in rounds}
    for v in compared.values():
        print(sorted(set.union(*compared.values()) - v)[:8])
    assert len({frozenset(values) for values in compared.values()}) == 1  # the same ones in every dtype
    assert all(check.accumulated is None for check in layers.checks if check.rounds)
    values = layers.to_dict()
    valid(values, SCHEMA["$defs"]["layers"])
    assert LayerReport.from_dict(json.loads(json.dumps(values))) == layers
    labels = layers.rows()
    assert [label for label in labels if label.startswith(f"{dtypes[-1]}: ")]


def edit(folder: Path, change) -> None:
    path = graph_path(folder)
    model = onnx.load(path, load_external_data=False)
    before = model.SerializeToString(deterministic=True)
    change(model)
    assert model.SerializeToString(deterministic=True) != before
    onnx.save(model, path)


def without_scale(model):
    """Integers as they are, without the scales of their outputs."""
    for body in product_bodies(model):
        read = next(one for one in body.node if one.output[0].startswith("weight") and "Dequ" in one.op_type)
        become(read, "Cast", read.input[0], to=onnx.TensorProto.FLOAT)


def without_batch_scale(model):
    """Products of a batch's integers without the step of these."""
    for body in model.functions:
        for one in body.node:
            if one.op_type == "Mul" and one.input[0].startswith("step"):
                become(one, "Identity", one.input[1])


# A dtype, what is done to its graph, what must be named, and whether it takes rounding to see it.
FIRST = "encoder.layers.0.attention.q"
MUTATIONS = [
    ("int8", without_scale, FIRST, False),
    ("int8", without_return, FIRST, False),
    ("int8", without_maximum, FIRST, True),
    ("int8", scales_of_inputs, FIRST, False),
    ("int8", another_layer_s, "encoder.layers.1.attention.v", False),
    ("int8", step_of_128, FIRST, True),
    ("int8", step_of_128_back, FIRST, True),
    ("int8", one_scale_for_all, FIRST, True),
    ("int8", one_middle_for_all, FIRST, True),
    ("int8", without_middle, FIRST, False),
    ("int8", zero_point_of_one, FIRST, True),
    ("int8-fast", without_batch_scale, FIRST, True),
    ("int4", without_zero, FIRST, False),
    ("int4", another_layer_s, "encoder.layers.1.attention.v", False),
]


# ONNX Runtime fails to run these with the option that it has against saturation.
NOT_RUN = (without_return, another_layer_s, zero_point_of_one)


@pytest.mark.parametrize(
    ("dtype", "change", "component", "rounds"), MUTATIONS, ids=[f"{m[0]}-{m[1].__name__}" for m in MUTATIONS]
)
def test_a_layer_that_computes_wrongly_is_named(dtype, change, component, rounds, copy_of):
    folder = copy_of("bert", dtype)
    edit(folder, change)
    if dtype == "int8" and change in NOT_RUN:
        skip_where_products_saturate()
    layers = found(folder, PADDED)
    assert layers.first is not None
    assert (layers.first.component, layers.first.rounds) == (component, rounds)
    assert f"(model, {dtype})" in layers.summary
    assert ("activations rounded" in layers.summary) == rounds


FILES = [
    (OfFile("int8", f"{UP}.weight", "scale", next_output), UP),
    (OfFile("int8-fast", f"{UP}.weight", "", negated), UP),
    (OfFile("int4", f"{UP}.weight", "scale", next_block), UP),
    (OfFile("float16", f"{UP}.weight", "", negated), UP),
    (OfFile("int4", "encoder.embedding.word.weight", "scale", next_output), "encoder.embedding"),
]


@pytest.mark.parametrize(("change", "component"), FILES, ids=[f"{f[0].dtype}-{f[1]}" for f in FILES])
def test_a_layer_of_wrong_numbers_is_named_and_no_other(change, component, copy_of):
    folder = copy_of("bert", change.dtype)
    change(folder)
    layers = found(folder, PADDED)
    assert {check.component for check in layers.beyond} == {component}


def test_one_output_s_scale_that_is_left_out_is_named(copy_of):
    def one_left_out(scales):
        scales[7] = 1
        return scales

    folder = copy_of("bert", "int8")
    OfFile("int8", f"{UP}.weight", "scale", one_left_out)(folder)
    assert {check.component for check in found(folder, PADDED).beyond} == {UP}


def test_a_tied_head_of_another_scale_is_named(copy_of):
    """Its matrix is the words' table, which stands elsewhere."""

    def other(model):
        body = next(one for one in model.functions if "head" in one.name)
        inner = {one.name: one for one in model.functions}
        product = inner[node(body, "linear_plain").op_type]
        read = next(
            one for one in product.node if one.op_type == "DequantizeLinear" and "weight" in one.output[0]
        )
        become(read, "Cast", read.input[0], to=onnx.TensorProto.FLOAT)

    folder = copy_of("gpt2", "int8")
    edit(folder, other)
    first = found(folder, STEPS).first
    assert first is not None
    assert first.component in ("head", FIRST.replace("encoder", "decoder"))


def test_a_bundle_without_our_graphs_has_no_layers(checkpoint_of, tmp_path):
    export(checkpoint_of("bert"), tmp_path / "out", dtype="int8", only="hub")
    with pytest.raises(InputError, match="layers are those of our runtime's graphs, which the bundle lacks"):
        verify(tmp_path / "out", reference="twin", layers=True)


@pytest.mark.parametrize("rounding", [by_rows, about_middles, at_once])
def test_rounding_is_to_the_nearest_step(rounding):
    """Half a step at most; what is halfway may go either way, and little else."""
    x = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float32)
    x[3] = 0
    numbers, off = rounding(x)
    wide = x.astype(np.float64)
    if rounding is by_rows:
        step = np.abs(wide).max(axis=1, keepdims=True) / 127
    elif rounding is about_middles:
        step = np.ptp(wide, axis=1, keepdims=True) / 254
    else:
        step = np.full((64, 1), (wide.max() - wide.min()) / 255)
    assert (np.abs(numbers - wide) <= 0.5001 * step + off).all()
    assert (np.abs(numbers - wide) > 0.49 * step).any()
    assert (off > 0).mean() < 1e-2
    halves = np.array([[127, 0.5, 1.5, 2.4, -2.5, 0.4999]], np.float32)
    if rounding is by_rows:
        numbers, off = rounding(halves)
        assert numbers.tolist() == [[127, 0, 2, 2, -2, 0]]
        assert off.tolist() == [[0, 1, 1, 0, 1, 0]]
    if rounding is about_middles:
        numbers, off = rounding(np.array([[1127, 1000.5, 1001.5, 1002.4, 997.5, 873]], np.float32))
        assert numbers.tolist() == [[1127, 1000, 1002, 1002, 998, 873]]
        assert off.tolist() == [[0, 1, 1, 0, 1, 0]]
    assert rounding(np.zeros((0, 8), np.float32))[0].shape == (0, 8)


def test_what_is_halfway_has_two_ends():
    """The product of either neighbour is right, and what lies beyond both is not."""
    module = nn.Linear(3, 1, bias=False)
    module.weight.data = torch.tensor([[1.0, -2.0, 4.0]])
    formats = {"part.weight": INT8_IN_OUT}
    x = np.array([[127, 0.5, 3.0]], np.float32)
    modules = RoundedModules({"part": module}, formats)
    call = ModuleCall([x], [None], inspect.signature(module.forward).bind(torch.from_numpy(x)))
    ends = modules.ends("part", call)
    assert ends is not None
    (low,), (high,) = ends
    assert (low.item(), high.item()) == (127 + 12 - 2, 127 + 12 + 2)
    assert RoundedModules({"part": module}, {}).ends("part", call) is None


def test_matrices_are_known_after_a_measure_in_float64():
    """By their addresses, which stay."""
    module = nn.Linear(3, 1, bias=False)
    modules = RoundedModules({"part": module}, {"part.weight": INT8_IN_OUT})
    x = torch.ones(1, 3)
    call = ModuleCall([x.numpy()], [None], inspect.signature(module.forward).bind(x))
    with in_float64(module):
        assert module(x.double()).dtype == torch.float64
    assert modules.ends("part", call) is not None


def test_mutations_that_cases_forgive_are_named_by_layers():
    """Cases do not detect wrong rounding, since they run without rounding."""
    unseen = {one.change for one in OF_GRAPH if not one.seen}
    named = {change for _, change, _, rounds in MUTATIONS if rounds}
    assert {change.__name__ for change in unseen - named} == {"without_slice"}  # which changes no number
