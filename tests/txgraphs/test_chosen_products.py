"""Products of experts that tokens have chosen, in graphs for browsers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import tiny_checkpoint

from txexport.exporter import bundle_plan, export

BATCH, LENGTH = 2, 5


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """A function from a family to its graph for a browser in int8, and the one for other clients."""
    folders = {}

    def get(family: str) -> dict[str, Path]:
        if family not in folders:
            folder = tmp_path_factory.mktemp("chosen")
            tiny_checkpoint.save(folder / "in", family)
            export(folder / "in", folder / "web", dtype="int8", client="web")
            export(folder / "in", folder / "hub", dtype="int8", only="hub")
            folders[family] = {name: folder / name / "onnx/model_int8.onnx" for name in ("web", "hub")}
        return folders[family]

    return get


def every_node(body) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and its branches."""
    for node in body.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from every_node(attribute.g)


def logits(file, seed: int, level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL) -> np.ndarray:
    """Those of two rows of which the second is padded, by a session as a client makes it."""
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 3
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    mask = np.array([[1] * LENGTH, [0, 0, 1, 1, 1]])
    feeds = {"attention_mask": mask, "position_ids": np.maximum(mask.cumsum(1) - 1, 0)}
    feeds["input_ids"] = np.random.default_rng(seed).integers(3, 90, (BATCH, LENGTH))
    for one in session.get_inputs():
        if one.name not in feeds:
            sizes = [size if isinstance(size, int) else BATCH * ("batch" in size) for size in one.shape]
            feeds[one.name] = np.zeros(sizes, np.float32)
    feeds = {one.name: feeds[one.name] for one in session.get_inputs()}
    return session.run(["logits"], feeds)[0][mask > 0]


@pytest.mark.parametrize("family", ["mixtral", "deepseek_v3"])
def test_a_session_as_clients_make_it_rounds_once(family, graphs):
    """Without options: ONNX Runtime rounds rows again that come from no DequantizeLinear, by about 1e-2."""
    for seed in range(3):
        exact = logits(graphs(family)["hub"], seed, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
        for client in ("web", "hub"):
            np.testing.assert_allclose(logits(graphs(family)[client], seed), exact, atol=1e-4)


@pytest.mark.parametrize("family", ["mixtral", "deepseek_v3"])
def test_rounded_rows_of_experts_are_dequantised_in_branches_alone(family, graphs):
    graph = onnx.load(graphs(family)["web"], load_external_data=False).graph
    parts = {name for node in graph.node if node.op_type in ("Split", "Slice") for name in node.output}
    readers = [node for node in every_node(graph) if node.op_type == "DequantizeLinear"]
    outside = {node.name for node in graph.node}
    of_parts = [node.name not in outside for node in readers if node.input[0] in parts]
    assert len(of_parts) > 5
    assert all(of_parts)
    other = onnx.load(graphs(family)["hub"], load_external_data=False).graph
    assert "If" not in {node.op_type for node in other.node}


def test_graphs_do_not_depend_on_those_made_before(tmp_path, monkeypatch):
    """Components are recorded once for all graphs of a process; onnx_ir names the constants that it reads."""

    def read(model: ir.Model) -> ir.Model:
        for node in model.graph.all_nodes():
            if node.op_type == "Constant":
                ir.convenience.get_const_tensor(node.outputs[0])
        return model

    monkeypatch.setattr(bundle_plan, "only_of_chosen", read)
    tiny_checkpoint.save(tmp_path / "in", "mixtral")
    export(tmp_path / "in", tmp_path / "web", dtype="int8", client="web")
    export(tmp_path / "in", tmp_path / "out", dtype="int8", only="native")
    model = onnx.load(tmp_path / "out/onnx/model_static_int8.onnx", load_external_data=False)
    nodes = [node for body in (model.graph, *model.functions) for node in body.node]
    constants = [node.attribute[0].t for node in nodes if node.op_type == "Constant"]
    assert len(constants) > 20
    assert {constant.name for constant in constants} == {""}
