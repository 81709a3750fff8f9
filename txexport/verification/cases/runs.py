"""One case at a time: the bundle's outputs and the reference's, paired without padding."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from txexport.contracts import cache_names, roles
from txexport.contracts.names import (
    ATTENTION_MASK,
    ENCODER_ATTENTION_MASK,
    ENCODER_HIDDEN_STATES,
    GLOBAL_ATTENTION_MASK,
    IMAGE_EMBEDS,
    INPUT_IDS,
    LAST_HIDDEN_STATE,
    LOGITS,
    LOGITS_PER_IMAGE,
    LOGITS_PER_TEXT,
    PIXEL_VALUES,
    SEQUENCE_LENGTH,
    TEXT_EMBEDS,
    TOKEN_TYPE_IDS,
)
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.requests import GenerationRequest
from txexport.runtime.preprocessing.text import pad
from txexport.verification import bounds
from txexport.verification.agreement import Behaviour
from txexport.verification.cases.decoder_steps import DynamicSteps, HubSteps, StaticSteps, Steps
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.seeded import (
    DecoderCase,
    DualEncoderCase,
    EncoderCase,
    GreedyCase,
    SignalCase,
    Sources,
)
from txexport.verification.references.originals import Arrays, Reference, Source

Pairs = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Outcome:
    """One output over one case: (found, expected), padding left out.

    `says` tells what the pairs say beside their numbers, at a bound; None where the output's name does.
    """

    output: str
    pairs: Pairs
    says: Callable[[Pairs, float], Behaviour] | None = None


def run_encoder(runner: GraphRunner, reference: Reference, case: EncoderCase) -> list[Outcome]:
    """Every output of an encoder-only graph over a padded batch."""
    graph, inputs = runner.manifest.graphs[roles.MODEL], _inputs(runner, case)
    result = runner.run(**inputs)
    _check_declared(runner, result)
    by_token = {port.name for port in graph.outputs if port.shape[1:2] == [SEQUENCE_LENGTH]}

    def real(outputs: Arrays, row: int, mask: np.ndarray) -> Arrays:
        """One row's numbers, without those of padding where an output has a number of its own a token."""
        return {name: array[row][mask] if name in by_token else array[row] for name, array in outputs.items()}

    pairs: dict[str, Pairs] = {name: [] for name in result}
    whole = None if case.alone else reference.encode(inputs)
    for row, mask in enumerate(case.attention_mask.astype(bool)):
        if whole is None:
            alone = reference.encode({name: array[row : row + 1, mask] for name, array in inputs.items()})
            expected = {name: array[0] for name, array in alone.items()}
        else:
            expected = real(whole, row, mask)
        _check_owed(result, expected)
        for name, array in real(result, row, mask).items():
            pairs[name].append((array, expected[name]))
    return [Outcome(name, pairs[name]) for name in pairs]


def run_choices(runner: GraphRunner, reference: Reference, case: EncoderCase) -> list[Outcome]:
    """The scores of choices: the case's rows, and the same in reverse, each row a choice."""
    inputs = {name: np.stack([array, array[::-1]]) for name, array in _inputs(runner, case).items()}
    result = runner.run(**inputs)[LOGITS]  # (2, B)
    if not case.alone:
        return [Outcome(LOGITS, [(result, reference.encode(inputs)[LOGITS])])]
    expected = np.zeros(result.shape)
    for item, choice in np.ndindex(result.shape):
        mask = inputs[ATTENTION_MASK][item, choice].astype(bool)
        alone = {name: array[item, choice, mask][None, None] for name, array in inputs.items()}
        expected[item, choice] = reference.encode(alone)[LOGITS].item()
    return [Outcome(LOGITS, [(result, expected)])]


def run_signals(runner: GraphRunner, reference: Reference, case: SignalCase) -> list[Outcome]:
    """Every output of an encoder of images or sounds."""
    name = runner.manifest.graphs[roles.MODEL].inputs[0].name
    result, expected = runner.run(**{name: case.signals}), reference.encode({name: case.signals})
    _check_owed(result, expected)
    _check_declared(runner, result)
    return [Outcome(name, [(array, expected[name])]) for name, array in result.items()]


