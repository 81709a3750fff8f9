"""Splits and concatenations of many values, in kernels that bind few buffers."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import tiny_checkpoint
from onnx import TensorProto, helper, load
from txgraphs._few_buffers import MOST, rounded_whole, with_few_buffers

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
    """Rows rounded by the first scale, in two parts, each dequantised by the next one and read twice."""
    parts = ["part0", "part1"]
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", scales[0], "zero"], ["steps"]),
            helper.make_node("Split", ["steps", "sizes"], parts, axis=0, name="split"),
            *(
                helper.make_node("DequantizeLinear", [part, scale, "zero"], [f"{part}.{use}"])
                for part, scale in zip(parts, scales[1:], strict=True)
                for use in (0, 1)
            ),
            helper.make_node("Concat", ["part0.0", "part1.0", "part0.1", "part1.1"], ["y"], axis=0),
        ],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["R", 50]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("fine", TensorProto.FLOAT, [], [1 / 127]),
            helper.make_tensor("coarse", TensorProto.FLOAT, [], [2 / 127]),
            helper.make_tensor("zero", TensorProto.UINT8, [], [128]),
        ],
    )
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.mark.parametrize(
    "scales", [["fine"] * 3, ["fine", "fine", "coarse"], ["coarse", "fine", "fine"]], ids="-".join
)
def test_rounded_rows_are_rounded_before_they_are_parted(scales):
    """Where all have one scale: WebGPU dequantises no empty part."""
    unchanged = parts_of_rounded_rows(scales)
    before, after = map(ir.to_proto, (unchanged, rounded_whole(parts_of_rounded_rows(scales))))
    halves = np.arange(-127, 123, 2.5, dtype=np.float32).reshape(2, 50) / 127  # also numbers half way
    for sizes in ([0, 2], [1, 1], [2, 0]):
        feeds = {"x": halves, "sizes": np.array(sizes)}
        y, expected = (
            ort.InferenceSession(model.SerializeToString()).run(None, feeds)[0] for model in (after, before)
        )
        np.testing.assert_array_equal(y, expected)
    kinds = [node.op_type for node in after.graph.node]
    assert kinds.count("DequantizeLinear") == (0 if len({*scales}) == 1 else 4)
    assert kinds.count("QuantizeLinear") == (0 if len({*scales}) == 1 else 1)


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
