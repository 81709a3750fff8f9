"""The cases: outputs of bundle and reference in pairs, without padding."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from txexport.bundle.manifest import GraphFile
from txexport.contracts import cache_names, roles
from txexport.contracts.compared import Compared, compared_in
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import (
    ALIGNMENT_WEIGHTS,
    ATTENTION_MASK,
    GLOBAL_ATTENTION_MASK,
    INPUT_IDS,
    LOGITS,
    PRED_BOXES,
    SEQUENCE_LENGTH,
    TEXT,
    TEXT_EMBEDS,
    TOKEN_TYPE_IDS,
)
from txexport.errors import counted
from txexport.parts.cases import (
    DecoderCase,
    DualEncoderCase,
    EncoderCase,
    GreedyCase,
)
from txexport.parts.part import SignalCase
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.requests import GenerationRequest
from txexport.verification import bounds
from txexport.verification.agreement import Behaviour
from txexport.verification.cases import alignment, layers
from txexport.verification.cases.crossed_pictures import crosses_images, run_crossed
from txexport.verification.cases.decoder_steps import Steps
from txexport.verification.cases.embedded_steps import steps_of
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.pictures import media, run_pictures, source_images, source_of_prompt
from txexport.verification.cases.ranks import in_ranks
from txexport.verification.cases.sources import Pairs, RolePairs, prompt_of, run_sources, source_of
from txexport.verification.counts import CACHES
from txexport.verification.references.reference import Arrays, Reference


@dataclass(frozen=True)
class Outcome:
    """One output over one case: pairs (found, expected) without padding.

    `compare` counts the choices of the pairs at a bound; None where the meaning of the output decides.
    `graph` is the file of the graph that gave it, None if it is the only one of its kind or all ran together.
    `again` gives the pairs with the present numbers of the reference; None if the whole case must run again.
    """

    output: str
    pairs: Pairs
    compare: Callable[[Pairs, float], Behaviour] | None = None
    graph: str | None = None
    again: Callable[[], Pairs] | None = None


def run_encoder(runner: GraphRunner, reference: Reference, case: EncoderCase) -> list[Outcome]:
    """Every output of an encoder over a padded batch."""
    graph, inputs = runner.manifest.graphs[roles.MODEL], _inputs(runner, case)
    result = runner.run(**inputs)
    check_declared(runner, result)
    real = partial(layers.without_padding, by_token(graph))
    pairs: dict[str, Pairs] = {name: [] for name in result}
    batch = None if case.alone else reference.encode(inputs)
    for row, mask in enumerate(case.attention_mask.astype(bool)):
        if batch is None:
            alone = reference.encode({name: array[row : row + 1, mask] for name, array in inputs.items()})
            expected = {name: layers.among(name, array[0], mask) for name, array in alone.items()}
        else:
            expected = real(batch, row, mask)
        check_complete(result, expected)
        for name, array in real(result, row, mask).items():
            pairs[name].append((array, expected[name]))
    return [Outcome(name, pairs[name]) for name in pairs]


def by_token(graph: GraphFile) -> set[str]:
    """The outputs that have one number or vector a token."""
    return {port.name for port in graph.outputs if port.shape[1:2] == [SEQUENCE_LENGTH]}


def run_choices(runner: GraphRunner, reference: Reference, case: EncoderCase) -> list[Outcome]:
    """The scores of multiple-choice: the rows of the case as choices, and the same in reverse."""
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
    """Every output of an encoder of images or sounds; the reference reads them with the same padding."""
    graph = runner.manifest.graphs[roles.MODEL]
    signals = [case.signals] if case.mask is None else [case.signals, case.mask]
    inputs = {port.name: array for port, array in zip(graph.inputs, signals, strict=True)}
    result, encode = runner.run(**inputs), partial(reference.encode, inputs)
    boxes = result.get(PRED_BOXES)
    expected = encode() if boxes is None else in_ranks(encode, result, boxes.shape[1])
    check_complete(result, expected)
    check_declared(runner, result)
    if case.real is None:
        return [Outcome(name, [(array, expected[name])]) for name, array in result.items()]
    pairs: dict[str, Pairs] = {name: [] for name in result}
    within = case.real if case.within is None else case.within
    for row, masks in enumerate(zip(case.real, within, strict=True)):
        ours, theirs = (
            layers.without_padding(by_token(graph), one, row, *masks) for one in (result, expected)
        )
        for name, array in ours.items():
            pairs[name].append((array, theirs[name]))
    return [Outcome(name, pairs[name]) for name in pairs]


def run_dual_encoder(runner: GraphRunner, reference: Reference, case: DualEncoderCase) -> list[Outcome]:
    """Vectors and scores of texts and signals; the reference reads the texts one by one."""
    texts = {INPUT_IDS: case.input_ids, ATTENTION_MASK: case.attention_mask}
    graphs = runner.manifest.graphs
    other = compared_in({port.name for graph in graphs.values() for port in graph.outputs})
    reads = graphs[other.role if other.role in graphs else roles.MODEL].inputs
    port = next(one.name for one in reads if one.name not in texts)
    signals = {port: case.signals, **case.beside}
    results = {
        role: runner.run(role, **inputs)
        for role, inputs in ((roles.TEXT, texts), (other.role, signals), (roles.MODEL, {**texts, **signals}))
        if role in graphs
    }
    if roles.SIMILARITY in graphs:
        vectors = {
            name: results[role][name]
            for role, name in ((roles.TEXT, TEXT_EMBEDS), (other.role, other.vectors))
        }
        results[roles.SIMILARITY] = runner.run(roles.SIMILARITY, **vectors)
    pairs: RolePairs = {}
    for row, mask in enumerate(case.attention_mask.astype(bool)):
        read = mask if case.alone else np.ones_like(mask)
        text = {name: array[row : row + 1, read] for name, array in texts.items()}
        expected = reference.encode(text | signals)
        for role, result in results.items():
            for name, array in result.items():
                if name.startswith(TEXT) and kind_of(name) is not None:
                    computed = layers.of_row(name, array[row], mask)
                    truth = layers.among(name, layers.of_row(name, expected[name][0], mask[read]), mask)
                else:
                    computed = _of_text(other, name, array, row)
                    truth = _of_text(other, name, expected[name], 0)
                pairs.setdefault((role, name), []).append((computed, truth))
    return by_graph(runner, pairs)


def _of_text(other: Compared, name: str, array: np.ndarray, row: int) -> np.ndarray:
    """The part of an output that belongs to the text of a row, together with all signals."""
    if name == other.scores:
        return array[:, row : row + 1].T
    return array if name == other.vectors or name.startswith(f"{other.stack}_") else array[row : row + 1]


def by_graph(runner: GraphRunner, pairs: RolePairs) -> list[Outcome]:
    """The outcomes of each graph."""
    return [Outcome(name, pairs[role, name], graph=runner.file(role)) for role, name in pairs]


def _inputs(runner: GraphRunner, case: EncoderCase) -> dict[str, np.ndarray]:
    """The graph's inputs of the case."""
    inputs = {
        INPUT_IDS: case.input_ids,
        ATTENTION_MASK: case.attention_mask,
        TOKEN_TYPE_IDS: case.token_type_ids,
        GLOBAL_ATTENTION_MASK: case.global_attention_mask,
    }
    return {port.name: inputs[port.name] for port in runner.manifest.graphs[roles.MODEL].inputs}


