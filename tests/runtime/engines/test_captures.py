"""Runs that CUDA captures: which ones, their values, and a replay that is wrong.

The processor's memory stands for the device's; ONNX Runtime's CPU provider ignores the number of a capture.
"""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from txexport.runtime.engines.captures import MOST, REPEATED, SHORT, Captures, _short


@pytest.fixture
def session():
    """A graph of y = past + x, with rows of any number."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", 2]) for name in ("past", "x", "y")]
    node = helper.make_node("Add", ["past", "x"], ["y"])
    graph = helper.make_graph([node], "sum", values[:2], values[2:])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    return Recorded(model.SerializeToString())


class Recorded(ort.InferenceSession):
    """A session that lists the number of each run, and may leave replays undone."""

    numbers: tuple[str, ...] = ()
    broken = False

    def run_with_iobinding(self, iobinding, run_options=None):
        """Run, unless a replay is broken."""
        number = run_options.get_run_config_entry("gpu_graph_id")
        replay = number != "-1" and number in self.numbers
        self.numbers = (*self.numbers, number)
        if not (replay and self.broken):
            super().run_with_iobinding(iobinding, run_options)


def value(array):
    return ort.OrtValue.ortvalue_from_numpy(np.array(array, np.float32))


def rows(count, number):
    return np.full((count, 2), number, np.float32)


def test_a_run_that_repeats_is_captured_and_reads_new_inputs(session):
    captures = Captures(session, "cpu")
    run = captures.bind({"past": value([[1, 2]])}, {}, ["y"], "cpu")
    for number in range(2 * REPEATED):
        np.testing.assert_array_equal(run({"x": rows(1, number)})["y"].numpy(), [[1 + number, 2 + number]])
    assert session.numbers == ("-1",) * REPEATED + ("0", "-1") + ("0",) * REPEATED


def test_each_shape_and_each_binding_has_a_capture(session):
    """Prompts, whose length differs, stay as they are; values at other addresses are captured anew."""
    captures = Captures(session, "cpu")
    for past in ([[1, 2]], [[3, 4]]):
        run = captures.bind({"past": value(past)}, {}, ["y"], "cpu")
        for _ in range(REPEATED + 1):
            run({"x": rows(1, 1)})
    many = captures.bind({"past": value([[1, 2]] * 3)}, {}, ["y"], "cpu")
    many({"x": rows(3, 1)})
    assert captures.count == 2
    assert set(session.numbers) == {"-1", "0", "1"}


def test_a_wrong_replay_ends_all_captures(session):
    session.broken = True
    captures = Captures(session, "cpu")
    run = captures.bind({"past": value([[1, 2]])}, {}, ["y"], "cpu")
    for number in range(REPEATED):
        run({"x": rows(1, number)})
    with pytest.warns(UserWarning, match="a CUDA graph gives other values of y"):
        last = run({"x": rows(1, 9)})
    np.testing.assert_array_equal(last["y"].numpy(), [[10, 11]])
    for number in range(2 * REPEATED):
        np.testing.assert_array_equal(run({"x": rows(1, number)})["y"].numpy(), [[1 + number, 2 + number]])
    assert captures.count == MOST


def test_captures_have_a_limit(session):
    captures = Captures(session, "cpu")
    captures.count = MOST
    run = captures.bind({"past": value([[1, 2]])}, {}, ["y"], "cpu")
    for _ in range(REPEATED + 2):
        run({"x": rows(1, 1)})
    assert set(session.numbers) == {"-1"}


def test_a_capture_that_fails_is_a_warning(session, monkeypatch):
    captures = Captures(session, "cpu")
    run = captures.bind({"past": value([[1, 2]])}, {}, ["y"], "cpu")
    recorded = session.run_with_iobinding

    def refuses(binding, options):
        if options.get_run_config_entry("gpu_graph_id") != "-1":
            raise RuntimeError("operation not permitted when stream is capturing")
        recorded(binding, options)

    monkeypatch.setattr(session, "run_with_iobinding", refuses)
    for number in range(REPEATED - 1):
        run({"x": rows(1, number)})
    with pytest.warns(UserWarning, match="a step runs without a CUDA graph: operation not permitted"):
        last = run({"x": rows(1, 9)})
    np.testing.assert_array_equal(last["y"].numpy(), [[10, 11]])
    np.testing.assert_array_equal(run({"x": rows(1, 3)})["y"].numpy(), [[4, 5]])


@pytest.mark.parametrize(("tokens", "short"), [(1, True), (SHORT, True), (SHORT + 1, False)])
def test_long_prompts_are_not_captured(tokens, short):
    assert _short({"input_ids": np.zeros((3, tokens), np.int64), "positions": np.zeros((3, 3, 1))}) == short
