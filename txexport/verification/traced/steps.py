"""The cases of a traced decoder: one pass, steps and pieces over a cache, padded rows, written tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from txexport.contracts import cache_names, names
from txexport.errors import InputError, first_line
from txexport.runtime.model import Model
from txexport.verification.checks import SkipError, TensorCheck, check_of
from txexport.verification.traced.decoders import answered, encoded, prompt, source_values
from txexport.verification.traced.judging import Pair, compared, unpadded
from txexport.verification.traced.originals import Original, quiet

Step = Callable[..., dict[str, np.ndarray]]
WRITTEN = 8  # tokens of an answer
LONG, FAR = 160, 2048  # tokens of the longest case, and of one beyond a window
TIE = 1e-4  # of log-probabilities
GREEDY = "tokens of a greedy search"
SEARCHES = {GREEDY: 1, "tokens of three beams": 3}  # by their number of beams
RAGGED_ENCODER = "encoder, ragged"
QUICK = ("one pass", "padded at the left, in steps", GREEDY)
QUICK_WITH_SOURCE = (RAGGED_ENCODER, "one pass", "ragged sources, in steps", GREEDY)


@dataclass(frozen=True)
class StepCase:
    """Rows of seeded tokens that the graph reads in `pieces`, the last one repeated until all are read.

    `padded` is the place of padding among the tokens: "left", "middle" or None. `source` is the number of
    tokens of the encoder's text, 0 without an encoder; if `ragged`, its rows end with padding.
    """

    name: str
    rows: int
    tokens: int
    pieces: tuple[int, ...]
    padded: str | None = None
    seed: int = 1
    source: int = 0
    ragged: bool = False


def plan(original: Original) -> list[StepCase]:
    """All cases that compare numbers, as long as the model allows.

    The longest has as many tokens as the model's limit, or LONG if that is smaller; and one is longer than
    each window, chunk and range of positions that the config names, unless that is longer than FAR.
    """
    limit = original.longest
    every = [
        StepCase("one pass", 2, 11, (11,)),
        StepCase("one token", 1, 1, (1,)),
        StepCase("steps", 1, 9, (4, 1)),
        StepCase("pieces", 3, 13, (5, 3), seed=2),
        StepCase("padded at the left, in steps", 3, 12, (7, 1), "left", seed=3),
        StepCase("padded in the middle, in pieces", 3, 12, (6, 6), "middle", seed=4),
        StepCase("nine rows", 9, 17, (16, 1), "left", seed=5),
    ]
    longest = min(limit, LONG)
    every.append(StepCase(f"{longest} tokens", 2, longest, (longest // 2, longest), "left", seed=6))
    for name, size in original.ranges.items():
        tokens = min(limit, size + 9)
        if size < tokens <= FAR:
            every.append(StepCase(f"{tokens} tokens, beyond {name}", 1, tokens, (tokens - 5, 1), seed=7))
    return [case for case in every if case.tokens <= limit]


def plan_with_source(original: Original) -> list[StepCase]:
    """All cases of a decoder over an encoder, as long as the model allows."""
    limit = original.longest
    longest = min(limit, LONG)
    every = [
        StepCase("one pass", 2, 7, (7,), source=11),
        StepCase("one token", 1, 1, (1,), source=1),
        StepCase("steps", 1, 9, (1,), source=9),
        StepCase("pieces", 3, 13, (5, 3), seed=2, source=6),
        StepCase("ragged sources, in steps", 3, 8, (1,), seed=3, source=12, ragged=True),
        StepCase("nine rows", 9, 10, (9, 1), seed=5, source=17, ragged=True),
        StepCase(f"{longest} tokens", 2, longest, (1, longest), seed=6, source=longest, ragged=True),
    ]
    return [case for case in every if max(case.tokens, case.source) <= limit]


def judged(
    original: Original,
    step: Step,
    case: StepCase,
    empty: Mapping[str, np.ndarray],
    source: Mapping[str, np.ndarray] | None = None,
    *,
    lacking: bool = False,
) -> list[TensorCheck]:
    """Logits of every token, and the last keys and values, beside the class in one pass; without padding.

    `empty` are the inputs of keys and values for one row without a past. `source` are the inputs of the
    class's encoder; the step has what it needs of it. With `lacking`, a graph may give fewer keys and values,
    and logits of the last tokens of a piece alone.
    """
    values = prompt(original.facts, case.rows, case.tokens, case.seed, case.padded)
    outputs, has_logits = _in_pieces(step, case, values, empty, lacking)

    def compute() -> dict[str, np.ndarray]:
        expected = answered(original, values, source)
        return {name: expected[name] for name in expected if not lacking or name in outputs}

    mask = values[names.ATTENTION_MASK] == 1
    sources = None if source is None else source.get(names.ATTENTION_MASK)

    def without_padding(name: str, array: np.ndarray, expected: np.ndarray) -> Pair:
        if name == names.LOGITS:
            return _at(mask & has_logits, array, expected)
        by_token = array.transpose(0, 2, 1, 3), expected.transpose(0, 2, 1, 3)
        if cache_names.is_cross(name):
            return _at(None if sources is None else sources == 1, *by_token)
        return _at(mask, *(_of_window(*by_token, case.tokens) if lacking else by_token))

    return compared(original, compute, outputs, without_padding)


def _of_window(array: np.ndarray, expected: np.ndarray, tokens: int) -> Pair:
    """Keys or values (rows, tokens, heads, D): of all `tokens`, those that the class keeps of a window."""
    return (array[:, -expected.shape[1] :] if array.shape[1] == tokens else array), expected


def _at(mask: np.ndarray | None, array: np.ndarray, expected: np.ndarray) -> Pair:
    """The pair where `mask` (rows, tokens) has True, if both have its tokens; of the last ones if fewer."""
    if mask is None or array.shape != expected.shape:
        return array, expected
    seen = mask[:, -expected.shape[1] :]
    return array[seen], expected[seen]


def _in_pieces(
    step: Step,
    case: StepCase,
    values: Mapping[str, np.ndarray],
    empty: Mapping[str, np.ndarray],
    lacking: bool,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The logits of all pieces side by side, the keys and values after the last; which tokens have logits.

    Where a piece may give logits of its last tokens alone, those of the others are 0.
    """
    cache = {name: np.repeat(array, case.rows, axis=0) for name, array in empty.items()}
    logits, done, sizes = [], 0, list(case.pieces)
    has_logits = np.zeros(case.tokens, bool)
    outputs: dict[str, np.ndarray] = {}
    while done < case.tokens:
        until = min(case.tokens, done + (sizes.pop(0) if len(sizes) > 1 else sizes[0]))
        answer = step(
            **{
                names.INPUT_IDS: values[names.INPUT_IDS][:, done:until],
                names.ATTENTION_MASK: values[names.ATTENTION_MASK][:, :until],
                names.POSITION_IDS: values[names.POSITION_IDS][:, done:until],
            },
            **cache,
        )
        numbers = answer.pop(names.LOGITS)
        absent = until - done - numbers.shape[1] if lacking else 0
        has_logits[done + absent : until] = True
        logits.append(np.pad(numbers, [(0, 0), (absent, 0), (0, 0)]))
        outputs |= answer
        cache |= {cache_names.to_past(name): array for name, array in answer.items()}
        done = until
    return {names.LOGITS: np.concatenate(logits, axis=1)} | outputs, has_logits


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
    return cases | searches(original, model)


