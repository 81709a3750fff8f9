"""The nodes of a graph that a provider computes: ONNX Runtime's rules over a table of kernels."""

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import tiny_checkpoint
from click.testing import CliRunner
from helpers.project import ROOT
from onnx import helper, numpy_helper
from txgraphs._flat import flatten, tidied
from txgraphs._nodes import Parameter
from txgraphs.model import models

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.contracts import ONE_PASS, STATIC
from txexport.errors import BundleError, InputError
from txexport.exporter import export
from txexport.formats import FLOAT32
from txexport.inspection.placement import TABLES, placement, placement_of

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
# What our graphs have that CUDA has no kernel for: types, and operators whose version of opset 22 it lacks.
VERSIONS = {
    "ThresholdedRelu": "qwen3_next qwen3_5_text qwen3_5_moe_text qwen3_5 qwen3_5_moe granitemoehybrid bamba "
    "falcon_h1 mamba2 mamba falcon_mamba nemotron_h jamba olmo_hybrid kimi_linear zamba2",
    "InstanceNormalization": "moonshine wav2vec2 wavlm hubert sew unispeech unispeech-sat wav2vec2-conformer "
    "maskformer mask2former grounding-dino deformable_detr",
    "MaxPool": "resnet hiera sam2 sam2_video detr table-transformer conditional_detr deformable_detr rt_detr "
    "rt_detr_v2 d_fine dab-detr",
    "Elu": "owlvit owlv2",
}
TYPES = {"ReduceProd": "mask2former grounding-dino deformable_detr rt_detr rt_detr_v2 d_fine lw_detr rf_detr"}
LACKING: dict[str, set[str]] = {}
for table, reason in ((VERSIONS, "no kernel of version 22"), (TYPES, "none of int64")):
    for operator, model_types in table.items():
        for family in model_types.split():
            LACKING.setdefault(family, set()).add(f"{operator}: {reason}")
SOME = ["bert", "gpt2", "llama", "t5", "whisper", "vit", "mixtral", "longformer", "mamba", "rt_detr"]


def graph(tmp_path, nodes, inputs, outputs, opset=24):
    """The file of a graph over inputs of (B, 4); `outputs` have types."""
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info(name, kind, ["B", 4]) for name, kind in inputs.items()],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=12,
    )
    onnx.save(model, tmp_path / "graph.onnx")
    return placement(tmp_path / "graph.onnx", "cuda")


def test_nodes_with_kernels_are_all_there(tmp_path):
    nodes = [helper.make_node("Exp", ["x"], ["y"]), helper.make_node("MatMul", ["y", "y"], ["z"])]
    placed = graph(tmp_path, nodes, {"x": FLOAT}, {"z": FLOAT})
    assert (placed.nodes, placed.missing, placed.shapes, placed.copies) == (2, {}, 0, [])
    assert placed.captured


def test_a_node_without_a_kernel_is_named_and_its_values_are_copied(tmp_path):
    nodes = [
        helper.make_node("Exp", ["x"], ["y"]),
        helper.make_node("DynamicQuantizeLinear", ["y"], ["q", "scale", "zero"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["z"]),
    ]
    placed = graph(tmp_path, nodes, {"x": FLOAT}, {"z": FLOAT})
    assert placed.missing == {"DynamicQuantizeLinear: no kernel": 1}
    assert sorted(placed.copies) == ["q", "scale", "y", "zero"]
    assert not placed.captured


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (["B", 4, "S", 3], ["B", 4, 3, "S"], 0),
        (["B", 4, "S", 3], [3, 5], 0),
        (["B", 4, "S", 3], [1, 1, 3, 5], 0),
        (["B", 4, "S", 3], [4, 3, 5], 1),
        (["B", 4, "S", 3], ["B", 1, 3, 5], 1),
    ],
)
def test_products_of_other_batches_take_addresses(first, second, count):
    """Matrices of equal batches, and one matrix, are found by their strides; addresses are copied."""
    values = [
        helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in (("x", first), ("w", second))
    ]
    output = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", values, [output])
    placed = placement_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), "cuda")
    assert placed.addresses == count
    assert placed.captured == (count == 0)


@pytest.mark.parametrize(("opset", "reason"), [(21, None), (22, "no kernel of version 22")])
def test_an_open_kernel_is_of_its_own_version_alone(opset, reason, tmp_path):
    """As ONNX Runtime's registry has it: a newer operator does not find an older kernel."""
    nodes = [helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.5)]
    placed = graph(tmp_path, nodes, {"x": FLOAT}, {"y": FLOAT}, opset)
    assert placed.missing == ({} if reason is None else {f"ThresholdedRelu: {reason}": 1})


def test_types_without_a_kernel_are_named(tmp_path):
    pads = helper.make_node("Constant", [], ["pads"], value=numpy_helper.from_array(np.array([0, 1, 0, 1])))
    nodes = [pads, helper.make_node("Pad", ["x", "pads"], ["y"])]
    assert graph(tmp_path, nodes, {"x": INT64}, {"y": INT64}).missing == {"Pad: none of int64": 1}
    assert graph(tmp_path, nodes, {"x": FLOAT}, {"y": FLOAT}).missing == {}


