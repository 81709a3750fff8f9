"""Splits and concatenations of many values, in kernels that bind few buffers."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import tiny_checkpoint
from onnx import TensorProto, helper, load
from txgraphs._few_buffers import MOST, dequantised_whole, with_few_buffers

from txexport.exporter import export


@pytest.mark.parametrize("count", [MOST, MOST + 1, 50])
def test_numbers_are_the_same(count):
    """Parts of no rows too, also where a whole group of them has none."""
    parts = [f"part{number}" for number in range(count)]
    graph = helper.make_graph(
        [
            helper.make_node("Split", ["x", "sizes"], parts, axis=0, name="split"),
            helper.make_node("Concat", parts, ["y"], axis=0, name="join"),
            helper.make_node("Identity", [parts[-1]], ["last"]),
        ],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["R", 2]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, [count]),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "last")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    changed = ir.to_proto(with_few_buffers(ir.from_proto(model)))
    reads = [len(node.input) for node in changed.graph.node if node.op_type == "Concat"]
    assert max(reads) <= MOST
    assert (len(reads) == 1) == (count == MOST)
    sizes = np.zeros(count, np.int64)
    sizes[[0, count // 2, count - 1]] = 3, 1, 2
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(6, 2), "sizes": sizes}
    y, last = ort.InferenceSession(changed.SerializeToString()).run(None, feeds)
    assert (y == feeds["x"]).all()
    assert (last == feeds["x"][4:]).all()


def parts_of_rounded_rows(scales: list[str]) -> ir.Model:
    """Rounded rows in as many parts as scales, each dequantised by its own and read twice."""
    parts = [f"part{number}" for number in range(len(scales))]
    graph = helper.make_graph(
        [
            helper.make_node("Split", ["steps", "sizes"], parts, axis=0, name="split"),
            *(
                helper.make_node("DequantizeLinear", [part, scale, "zero"], [f"{part}.{use}"])
                for part, scale in zip(parts, scales, strict=True)
                for use in (0, 1)
            ),
            helper.make_node("Concat", [f"{part}.{use}" for use in (0, 1) for part in parts], ["y"], axis=0),
        ],
        "graph",
        [
            helper.make_tensor_value_info("steps", TensorProto.UINT8, ["R", 2]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, [len(scales)]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("fine", TensorProto.FLOAT, [], [0.25]),
            helper.make_tensor("coarse", TensorProto.FLOAT, [], [2.0]),
            helper.make_tensor("zero", TensorProto.UINT8, [], [128]),
        ],
    )
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.mark.parametrize("count", [2, MOST, MOST + 1, 50, 64])
@pytest.mark.parametrize("other", ["fine", "coarse"])
def test_rounded_rows_are_dequantised_before_they_are_parted(count, other):
    """All parts need one scale for it. WebGPU dequantises no empty part."""
    scales = [*["fine"] * (count - 1), other]
    before, after = map(
        ir.to_proto, (parts_of_rounded_rows(scales), dequantised_whole(parts_of_rounded_rows(scales)))
    )
    random = np.random.default_rng(count)
    for sizes in (random.integers(0, 3, count), np.eye(count, dtype=np.int64)[-1] * 2):
        feeds = {"steps": random.integers(0, 256, (sizes.sum(), 2)).astype(np.uint8), "sizes": sizes}
        y, expected = (
            ort.InferenceSession(model.SerializeToString()).run(None, feeds)[0] for model in (after, before)
        )
        np.testing.assert_array_equal(y, expected)
    kinds = [node.op_type for node in after.graph.node]
    assert kinds.count("DequantizeLinear") == (1 if other == "fine" else 2 * count)
    parts = [len(node.output) for node in after.graph.node if node.op_type == "Split"]
    assert max(parts) <= MOST or other == "coarse"


def test_rounded_rows_of_experts_are_so_in_a_browser(tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "mixtral")
    parted = {}
    for client in ("web", None):
        folder = tmp_path / str(client)
        export(tmp_path / "in", folder, dtype="int8", **({"client": client} if client else {"only": "hub"}))
        graph = load(folder / "onnx/model_int8.onnx", load_external_data=False).graph
        split = {name for node in graph.node if node.op_type == "Split" for name in node.output}
        parted[client] = sum(
            node.op_type == "DequantizeLinear" and node.input[0] in split for node in graph.node
        )
    assert parted["web"] == 0
    assert parted[None] > 0


def test_experts_are_divided_so(tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "mixtral", num_local_experts=MOST + 2)
    export(tmp_path / "in", tmp_path / "out", only="hub")
    graph = load(tmp_path / "out/onnx/model.onnx", load_external_data=False).graph
    assert max(len(node.input) for node in graph.node if node.op_type == "Concat") == MOST
    split = {node.input[0] for node in graph.node if node.op_type == "Split" and len(node.output) > MOST}
    makers = {name: node.op_type for node in graph.node for name in node.output}
    assert {makers[name] for name in split} == {"CumSum", "Sub"}  # of the bounds, on the processor


def test_graphs_do_not_depend_on_those_made_before(tmp_path):
    """Components are recorded once for all graphs of a process; onnx_ir names the constants that it reads."""
    tiny_checkpoint.save(tmp_path / "in", "mixtral")
    export(tmp_path / "in", tmp_path / "web", dtype="int8", client="web")
    export(tmp_path / "in", tmp_path / "out", dtype="int8", only="native")
    model = load(tmp_path / "out/onnx/model_static_int8.onnx", load_external_data=False)
    nodes = [node for body in (model.graph, *model.functions) for node in body.node]
    constants = [node.attribute[0].t for node in nodes if node.op_type == "Constant"]
    assert len(constants) > 20
    assert {constant.name for constant in constants} == {""}