def run_dual_encoder(runner: GraphRunner, reference: Reference, case: DualEncoderCase) -> list[Outcome]:
    """The vectors of texts, each of which the reference reads alone, and of images, and all their scores."""
    texts = {INPUT_IDS: case.input_ids, ATTENTION_MASK: case.attention_mask}
    pixels = {PIXEL_VALUES: case.pixel_values}
    there = runner.manifest.graphs
    towers: Arrays = {}
    for role, inputs in ((roles.TEXT, texts), (roles.VISION, pixels)):
        towers |= runner.run(role, **inputs) if role in there else {}
    pairs: dict[str, Pairs] = {}
    if roles.MODEL in there:
        result = runner.run(roles.MODEL, **texts, **pixels)
        for name, array in towers.items():
            pairs[name] = [(array, result[name])]
    else:
        result = towers | runner.run(roles.SIMILARITY, **towers)
    for row, mask in enumerate(case.attention_mask.astype(bool)):
        alone = {name: array[row : row + 1, mask] for name, array in texts.items()}
        expected = reference.encode(alone | {PIXEL_VALUES: case.pixel_values})
        own = {
            TEXT_EMBEDS: result[TEXT_EMBEDS][row : row + 1],
            IMAGE_EMBEDS: result[IMAGE_EMBEDS],
            LOGITS_PER_TEXT: result[LOGITS_PER_TEXT][row : row + 1],
            LOGITS_PER_IMAGE: result[LOGITS_PER_IMAGE][:, row : row + 1].T,  # one vector, of all images
        }
        expected[LOGITS_PER_IMAGE] = expected[LOGITS_PER_IMAGE].T
        for name, array in own.items():
            pairs.setdefault(name, []).append((array, expected[name]))
    return [Outcome(name, pairs[name]) for name in pairs]


def _inputs(runner: GraphRunner, case: EncoderCase) -> dict[str, np.ndarray]:
    """What the graph takes of the case."""
    inputs = {
        INPUT_IDS: case.input_ids,
        ATTENTION_MASK: case.attention_mask,
        TOKEN_TYPE_IDS: case.token_type_ids,
        GLOBAL_ATTENTION_MASK: case.global_attention_mask,
    }
    return {port.name: inputs[port.name] for port in runner.manifest.graphs[roles.MODEL].inputs}


def _check_owed(found: Iterable[str], expected: Iterable[str]) -> None:
    """Raise AssertionError for an output that the reference gives and the graph does not."""
    missing = set(expected) - set(found)
    if missing:
        raise AssertionError(f"the graph has no output {', '.join(sorted(missing))}")


def _check_declared(runner: GraphRunner, found: Arrays) -> None:
    """Raise AssertionError for an output of another shape than the bundle declares."""
    for port in runner.manifest.graphs[roles.MODEL].outputs:
        shape = found[port.name].shape
        fits = len(shape) == len(port.shape) and all(
            isinstance(dim, str) or dim == size for dim, size in zip(port.shape, shape, strict=True)
        )
        if not fits:
            raise AssertionError(f"{port.name} is {shape}, declared ({', '.join(map(str, port.shape))})")


def run_decoder(runner: GraphRunner, reference: Reference, case: DecoderCase) -> list[Outcome]:
    """Logits of every token and the cache in the end, step by step against one pass a row."""
    pairs: dict[str, Pairs] = {}
    expected = [
        reference.decode(row, case.sources[i] if case.sources else None) for i, row in enumerate(case.rows)
    ]
    cross = _run_source(runner, case.sources, expected, pairs) if case.sources else {}
    for steps in _kinds(runner, case, cross):
        logits: list[list[np.ndarray]] = [[] for _ in case.rows]
        for counts in case.steps:
            taken = [len(parts) for parts in logits]
            new = [row[done : done + n] for row, done, n in zip(case.rows, taken, counts, strict=True)]
            for parts, result in zip(logits, steps.run(new), strict=True):
                parts.extend(result)
        _check_owed([*pairs, *steps.present, LOGITS], expected[0])
        for row, truth in enumerate(expected):
            pairs.setdefault(LOGITS, []).append((np.stack(logits[row]), truth[LOGITS]))
            for name, cache in steps.present.items() if reference.caches else ():
                if cache_names.is_cross(name):
                    found = cache[row][:, : truth[name].shape[1]]
                else:
                    found = cache[row][:, steps.filled(row)]
                pairs.setdefault(name, []).append((found, truth[name]))
    return [Outcome(name, pairs[name]) for name in pairs]


