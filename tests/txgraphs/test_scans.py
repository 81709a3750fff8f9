"""Scan nodes of graphs for other clients: bodies declare types, and use no outer tensors but constants."""

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper
from txgraphs._scans import with_plain_scans

from txexport.exporter import export


def scans(graph: onnx.GraphProto) -> Iterator[tuple[onnx.GraphProto, onnx.NodeProto]]:
    """Each Scan and the graph that contains it, also in the branches of an If."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                if node.op_type == "Scan":
                    yield graph, node
                yield from scans(attribute.g)


@pytest.mark.parametrize(
    "family", ["mamba", "jamba", "qwen3_5_text", "mamba2", "rwkv", "recurrent_gemma", "kimi_linear"]
)
def test_bodies_are_by_themselves(family, checkpoint_of, tmp_path):
    export(checkpoint_of(family), tmp_path / "out", only="hub")
    model = onnx.load(tmp_path / "out/onnx/model.onnx", load_external_data=False)
    tried = [*scans(model.graph)]
    assert tried
    for around, node in tried:
        body = next(one.g for one in node.attribute if one.name == "body")
        for port in (*body.input, *body.output):
            assert port.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        assert len(node.input) == len(body.input)
        assert len(node.output) == len(body.output)
        constants = {one.output[0] for one in (*model.graph.node, *around.node) if one.op_type == "Constant"}
        inside = {port.name for port in body.input} | {name for one in body.node for name in one.output}
        assert {name for one in body.node for name in one.input} <= inside | constants


def test_what_comes_from_outside_is_a_state_that_stays():
    body = onnx.parser.parse_graph(
        "body (a, x) => (b, y) { c = Mul (a, rate) b = Add (c, x) y = Sub (b, shift) }"
    )
    scan = helper.make_node("Scan", ["s", "xs"], ["t", "ys"], "scan", body=body, num_scan_inputs=1)
    ports = onnx.parser.parse_graph(
        "g (float[3] s, float[N,3] xs, float[3] rate, float[3] shift) => (float[3] t, float[N,3] ys) {}"
    )
    ports.node.append(scan)
    model = helper.make_model(ports, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    noise = np.random.default_rng(0)
    values = {
        "s": noise.random(3),
        "xs": noise.random((4, 3)),
        "rate": noise.random(3),
        "shift": noise.random(3),
    }
    feeds = {name: value.astype(np.float32) for name, value in values.items()}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    plain = ir.to_proto(with_plain_scans(ir.from_proto(model)))
    [(_, node)] = scans(plain.graph)
    assert [*node.input] == ["s", "rate", "shift", "xs"]
    for ours, theirs in zip(
        onnxruntime.InferenceSession(plain.SerializeToString()).run(None, feeds), expected, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