def test_arithmetic_of_shapes_stays_on_the_processor(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
        helper.make_node("Add", ["shape", "shape"], ["twice"]),
        helper.make_node("Concat", ["twice", "shape"], ["both"], axis=0),
        helper.make_node("Expand", ["row", "both"], ["y"]),
        helper.make_node("ReduceMean", ["x"], ["row"], keepdims=0),
    ]
    nodes.insert(3, nodes.pop())
    placed = graph(tmp_path, nodes, {"x": FLOAT}, {"y": FLOAT})
    assert (placed.shapes, placed.copies) == (2, [])
    nodes = [
        *nodes[:2],
        helper.make_node("Cast", ["twice"], ["size"], to=FLOAT),
        helper.make_node("Exp", ["x"], ["grown"]),
        helper.make_node("Mul", ["grown", "size"], ["y"]),
    ]
    placed = graph(tmp_path, nodes, {"x": FLOAT}, {"y": FLOAT})
    assert (placed.shapes, placed.copies) == (2, ["size"])


def test_a_branch_is_counted_and_forbids_capture(tmp_path):
    def body(operator):
        out = helper.make_tensor_value_info(f"{operator}_out", FLOAT, None)
        return helper.make_graph([helper.make_node(operator, ["x"], [out.name])], operator, [], [out])

    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
        helper.make_node("Equal", ["shape", "shape"], ["same"]),
        helper.make_node("If", ["same"], ["y"], then_branch=body("Exp"), else_branch=body("Erf")),
    ]
    placed = graph(tmp_path, nodes, {"x": FLOAT}, {"y": FLOAT})
    assert (placed.branches, placed.missing) == (1, {})
    assert not placed.captured


def lacking(folder) -> set[str]:
    """The operators of a bundle's graphs that have no kernel."""
    bundle = txexport.inspect(folder, provider="cuda").bundle
    return {reason for placed in bundle.placements.values() for reason in placed.missing}


@pytest.mark.parametrize(
    "model_type",
    [pytest.param(one, marks=[] if one in SOME else [pytest.mark.slow]) for one in tiny_checkpoint.FAMILIES],
)
def test_our_graphs_have_kernels(model_type, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "out", only="native")
    assert lacking(tmp_path / "out") == LACKING.get(model_type, set())


@pytest.mark.parametrize("model_type", ["bert", "llama", "mixtral", "gpt_oss", "longformer", "t5"])
def test_graphs_that_compute_in_bfloat16_have_kernels(model_type, checkpoint_of):
    """ONNX Runtime computes no bfloat16 on the processor: a graph with a node there does not load."""
    resolved = families.resolve(Checkpoint(checkpoint_of(model_type)), None)
    dtype, contract = ir.DataType.BFLOAT16, STATIC if resolved.spec.generates else ONE_PASS
    stored = {
        name: Parameter(FLOAT32, {"": ir.tensor(np.zeros(weight.shape, dtype.numpy()), name=name)})
        for name, weight in resolved.weights.items()
    }
    for graph in models(resolved.spec, contract, lambda role: stored, dtype).values():
        model = ir.to_proto(tidied(flatten(graph.model("test"), dtype)))
        assert placement_of(onnx.shape_inference.infer_shapes(model), "cuda").missing == {}


def test_graphs_of_opset_21_have_kernels_of_every_operator(checkpoint_of, tmp_path):
    """So whoever needs a model of VERSIONS on CUDA exports with --opset 21."""
    export(checkpoint_of("wav2vec2"), tmp_path / "out", only="native", opset=21)
    assert lacking(tmp_path / "out") == set()


@pytest.mark.parametrize("dtype", ["int8", "int4", "float16"])
def test_number_formats_have_kernels(dtype, checkpoint_of, tmp_path):
    export(checkpoint_of("llama"), tmp_path / "out", only="native", dtype=dtype)
    assert lacking(tmp_path / "out") == set()


def test_int8_fast_has_none_which_inspect_says(checkpoint_of, tmp_path):
    export(checkpoint_of("bert"), tmp_path / "out", only="native", dtype="int8-fast")
    result = CliRunner().invoke(main, ["inspect", str(tmp_path / "out"), "--provider", "cuda"])
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "22 without a kernel (9 DynamicQuantizeLinear: no kernel, 13 MatMulInteger: none of" in text
    assert "31 values copied a run; If, Loop or Scan: 0; cannot be captured" in text
    facts = json.loads(
        CliRunner().invoke(main, ["inspect", str(tmp_path / "out"), "--provider", "cuda", "--json"]).output
    )
    [placed] = facts["bundle"]["placements"].values()
    assert sum(placed["missing"].values()) == 22


def test_what_cannot_be_placed_is_said(checkpoint_of, bundle_of, tmp_path):
    with pytest.raises(InputError, match="there is no table of directml's kernels; expected cuda"):
        txexport.inspect(bundle_of("bert"), provider="directml")
    with pytest.raises(InputError, match="has no graphs; --provider is for bundles"):
        txexport.inspect(checkpoint_of("bert"), provider="cuda")
    (tmp_path / "none.onnx").write_bytes(b"none")
    with pytest.raises(BundleError, match="ONNX Runtime cannot load"):
        placement(tmp_path / "none.onnx", "cuda")


def test_the_table_is_of_the_pinned_version():
    table = json.loads((TABLES / "cuda.json").read_text())
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    assert table["onnxruntime"] == pins["onnxruntime-gpu"]
    assert "Attention" in table["kernels"]