def _kinds(runner: GraphRunner, case: DecoderCase, cross: dict[str, np.ndarray]) -> list[Steps]:
    """The ways in which the bundle's graphs are stepped through."""
    ways = {roles.DECODER_WITH_PAST: False, roles.DECODER_MERGED: True}
    others = [HubSteps(runner, case, cross, ways[role]) for role in ways if role in runner.manifest.graphs]
    if others:
        return list(others)
    return [(StaticSteps if runner.manifest.cache == "static" else DynamicSteps)(runner, case, cross)]


def _run_source(
    runner: GraphRunner, sources: Sources, expected: list[dict], pairs: dict[str, Pairs]
) -> dict[str, np.ndarray]:
    """Run and pair the encoder; what it leaves for the decoder."""
    port, rest = runner.manifest.graphs[roles.ENCODER].inputs[0].name, {}
    if port == INPUT_IDS:
        ids, mask = pad([list(source) for source in sources], 0)
        result = runner.run(roles.ENCODER, **{INPUT_IDS: ids, ATTENTION_MASK: mask})
        rest = {ENCODER_ATTENTION_MASK: mask}
    else:
        result = runner.run(roles.ENCODER, **{port: np.stack(sources)})
    for name, array in result.items():
        per_row = array if array.ndim == 3 else array.transpose(0, 2, 1, 3)  # token axis second
        for row, source in enumerate(sources):
            truth = expected[row][name]
            truth = truth if truth.ndim == 2 else truth.transpose(1, 0, 2)
            length = len(source) if rest else len(truth)
            pairs.setdefault(name, []).append((per_row[row, :length], truth))
    cross = {cache_names.to_past(name): array for name, array in result.items() if name != LAST_HIDDEN_STATE}
    if not cross:  # the decoder makes them
        cross = {ENCODER_HIDDEN_STATES: result[LAST_HIDDEN_STATE]}
    return {**rest, **cross}


def run_greedy(runner: GraphRunner, reference: Reference, case: GreedyCase) -> list[Outcome]:
    """Tokens that the runtime chose: how far each falls short of the reference's best, which is 0 if equal.

    The reference reads prompt and chosen tokens in one pass, so that one choice between two tokens within
    the tolerance of each other does not fail all those after it.
    """
    config = plain_config(runner, max_new_tokens=case.new_tokens)
    results = scheduler.finished(GenerationRequest(runner.bundle, case.rows, config))
    chosen = [result.tokens for result in results]
    pairs = []
    prompt: list[int]
    source: Source
    for row, tokens in zip(case.rows, chosen, strict=True):
        if runner.bundle.has_encoder:
            prompt, source = [config.decoder_start or 0], row
        else:
            prompt, source = list(row), None
        logits = reference.decode(prompt + tokens[:-1], source)[LOGITS][len(prompt) - 1 :]
        if len(logits) != case.new_tokens:
            raise AssertionError(f"{len(tokens)} tokens came out, expected {case.new_tokens}")
        pairs.append((logits[np.arange(len(tokens)), tokens], logits.max(axis=1)))
    return [Outcome("tokens", pairs, _choices)]


def plain_config(runner: GraphRunner, **options: Any) -> GenerationConfig:
    """The search of `options` alone, without what the checkpoint would have done beside."""
    own = runner.bundle.files.generation_config
    plain = GenerationConfig(decoder_start_token_id=own.decoder_start, pad_token_id=own.pad)
    return plain.updated(**options)


def _choices(pairs: Pairs, bound: float) -> Behaviour:
    """Rows of (reached, best) scores: how many choices are the best, or as good within the bound."""
    total = Behaviour()
    for reached, best in pairs:
        equal, near = reached == best, best - reached <= bound * bounds.size(best)
        total = total.merged(Behaviour(len(best), int(equal.sum()), int((near & ~equal).sum())))
    return total
