"""Caches that stay in a device's memory: the processor stands in for it, and every answer is as before."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import txexport
from txexport import PrefixStore
from txexport.runtime.engines.moves import TYPES, Moves, one_node
from txexport.runtime.generation import device_cache
from txexport.runtime.generation.caches import open_cache
from txexport.runtime.generation.device_cache import DeviceCache, DeviceRows
from txexport.runtime.generation.kv_cache import StaticCache
from txexport.runtime.generation.requests import request_of
from txexport.runtime.generation.running_batch import RunningBatch, rows_of

TEXTS = ["a small house on the hill", "the", "one two"]
SEARCHES = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "several beams": {"num_beams": 4, "num_return_sequences": 2},
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "sampled": {"do_sample": True, "seed": 5, "num_return_sequences": 2},
    "long": {"max_new_tokens": 20, "min_new_tokens": 20},
}


class Counted(Moves):
    """Moves that count their calls."""

    def __init__(self):
        super().__init__(["CPUExecutionProvider"], "cpu")
        self.calls: list[str] = []

    def _run(self, operator, *values):
        self.calls.append(operator)
        return super()._run(operator, *values)


@pytest.fixture(scope="module")
def on_device(bundle_of):
    """A function from a model_type to its model twice: as ever, and as on a device, with its moves."""

    def get(model_type: str, **options):
        usual, moved = (txexport.load(bundle_of(model_type, **options)) for _ in range(2))
        moves = Counted()
        for session in moved.sessions.values():
            session.moves = moves
        return usual, moved, moves

    return get


@pytest.mark.parametrize("operator", ["Gather", "Concat", "Pad"])
@pytest.mark.parametrize("kind", TYPES.values())
def test_graphs_of_one_node_are_valid(operator, kind):
    model = onnx.load_model_from_string(one_node(operator, kind, 4))
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == [operator]


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_rows_are_chosen_joined_and_lengthened(kind):
    moves = Moves(["CPUExecutionProvider"], "cpu")
    array = np.arange(12).reshape(2, 1, 3, 2).astype(kind)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    chosen = moves.rows({"key": value}, np.array([1, 0, 1]))
    np.testing.assert_array_equal(chosen["key"].numpy(), array[[1, 0, 1]])
    np.testing.assert_array_equal(moves.joined(value, value).numpy(), np.concatenate([array, array]))
    longer = moves.longer(value, 5).numpy()
    np.testing.assert_array_equal(longer, np.pad(array, [(0, 0), (0, 0), (0, 2), (0, 0)]))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("model_type", ["gpt2", "llama", "t5", "lfm2", "mamba"])
def test_searches_are_equal(model_type, search, on_device):
    usual, moved, moves = on_device(model_type)
    options = {"max_new_tokens": 8} | SEARCHES[search]
    if model_type in ("lfm2", "mamba") and "num_beam_groups" in options:
        pytest.skip("one of both is enough")
    assert moved.generate(TEXTS, **options) == usual.generate(TEXTS, **options)
    moved_rows = model_type != "mamba" and search not in ("greedy", "long")  # which keeps states alone
    assert ("Gather" in moves.calls) == moved_rows


@pytest.mark.parametrize("model_type", ["gpt2", "bart", "lfm2", "mamba"])
def test_rows_that_come_and_go_are_equal(model_type, on_device, monkeypatch):
    """Continuous batching: rows join a running batch, whose buffers grow, and leave it in any order."""
    monkeypatch.setattr(device_cache, "CAPACITY", 8)
    usual, moved, moves = on_device(model_type)
    jobs = [([5, 6, 7, 8][: 1 + place % 4], {"max_new_tokens": 3 + 5 * (place % 4)}) for place in range(9)]
    expected = [usual.generate_ids([prompt], **options)[0] for prompt, options in jobs]
    rows = [rows_of(request_of(moved.bundle, [prompt], None, options)) for prompt, options in jobs]
    batch, left = RunningBatch(moved.bundle, 400), list(rows)
    while left or batch.busy:
        if left:
            batch.add(left.pop(0))
        batch.step()
        batch.step()
    assert [row.result.tokens for [row] in rows] == expected
    assert {*moves.calls} == (set() if model_type == "mamba" else {"Concat", "Gather", "Pad"})


def test_a_kept_prefix_and_drafts_are_equal(on_device, read):
    """Rows are read back from the device for a store, and written there; a draft's tokens are taken back."""
    usual, moved, _ = on_device("gpt2")
    prompt, store = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6], PrefixStore()
    expected = usual.generate_ids([prompt], max_new_tokens=12)
    read.clear()
    for _ in range(2):
        assert moved.generate_ids([prompt], max_new_tokens=12, prefix_store=store) == expected
    prompts = [count for count in read if count > 1]
    assert prompts == [10]  # the second time, all but the last token come from the store
    assert moved.generate_ids([prompt], max_new_tokens=12, assistant_model=usual) == expected


def test_capacities_are_multiples_of_eight(on_device):
    usual, moved, moves = on_device("llama")
    cache = open_cache(moved.sessions["model"], "static", {}, 2, 13)
    assert isinstance(cache, DeviceCache)
    assert cache.capacity == 16
    cache.reserve(17)
    assert cache.capacity == 24
    assert {array.shape[2] for array in cache.held().values()} == {24}
    assert type(open_cache(usual.sessions["model"], "static", {}, 2, 13)) is StaticCache
    assert DeviceRows(moved.sessions["model"]).capacity == 0
    assert moves.calls == ["Pad"] * len(cache.buffers)