def check_complete(found: Iterable[str], expected: Iterable[str]) -> None:
    """Raise AssertionError for an output of the reference that the graph lacks."""
    missing = set(expected) - set(found)
    if missing:
        raise AssertionError(f"the graph has no output {', '.join(sorted(missing))}")


def check_declared(runner: GraphRunner, found: Arrays) -> None:
    """Raise AssertionError for an output whose shape is not the declared one."""
    for port in runner.manifest.graphs[roles.MODEL].outputs:
        if port.name in runner.left_out:
            continue
        shape = found[port.name].shape
        fits = len(shape) == len(port.shape) and all(
            isinstance(dim, str) or dim == size for dim, size in zip(port.shape, shape, strict=True)
        )
        if not fits:
            raise AssertionError(f"{port.name} is {shape}, declared ({', '.join(map(str, port.shape))})")


def run_decoder(runner: GraphRunner, reference: Reference, case: DecoderCase) -> list[Outcome]:
    """Logits of every token and the final cache: step by step against one pass for each row."""
    pairs: RolePairs = {}
    expected = [
        reference.decode(row, source_of(case, i), prompt_of(case, i)) for i, row in enumerate(case.rows)
    ]
    cross = {}
    if case.sources:
        images = source_images(runner, case, expected, pairs)
        cross = run_sources(runner, case, expected, pairs, images)
    media = None
    if crosses_images(runner):
        cross = run_crossed(runner, case, expected, pairs)
    elif case.images is not None and not case.sources:
        media = run_pictures(runner, case, expected, pairs)
    if aligned := alignment.pairs(runner, case.rows, cross, expected):
        pairs[roles.ALIGNMENT, ALIGNMENT_WEIGHTS] = aligned
    for steps in steps_of(runner, case, cross, media):
        taken = np.zeros(len(case.rows), int)
        for counts in case.steps:
            new = [row[done : done + n] for row, done, n in zip(case.rows, taken, counts, strict=True)]
            taken += pair_step(steps, steps.run(new), expected, taken, pairs)
        check_complete(
            [*(name for _, name in pairs), *steps.present], alignment.promised(runner, expected[0])
        )
        pair_caches(steps, expected, reference, pairs)
    return by_graph(runner, pairs)


