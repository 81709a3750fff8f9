"""Graphs for other clients give the same outputs if present states overwrite the past ones in place."""

import numpy as np
import onnx
import onnxruntime
import pytest

from txexport.contracts.cache_names import is_past, is_state, to_present
from txexport.exporter import export

FAMILIES = ["qwen3_5_text", "bamba", "mamba", "recurrent_gemma", "lfm2", "rwkv"]
IDS = np.array([[5, 9, 17, 200, 33], [4, 7, 8, 100, 60]])


def arrays_of(session: onnxruntime.InferenceSession) -> dict[str, np.ndarray]:
    """The inputs of a step over two rows, with random past states and no past keys and values."""
    ones = {
        "input_ids": IDS,
        "attention_mask": np.ones_like(IDS),
        "position_ids": np.arange(5)[None].repeat(2, 0),
    }
    noise, values = np.random.default_rng(0), {}
    for port in session.get_inputs():
        sizes = [size if isinstance(size, int) else 0 for size in port.shape[1:]]
        state = is_past(port.name)
        values[port.name] = noise.random((2, *sizes), np.float32) if state else ones[port.name]
    return values


def run(session: onnxruntime.InferenceSession, in_place: bool) -> list[np.ndarray]:
    """The outputs; with `in_place`, each past state and its present one are bound to the same buffer."""
    binding, values = session.io_binding(), {}
    for name, array in arrays_of(session).items():
        values[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        binding.bind_ortvalue_input(name, values[name])
    states = {to_present(name): value for name, value in values.items() if is_state(name)}
    for port in session.get_outputs():
        if in_place and port.name in states:
            binding.bind_ortvalue_output(port.name, states[port.name])
        else:
            binding.bind_output(port.name)
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


@pytest.mark.parametrize("client", [None, "web"])
@pytest.mark.parametrize("family", FAMILIES)
def test_states_may_be_overwritten(family, client, checkpoint_of, tmp_path):
    export(checkpoint_of(family), tmp_path / "out", only="hub", client=client)
    session = onnxruntime.InferenceSession(tmp_path / "out/onnx/model.onnx")
    for expected, actual in zip(run(session, False), run(session, True), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("family", ["qwen3_5_text", "granitemoehybrid"])
def test_a_shared_buffer_has_states_too(family, checkpoint_of, tmp_path):
    """Only the node that copies a state reads it."""
    export(checkpoint_of(family), tmp_path / "out", only="hub", client="genai")
    graph = onnx.load(tmp_path / "out/onnx/model_shared.onnx", load_external_data=False).graph
    states = [port.name for port in graph.input if is_state(port.name)]
    assert len(states) >= 4
    for state in states:
        [user] = [node for node in graph.node if state in node.input]
        assert (user.op_type, [*user.input]) == ("Concat", [state])
        inner = [one for node in graph.node for attribute in node.attribute for one in attribute.g.node]
        assert not any(state in one.input for one in inner)
