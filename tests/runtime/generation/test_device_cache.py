"""Caches that stay in a device's memory: the processor stands in for it, and every answer is as before."""

import sys
import threading

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import txexport
from txexport import PrefixStore
from txexport.runtime.engines import device_buffers
from txexport.runtime.engines.captures import Captures
from txexport.runtime.engines.device_buffers import DeviceBuffers
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
        if operator != "Expand":  # which empties every new buffer
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


@pytest.mark.parametrize("operator", ["Gather", "Concat", "Pad", "Expand"])
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
    joined = moves.joined({"key": value}, {"key": value})
    np.testing.assert_array_equal(joined["key"].numpy(), np.concatenate([array, array]))
    longer = moves.longer({"key": value}, 5)
    np.testing.assert_array_equal(longer["key"].numpy(), np.pad(array, [(0, 0), (0, 0), (0, 2), (0, 0)]))


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
    monkeypatch.setattr(device_cache, "LEAST", 8)
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


def test_copies_are_written_into_borrowed_buffers():
    moves = Moves(["CPUExecutionProvider"], "cpu")
    first, second = (moves.buffers.borrow({"key": ((2, 1, 3, 2), np.float32)}) for _ in range(2))
    array = np.arange(12, dtype=np.float32).reshape(2, 1, 3, 2)
    first.write({"key": array})
    address = second.values["key"].data_ptr()
    moves.rows(first.values, np.array([1, 0]), second.values)
    assert second.values["key"].data_ptr() == address
    np.testing.assert_array_equal(second.values["key"].numpy(), array[[1, 0]])
    moves.clear(second.values)
    assert second.values["key"].data_ptr() == address
    np.testing.assert_array_equal(second.values["key"].numpy(), np.zeros_like(array))


def shapes_of(rows, kind=np.float32):
    return {"key": ((rows, 1, 64, 2), kind)}


def test_buffers_are_lent_again_when_a_loan_has_ended():
    buffers, shapes = DeviceBuffers("cpu"), shapes_of(1)

    def borrow(shapes):
        loan = buffers.borrow(shapes)
        return loan, loan.values["key"].data_ptr()

    (first, address), (second, apart) = borrow(shapes), borrow(shapes)
    assert address != apart, "one buffer was lent twice"
    runs = first.runs
    del first
    third, again = borrow(shapes)
    assert (again, third.runs is runs) == (address, True)
    del second, third
    for other in (shapes_of(2), shapes_of(1, np.float16)):
        _, elsewhere = borrow(other)
        assert elsewhere not in (address, apart)
    assert borrow(other)[0].values["key"].data_type() == "tensor(float16)"


def test_free_buffers_have_a_limit_but_the_last_stays(monkeypatch):
    buffers, sizes = DeviceBuffers("cpu"), [1, 2, 3]
    monkeypatch.setattr(device_buffers, "KEPT", 5 * 64 * 2 * 4)  # the last two
    runs = {}
    for rows in sizes:
        loan = buffers.borrow(shapes_of(rows))
        runs[rows] = loan.runs
        del loan
    loans = {rows: buffers.borrow(shapes_of(rows)) for rows in sizes}
    assert [loans[rows].runs is runs[rows] for rows in sizes] == [False, True, True]
    del loans
    monkeypatch.setattr(device_buffers, "KEPT", 0)
    large = buffers.borrow(shapes_of(9))
    before = large.runs
    del large
    assert buffers.borrow(shapes_of(9)).runs is before
    assert len(buffers._free) == 1


def test_threads_never_share_a_loan():
    buffers, held, failures = DeviceBuffers("cpu"), set(), []

    def work():
        for place in range(1000):
            loans = [buffers.borrow(shapes_of(1 + (place + number) % 3)) for number in range(3)]
            addresses = {loan.values["key"].data_ptr() for loan in loans}
            failures.extend(addresses & held)
            held.update(addresses)
            held.difference_update(addresses)
            loans.clear()

    def guarded():
        try:
            work()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