def searches(original: Original, model: Model) -> dict[str, Callable[[], list[TensorCheck]]]:
    """The cases that write tokens, by name, to be called."""
    return {name: partial(tokens_checked, original, model, beams) for name, beams in SEARCHES.items()}


def encoder_judged(
    original: Original, encode: Callable[[Mapping[str, np.ndarray]], np.ndarray], ragged: bool
) -> list[TensorCheck]:
    """The hidden states that `encode` gives of a source, beside the class's encoder; without padding."""
    source = source_values(original, 3, 12, 8, ragged)
    outputs = {names.LAST_HIDDEN_STATE: encode(source)}

    def compute() -> dict[str, np.ndarray]:
        return {names.LAST_HIDDEN_STATE: encoded(original, source)}

    return compared(original, compute, outputs, partial(unpadded, source.get(names.ATTENTION_MASK)))


def tokens_checked(original: Original, model: Model, beams: int) -> list[TensorCheck]:
    """The tokens of ragged prompts, one batch, as `generate` of the class writes them, or a tie of these.

    Raises SkipError for settings of the checkpoint with which either does not generate.
    """
    rows = _prompts(original)
    options = {"max_new_tokens": _written(original), "num_beams": beams, "do_sample": False}
    try:
        written = model.generate_ids(rows, num_return_sequences=1, **options)
    except InputError as error:
        raise SkipError(f"with the checkpoint's settings nothing is generated so: {error}") from None
    checks = []
    for place, (row, tokens) in enumerate(zip(rows, written, strict=True)):
        ids = torch.tensor([row])
        inputs = {"attention_mask": torch.ones_like(ids), "return_dict_in_generate": False}
        try:
            with torch.no_grad(), quiet():
                answer = original.model.generate(ids, num_return_sequences=1, **inputs, **options)
        except Exception as error:
            raise SkipError(f"transformers does not generate so: {first_line(error)}") from None
        begun = 1 if original.config.is_encoder_decoder else len(row)  # the start token, or the prompt
        expected = answer[0, begun:].tolist()
        same = tokens == expected or _ties(original, row, tokens, expected)
        pair = np.array(expected if same else tokens), np.array(expected)
        checks.append(check_of(f"tokens {place}", [pair], 0.0))
    return checks