def pair_step(
    steps: Steps,
    logits: Sequence[np.ndarray],
    expected: Sequence[Arrays],
    taken: np.ndarray,
    pairs: RolePairs,
) -> np.ndarray:
    """Pair what the last of `steps` gave for each row, after its `taken` tokens; the number of its tokens."""
    for row, (scores, truth, done) in enumerate(zip(logits, expected, taken, strict=True)):
        until = done + len(scores)
        if not len(scores):
            continue
        pairs.setdefault((steps.ran, LOGITS), []).append((scores, truth[LOGITS][done:until]))
        for name, both in steps.embeds(row, truth).items():
            pairs.setdefault((steps.embeds_by, name), []).append(both)
        for name, found in steps.layers(row).items():
            part = layers.of_step(name, truth, done, found, steps.filled(row))
            pairs.setdefault((steps.ran, name), []).append((found, part))
    return np.array([*map(len, logits)])


def pair_caches(steps: Steps, expected: Sequence[Arrays], reference: Reference, pairs: RolePairs) -> None:
    """Pair the caches after the last of `steps` with those that a reference has, row by row."""
    for row, truth in enumerate(expected):
        for name, cache in steps.present.items() if CACHES not in reference.lacks else ():
            computed, true = cache[row], truth[name]
            if cache_names.is_state(name):
                computed, true = state_vectors(computed), state_vectors(true)
            elif cache_names.is_cross(name):
                computed = computed[:, : true.shape[1]]
            else:
                computed = computed[:, steps.filled(row)]
            pairs.setdefault((steps.ran, name), []).append((computed, true))


def state_vectors(state: np.ndarray) -> np.ndarray:
    """A row's state as vectors, whose numbers are of one size.

    The last inputs (C,K) of a convolution are vectors (K,C) of tokens, a head's matrix (V,D,E) is one, and so
    are the numbers (C) of all channels.
    """
    if state.ndim == 1:
        return state
    return state.T if state.ndim == 2 else state.reshape(len(state), -1)


def run_greedy(runner: GraphRunner, reference: Reference, case: GreedyCase) -> list[Outcome]:
    """Greedy tokens of the runtime: the score that each lacks to the reference's best, 0 if equal.

    The reference reads prompt and tokens in one pass, so that one choice between near scores does not fail
    all later tokens.
    """
    config = plain_config(runner, max_new_tokens=case.new_tokens)
    request = GenerationRequest(runner.bundle, case.rows, config, media=media(runner, case))
    results = scheduler.finished(request)
    chosen = [result.tokens for result in results]
    pairs = []
    for i, (row, tokens) in enumerate(zip(case.rows, chosen, strict=True)):
        encodes = runner.bundle.is_encoder_decoder
        source = source_of_prompt(case, i, encodes)
        prompt = [config.decoder_start or 0] if encodes else list(row)
        logits = reference.decode(prompt + tokens[:-1], source, len(prompt))[LOGITS][len(prompt) - 1 :]
        if len(logits) != case.new_tokens:
            raise AssertionError(f"{counted(len(tokens), 'token')} came out, expected {case.new_tokens}")
        pairs.append((logits[np.arange(len(tokens)), tokens], logits.max(axis=1)))
    return [Outcome("tokens", pairs, _choices, runner.generating)]


def plain_config(runner: GraphRunner, **options: Any) -> GenerationConfig:
    """The generation config of `options` alone, without the checkpoint's defaults."""
    default = runner.bundle.files.generation_config
    plain = GenerationConfig(decoder_start_token_id=default.decoder_start, pad_token_id=default.pad)
    return plain.updated(**options)


def _choices(pairs: Pairs, bound: float) -> Behaviour:
    """Rows of (chosen, best) scores: how many choices are the best, or as good within the bound."""
    total = Behaviour()
    for chosen, best in pairs:
        equal, near = chosen == best, best - chosen <= bound * bounds.size(best)
        total = total.merged(Behaviour(len(best), int(equal.sum()), int((near & ~equal).sum())))
    return total
