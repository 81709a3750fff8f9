"""Memory that is given back is used again, when nobody looks at it any more, and without what stood in it."""

import numpy as np
import pytest

import txexport
from txexport.runtime import memory
from txexport.runtime.generation import prefill


@pytest.fixture
def spare():
    return memory.BufferPool()


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_what_is_given_back_is_used_again_and_empty(spare):
    block = spare.zeros(1000)
    block[:] = 7
    first = address(block)
    del block
    again = spare.zeros(900)
    assert address(again) == first
    assert len(again) == 900
    assert not again.any()


def test_what_a_view_looks_at_is_not_given_back(spare):
    view = spare.zeros(1024).view(np.float32).reshape(16, 16)[3:]
    view[:] = 5
    other = spare.zeros(1024)
    other[:] = 1
    assert (view == 5).all()


def test_more_than_there_is_comes_anew(spare):
    spare.zeros(100)
    assert len(spare.zeros(10_000)) == 10_000
    assert [len(block) for block in spare.blocks] == [100 + memory.ALIGNMENT, 10_000 + memory.ALIGNMENT]


def test_the_smallest_that_is_large_enough_is_taken(spare):
    held = [spare.zeros(size) for size in (10_000, 100)]
    places = [address(array) for array in held]
    del held
    small = spare.zeros(90)
    large = spare.zeros(90)
    assert [address(large), address(small)] == places
    assert not spare.blocks


def test_what_is_very_large_goes_back_to_the_system(spare, monkeypatch):
    monkeypatch.setattr(memory, "KEPT", 1000)
    spare.zeros(2000)
    assert not spare.blocks


def test_arrays_begin_at_cache_lines(spare):
    held = [spare.zeros(size) for size in (1, 100, 5000, 100)]
    assert {address(array) % memory.ALIGNMENT for array in held} == {0}


def test_a_text_knows_nothing_of_the_text_before(bundle_of):
    model = txexport.load(bundle_of("gpt2", "static"), device="cpu", threads=1)
    prompts, options = [[5, 6, 7, 8], [9]], {"max_new_tokens": 6, "eos_token_id": None}
    plain = model.generate_ids(prompts, **options)
    [block] = model.sessions["model"].buffers.blocks
    block[:] = 0xFF  # NaN in float32
    assert model.generate_ids(prompts, **options) == plain
    [after] = model.sessions["model"].buffers.blocks
    assert after is block


def test_a_cache_that_grows_finds_what_the_one_before_grew_into(bundle_of, monkeypatch):
    monkeypatch.setattr(prefill, "CAPACITY", 16)
    model = txexport.load(bundle_of("gpt2", "static"), device="cpu", threads=1)
    buffers, options = model.sessions["model"].buffers, {"max_new_tokens": 20, "eos_token_id": None}
    model.generate_ids([[5, 6]], **options)
    first = {address(block): len(block) for block in buffers.blocks}
    assert len(set(first.values())) == 2
    model.generate_ids([[7, 8]], **options)
    assert {address(block): len(block) for block in buffers.blocks} == first