@pytest.mark.parametrize("search", ["greedy", "beams", "sampled"])
def test_later_calls_replay_what_the_first_captured(search, on_device):
    """The number of captures does not grow with calls, whose answers stay as they were."""
    usual, moved, _ = on_device("gpt2")
    engine = moved.sessions["model"].engine
    engine.captures = Captures(engine.session, "cpu")
    options = {"max_new_tokens": 12, "min_new_tokens": 12} | SEARCHES[search]
    expected, counts = usual.generate(TEXTS, **options), []
    for _ in range(4):
        assert moved.generate(TEXTS, **options) == expected
        counts.append(engine.captures.count)
    assert 0 < counts[-2] == counts[-1] <= 2, counts


def test_a_running_batch_replays_what_rows_before_captured(on_device):
    usual, moved, _ = on_device("gpt2")
    engine = moved.sessions["model"].engine
    engine.captures = Captures(engine.session, "cpu")
    prompt, options = [5, 6, 7], {"max_new_tokens": 12, "min_new_tokens": 12}
    [expected] = usual.generate_ids([prompt], **options)
    batch, counts = RunningBatch(moved.bundle, 400), []
    for _ in range(6):
        rows = [rows_of(request_of(moved.bundle, [prompt], None, options)) for _ in range(2)]
        batch.add(rows[0])
        for _ in range(4):
            batch.step()
        batch.add(rows[1])
        while batch.busy:
            batch.step()
        assert [row.result.tokens for [row] in rows] == [expected] * 2
        counts.append(engine.captures.count)
    assert 0 < counts[-3] == counts[-1], counts


@pytest.mark.parametrize(
    ("capacity", "size"),
    [(1, 64), (64, 64), (65, 128), (1000, 1024), (1025, 1152), (4096, 4096), (4097, 4608), (33000, 36864)],
)
def test_capacities_are_few(capacity, size):
    assert device_cache.rounded(capacity) == size


def test_a_new_cache_is_empty(on_device):
    _, moved, _ = on_device("gpt2")
    session = moved.sessions["model"]
    cache = open_cache(session, "static", {}, 2, 64)
    before = {name: value.data_ptr() for name, value in cache.buffers.items()}
    cache.loan.write({name: np.full_like(array, np.nan) for name, array in cache.held().items()})
    del cache
    cache = open_cache(session, "static", {}, 2, 64)
    assert {name: value.data_ptr() for name, value in cache.buffers.items()} == before
    assert not any(array.any() for array in cache.held().values())


def test_rows_that_cannot_join_leave_those_there_as_they_were(on_device, monkeypatch):
    """If the device's memory is full, the running rows keep their buffers, and no other cache gets them."""
    usual, moved, moves = on_device("gpt2")
    prompt, options = [5, 6, 7], {"max_new_tokens": 9, "min_new_tokens": 9}
    [expected] = usual.generate_ids([prompt], **options)
    [row], [other] = (rows_of(request_of(moved.bundle, [prompt], None, options)) for _ in range(2))
    batch = RunningBatch(moved.bundle, 400)
    batch.add([row])
    batch.step()

    def full(*_):
        raise RuntimeError("the device's memory is full")

    with monkeypatch.context() as patch:
        patch.setattr(Counted, "joined", full)
        batch.add([other])
        batch.step()
    loan = moves.buffers.borrow(
        {name: (tuple(value.shape()), np.float32) for name, value in batch.groups[0].cache.values.items()}
    )
    loan.write({name: np.full(value.shape(), np.nan, np.float32) for name, value in loan.values.items()})
    while batch.busy:
        batch.step()
    assert row.result.tokens == expected


def test_buffers_grow_to_such_capacities(on_device):
    usual, moved, moves = on_device("llama")
    cache = open_cache(moved.sessions["model"], "static", {}, 2, 13)
    assert isinstance(cache, DeviceCache)
    assert cache.capacity == 64
    cache.reserve(65)
    assert cache.capacity == 128
    assert {array.shape[2] for array in cache.held().values()} == {128}
    assert not any(array.any() for array in cache.held().values())
    assert type(open_cache(usual.sessions["model"], "static", {}, 2, 13)) is StaticCache
    assert DeviceRows(moved.sessions["model"]).capacity == 0
    assert moves.calls == ["Pad"] * len(cache.buffers)
