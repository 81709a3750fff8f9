"""Cosines and sines in sums and products, which graphs for browsers have instead of their devices' own."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper
from txgraphs import _turns
from txgraphs._constants import float32
from txgraphs._flat import flatten

from txexport import bundle
from txexport.exporter import export
from txexport.verification import verify

FARTHEST = 1.6e6  # radians


def graph_of(*operators: str) -> ir.Model:
    """A graph of these operators over one angle."""
    nodes = [helper.make_node(operator, ["angles"], [operator]) for operator in operators]
    ports = [helper.make_tensor_value_info(name, 1, None) for name in ("angles", *operators)]
    model = helper.make_model(
        helper.make_graph(nodes, "turns", ports[:1], ports[1:]),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    return ir.serde.deserialize_model(model)


def computed(model: ir.Model, angles: np.ndarray) -> list[np.ndarray]:
    data = ir.serde.serialize_model(model).SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, {"angles": angles})


def angles() -> np.ndarray:
    rng = np.random.default_rng(0)
    near, far = rng.uniform(-7, 7, 200_000), rng.uniform(-FARTHEST, FARTHEST, 200_000)
    positions = np.arange(0, 1 << 20, 7)
    quarters = np.arange(-200, 200) * (np.pi / 2)
    return np.concatenate([near, far, positions, quarters, [0.0, -FARTHEST, FARTHEST]]).astype(np.float32)


def test_they_are_within_three_ten_millionths_at_any_angle():
    radians = angles()
    cosine, sine = computed(flatten(_turns.spell_turns(graph_of("Cos", "Sin"))), radians)
    assert np.abs(cosine - np.cos(radians.astype(np.float64))).max() < 3e-7
    assert np.abs(sine - np.sin(radians.astype(np.float64))).max() < 3e-7
    assert (cosine[radians == 0] == 1).all()
    assert (sine[radians == 0] == 0).all()


@pytest.mark.parametrize("operator", ["Cos", "Sin"])
def test_each_alone_and_of_any_shape(operator):
    model = flatten(_turns.spell_turns(graph_of(operator)))
    radians = angles()[:240].reshape(2, 3, 5, 8)
    [result] = computed(model, radians)
    assert result.shape == radians.shape
    assert np.abs(result - getattr(np, operator.lower())(radians.astype(np.float64))).max() < 3e-7
    assert not {"Sin", "Cos"} & {node.op_type for node in model.graph}


@pytest.mark.parametrize("model_type", ["llama", "modernbert", "qwen2_vl", "gemma3_text", "xlnet", "detr"])
def test_graphs_for_browsers_have_no_others_and_equal_their_twins(model_type, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "out", client="web")
    manifest = bundle.read(tmp_path / "out")
    nodes = [
        node
        for graph in manifest.hub.values()
        for node in onnx.load(tmp_path / "out" / graph.file, load_external_data=False).graph.node
    ]
    assert "Floor" in {node.op_type for node in nodes}
    assert not {"Sin", "Cos"} & {node.op_type for node in nodes}
    report = verify(tmp_path / "out", cases="quick", reference="twin", source=checkpoint_of(model_type))
    assert report.ok


def test_wrong_numbers_are_caught(checkpoint_of, tmp_path, monkeypatch):
    """One coefficient that is a little off, where a small model's angles are."""
    series = [_turns.SECOND, float32((-0.16666, -0.5))]
    text = _turns.cosine_and_sine.to_function_proto()
    for node in text.node:
        for attribute in node.attribute:
            if attribute.t == series[0]:
                attribute.t.CopyFrom(series[1])

    class Wrong:
        to_function_proto = staticmethod(lambda: text)

    monkeypatch.setattr(_turns, "cosine_and_sine", Wrong)
    export(checkpoint_of("llama"), tmp_path / "out", client="web")
    report = verify(tmp_path / "out", cases="quick", reference="twin", source=checkpoint_of("llama"))
    assert not report.ok
    assert report.failed
