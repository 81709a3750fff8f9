"""Speed of models, which run the same workload in turn in every round."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import ATTENTION_MASK, BATCH_SIZE, INPUT_IDS, NUM_CHOICES, SEQUENCE_LENGTH
from txexport.dtype_comparison.accuracy import SEARCH
from txexport.dtype_comparison.texts import singles
from txexport.runtime import Model
from txexport.runtime.preprocessing.text import Item

LENGTH, NEW_TOKENS = 128, 16
ROWS = 8
REST = 0.05  # seconds for which the previous model's threads keep spinning
SIDE = 224  # pixels of images for a model of any size

Work = Callable[[Model], float]


def works_of(model: Model, items: list[Item]) -> dict[str, tuple[str, Work]]:
    """The workloads by name: a description, and a function that returns the seconds of one run.

    For generators, a prompt and the tokens after it; for all others, a batch.
    """
    if not model.manifest.cache:
        role = roles.MODEL if roles.MODEL in model.sessions else next(iter(model.sessions))
        inputs = _inputs(model, role, items)
        sizes = " x ".join(map(str, next(iter(inputs.values())).shape))
        read = "tokens" if INPUT_IDS in inputs else "numbers"
        return {
            "batch": (
                f"one pass over {sizes} {read}",
                lambda one: seconds_of(lambda: one.run(role, **inputs)),
            )
        }
    ids = [[i for row in model.text.encode(singles(items)) for i in row.ids]]
    limits = [limit for limit in model.manifest.limits.values() if limit is not None]
    length = min([LENGTH, *(limit - NEW_TOKENS - 1 for limit in limits)])
    prompt = np.resize(ids[0], max(1, length)).tolist()

    def first(one: Model) -> float:
        return seconds_of(lambda: _generate(one, prompt, 1))

    def each(one: Model) -> float:
        start = first(one)
        return max(1e-9, seconds_of(lambda: _generate(one, prompt, NEW_TOKENS + 1)) - start) / NEW_TOKENS

    return {
        "prompt": (f"a prompt of {len(prompt)} tokens and the first one after it", first),
        "token": (f"each of {NEW_TOKENS} tokens after it", each),
    }


def timed(
    models: dict[str, Model], works: dict[str, tuple[str, Work]], rounds: int
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Median seconds by name of a model and workload, and the speed-up of each over the first."""
    seconds: dict[str, dict[str, float]] = {one: {} for one in models}
    speedup: dict[str, dict[str, float]] = {one: {} for one in models}
    first = next(iter(models))
    for name, (_, work) in works.items():
        taken = [{one: _rested(work, model) for one, model in models.items()} for _ in range(rounds + 1)][1:]
        for one in models:
            seconds[one][name] = statistics.median(turn[one] for turn in taken)
            speedup[one][name] = statistics.median(turn[first] / turn[one] for turn in taken)
    return seconds, speedup


def _rested(work: Work, model: Model) -> float:
    time.sleep(REST)
    return work(model)


def seconds_of(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _generate(model: Model, prompt: list[int], count: int) -> None:
    model.generate_ids([prompt], eos_token_id=None, max_new_tokens=count, **SEARCH)


def _inputs(model: Model, role: str, items: list[Item]) -> dict[str, np.ndarray]:
    """Inputs of a graph by name: rows of the texts' tokens without padding, or seeded images."""
    session = model.sessions[role]
    limits = [limit for limit in model.manifest.limits.values() if limit is not None]
    sizes = {BATCH_SIZE: ROWS, SEQUENCE_LENGTH: min([LENGTH, *limits]), NUM_CHOICES: 2}
    result: dict[str, np.ndarray] = {}
    for name, port in session.inputs.items():
        shape = [dim if isinstance(dim, int) else sizes.get(dim, SIDE) for dim in port.shape]
        shape[0] = ROWS
        if name == INPUT_IDS:
            ids = [i for row in model.text.encode(singles(items)) for i in row.ids]
            result[name] = np.resize(np.array(ids, np.int64), shape)
        elif session.dtype(name) == np.int64:
            result[name] = np.full(shape, name == ATTENTION_MASK, np.int64)
        else:
            result[name] = np.random.default_rng(0).standard_normal(shape, np.float32)
    return result