def _ties(original: Original, row: list[int], tokens: list[int], expected: list[int]) -> bool:
    """Tell whether the class gives two answers the same score: at their first other token, or in all."""
    pairs = enumerate(zip(tokens, expected, strict=False))
    first = next((place for place, (one, other) in pairs if one != other), None)
    if first is None:
        return False
    scores = [_log_probabilities(original, row, one) for one in (tokens, expected)]
    at_first = abs(scores[0][first] - scores[1][first])
    in_all = abs(np.mean(scores[0]) - np.mean(scores[1]))
    return min(at_first, in_all) <= TIE


def _log_probabilities(original: Original, row: list[int], tokens: list[int]) -> np.ndarray:
    """The log-probability of each token after a row, as the class has it."""
    source: dict[str, np.ndarray] | None = None
    prefix = row
    if original.config.is_encoder_decoder:
        source = {names.INPUT_IDS: np.array([row]), names.ATTENTION_MASK: np.ones((1, len(row)), np.int64)}
        prefix = [original.model.generation_config.decoder_start_token_id]
    ids = np.array([prefix + tokens])
    positions = np.arange(ids.shape[1])[None]
    values = {names.INPUT_IDS: ids, names.ATTENTION_MASK: np.ones_like(ids), names.POSITION_IDS: positions}
    logits = answered(original, values, source)[names.LOGITS][0, len(prefix) - 1 : -1].astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logs[np.arange(len(tokens)), tokens]


def _written(original: Original) -> int:
    return max(1, min(WRITTEN, original.longest // 3))


def _prompts(original: Original) -> list[list[int]]:
    chance = np.random.default_rng(7)
    least = min(5, original.facts.vocabulary - 1)
    sizes = [size for size in (1, 4, 9) if size + _written(original) <= original.longest]
    return [chance.integers(least, original.facts.vocabulary, size).tolist() for size in sizes]
