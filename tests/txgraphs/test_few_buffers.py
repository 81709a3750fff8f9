"""Splits and concatenations of many values, in kernels that bind few buffers."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import tiny_checkpoint
from onnx import TensorProto, helper, load
from txgraphs._few_buffers import MOST, with_few_buffers

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


def test_experts_are_divided_so(tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "mixtral", num_local_experts=MOST + 2)
    export(tmp_path / "in", tmp_path / "out", only="hub")
    graph = load(tmp_path / "out/onnx/model.onnx", load_external_data=False).graph
    assert max(len(node.input) for node in graph.node if node.op_type == "Concat") == MOST
    split = {node.input[0] for node in graph.node if node.op_type == "Split" and len(node.output) > MOST}
    makers = {name: node.op_type for node in graph.node for name in node.output}
    assert {makers[name] for name in split} == {"CumSum", "Sub"}  # of the bounds, on the processor
