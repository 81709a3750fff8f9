"""The cases of a traced decoder: one pass, steps and pieces over a cache, padded rows, written tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from txexport.contracts import cache_names, names
from txexport.runtime.model import Model
from txexport.verification import bounds
from txexport.verification.checks import TensorCheck, check_of
from txexport.verification.references.precision import in_float64, perturbed
from txexport.verification.traced.decoders import answered, prompt
from txexport.verification.traced.inputs import Facts
from txexport.verification.traced.originals import Original

Step = Callable[..., dict[str, np.ndarray]]
WRITTEN = 8  # tokens of a greedy answer
QUICK = ("one pass", "padded at the left, in steps", "tokens of a greedy search")


@dataclass(frozen=True)
class StepCase:
    """Rows of seeded tokens that the graph reads in `pieces`, the last one repeated until all are read."""

    name: str
    rows: int
    tokens: int
    pieces: tuple[int, ...]
    padded: str | None = None
    seed: int = 1


def plan(original: Original) -> list[StepCase]:
    """All cases that compare numbers; the longest is the model's limit, or 160 tokens if that is smaller."""
    longest = min(original.longest, 160)
    return [
        StepCase("one pass", 2, 11, (11,)),
        StepCase("one token", 1, 1, (1,)),
        StepCase("steps", 1, 9, (4, 1)),
        StepCase("pieces", 3, 13, (5, 3), seed=2),
        StepCase("padded at the left, in steps", 3, 12, (7, 1), "left", seed=3),
        StepCase("padded in the middle, in pieces", 3, 12, (6, 6), "middle", seed=4),
        StepCase("nine rows", 9, 17, (16, 1), "left", seed=5),
        StepCase(f"{longest} tokens", 2, longest, (longest // 2, longest), "left", seed=6),
    ]


def judged(
    original: Original, step: Step, case: StepCase, empty: Mapping[str, np.ndarray]
) -> list[TensorCheck]:
    """Logits of every token, and the last keys and values, beside the class in one pass; without padding.

    `empty` are the inputs of keys and values for one row without a past.
    """
    values = prompt(original.facts, case.rows, case.tokens, case.seed, case.padded)
    expected = answered(original, values)
    answers = _in_pieces(step, case, values, empty)
    if answers.keys() != expected.keys():
        raise AssertionError(f"outputs are {', '.join(answers)}, expected {', '.join(expected)}")
    mask = values[names.ATTENTION_MASK] == 1
    checks = [
        check_of(name, [_real(answers[name], expected[name], mask)], bounds.RELATIVE) for name in expected
    ]
    if all(check.ok for check in checks):
        return checks
    with in_float64(original.model):
        exact = answered(original, values)
    with perturbed(original.model, 0, centred=False):
        shaken = answered(original, values)
    return [_excused(check, answers, expected, exact, shaken, mask) for check in checks]


def _excused(
    check: TensorCheck,
    answers: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    exact: Mapping[str, np.ndarray],
    shaken: Mapping[str, np.ndarray],
    mask: np.ndarray,
) -> TensorCheck:
    """A check whose bound is a few times the rounding of the class in float32, where that is larger."""
    name = check.output
    pairs = [_real(one[name], exact[name], mask) for one in (expected, shaken)]
    rounding = max(bounds.largest_error(one, real) for one, real in pairs)
    allowed = bounds.bound(bounds.RELATIVE, rounding)
    again = check_of(name, [_real(answers[name], expected[name], mask)], allowed)
    return TensorCheck(name, again.elements, again.error, allowed, rounding)


def _real(answers: np.ndarray, expected: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pair without padding: logits (rows, tokens, V), or keys or values (rows, heads, tokens, D)."""
    if answers.shape != expected.shape:
        return answers, expected
    if expected.ndim == 4:
        answers, expected = answers.transpose(0, 2, 1, 3), expected.transpose(0, 2, 1, 3)
    return answers[mask], expected[mask]


def _in_pieces(
    step: Step, case: StepCase, values: Mapping[str, np.ndarray], empty: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The logits of all pieces side by side, and the keys and values after the last."""
    cache = {name: np.repeat(array, case.rows, axis=0) for name, array in empty.items()}
    logits, done, sizes = [], 0, list(case.pieces)
    while done < case.tokens:
        until = min(case.tokens, done + (sizes.pop(0) if len(sizes) > 1 else sizes[0]))
        outputs = step(
            **{
                names.INPUT_IDS: values[names.INPUT_IDS][:, done:until],
                names.ATTENTION_MASK: values[names.ATTENTION_MASK][:, :until],
                names.POSITION_IDS: values[names.POSITION_IDS][:, done:until],
            },
            **cache,
        )
        logits.append(outputs.pop(names.LOGITS))
        cache = {cache_names.to_past(name): array for name, array in outputs.items()}
        done = until
    return {names.LOGITS: np.concatenate(logits, axis=1)} | outputs


def empty_cache(ports: Mapping[str, list[int | str]]) -> dict[str, np.ndarray]:
    """The inputs of keys and values (1, K, 0, H) by the shapes of a graph's inputs."""
    return {
        name: np.zeros((1, int(shape[1]), 0, int(shape[3])), np.float32)
        for name, shape in ports.items()
        if cache_names.is_past(name)
    }


def decoder_checks(original: Original, model: Model) -> dict[str, Callable[[], list[TensorCheck]]]:
    """Every case of a decoder by name, to be called."""
    [session] = model.sessions.values()
    empty = empty_cache({name: port.shape for name, port in session.inputs.items()})

    def step(**values: np.ndarray) -> dict[str, np.ndarray]:
        return session.run({name: array for name, array in values.items() if name in session.inputs})

    cases: dict[str, Callable[[], list[TensorCheck]]] = {
        case.name: partial(judged, original, step, case, empty) for case in plan(original)
    }
    searches = {"tokens of a greedy search": 1, "tokens of three beams": 3}
    return cases | {name: partial(tokens_checked, original, model, beams) for name, beams in searches.items()}


def tokens_checked(original: Original, model: Model, beams: int) -> list[TensorCheck]:
    """The tokens of ragged prompts as `generate` of the class writes them, greedily or with beams."""
    checks = []
    for place, row in enumerate(_prompts(original.facts)):
        ids = torch.tensor([row])
        options = {"max_new_tokens": WRITTEN, "num_beams": beams, "do_sample": False}
        with torch.no_grad():
            answer = original.model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        [written] = model.generate_ids([row], **options)
        expected = answer[0, len(row) :].numpy()
        checks.append(check_of(f"tokens {place}", [(np.array(written), expected)], 0.0))
    return checks


def _prompts(facts: Facts) -> list[list[int]]:
    chance = np.random.default_rng(7)
    return [chance.integers(5, facts.vocabulary, size).tolist() for size in (1, 4, 9)]
