"""Beam search in the bundle's runtime against a plain search over the reference, without a cache."""

from functools import partial

import numpy as np

from txexport.contracts.names import LOGITS
from txexport.parts.cases import GreedyCase
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.requests import GenerationRequest
from txexport.verification.agreement import Behaviour, best_of
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.pictures import media, source_of_prompt
from txexport.verification.cases.runs import Outcome, Pairs, plain_config
from txexport.verification.references.reference import Reference, Source

ROUNDING = 1e-7  # of a mean of log-probabilities in float32, at least


def run_beams(runner: GraphRunner, reference: Reference, case: GreedyCase) -> list[Outcome]:
    """Compare the scores of the runtime's beams, and their tokens with the reference's own beams.

    Other tokens are no failure if the reference's search met two candidates whose scores differ by less than
    twice the error: either may be kept, and other beams follow from it.
    """
    config = plain_config(
        runner, num_beams=case.beams, num_return_sequences=case.beams, max_new_tokens=case.new_tokens
    )
    request = GenerationRequest(runner.bundle, case.rows, config, media=media(runner, case))
    generated = scheduler.finished(request)
    beams = [generated[at : at + case.beams] for at in range(0, len(generated), case.beams)]
    start = [config.decoder_start or 0] if runner.bundle.is_encoder_decoder else []
    scores, tokens, counts = [], [], [0, 0]
    searches: list[_Search] = []
    for row, (source, ours) in enumerate(zip(case.rows, beams, strict=True)):
        prompt: list[int] = start or list(source)
        read = source_of_prompt(case, row, bool(start))
        search = _Search(reference, prompt, read, case.beams)
        nearest = search.run(case.new_tokens)
        true = [search.known(beam.tokens) / case.new_tokens for beam in ours]
        found = [np.nan if beam.score is None else beam.score for beam in ours]
        scores.append((np.array(found), np.array(true)))
        searches.append(search)
        error = max(ROUNDING, float(np.abs(np.subtract(found, true)).max()))
        for beam, score, best in zip(ours, true, search.beams, strict=True):
            expected = search.scores[tuple(best)] / case.new_tokens
            equal = beam.tokens == best
            tie = not equal and min(nearest / case.new_tokens, abs(score - expected)) <= 2 * error
            counts[0] += equal
            counts[1] += tie
            tokens.append((np.array([float(equal or tie)]), np.ones(1)))
    total = Behaviour(len(tokens), *counts)
    graph = runner.generating
    again = partial(_scored_again, scores, searches, [[beam.tokens for beam in ours] for ours in beams])
    return [
        Outcome("beam scores", scores, graph=graph, again=again),
        Outcome("beam tokens", tokens, lambda *_: total, graph, lambda: tokens),
    ]


def _scored_again(scores: Pairs, searches: "list[_Search]", beams: list[list[list[int]]]) -> Pairs:
    """The scores with the reference's present numbers, without another search."""
    return [
        (found, np.array([search.score(tokens) / len(tokens) for tokens in ours]))
        for (found, _), search, ours in zip(scores, searches, beams, strict=True)
    ]


class _Search:
    """Beam search of that `width` after one prompt, with the log-probabilities of all candidates tried."""

    def __init__(self, reference: Reference, prompt: list[int], source: Source, width: int):
        self.reference, self.prompt, self.source, self.width = reference, prompt, source, width
        self.beams: list[list[int]] = [[]]
        self.scores: dict[tuple[int, ...], float] = {(): 0.0}

    def run(self, steps: int) -> float:
        """Extend the beams; return the smallest difference of two candidates at the cut."""
        nearest = np.inf
        for _ in range(steps):
            candidates = []
            for beam in self.beams:
                logs = _log_softmax(self._logits(beam)[-1]) + self.scores[tuple(beam)]
                candidates += [
                    (logs[token], [*beam, int(token)]) for token in best_of(logs[None], self.width + 1)[0]
                ]
            candidates.sort(key=lambda pair: -pair[0])
            order = np.array([score for score, _ in candidates[: self.width + 1]])
            nearest = min(nearest, float(-np.diff(order).max(initial=-np.inf)))
            best = candidates[: self.width]
            self.beams = [beam for _, beam in best]
            self.scores |= {tuple(beam): float(score) for score, beam in best}
        return nearest

    def known(self, tokens: list[int]) -> float:
        """The score of tokens, from the search if it has met them."""
        score = self.scores.get(tuple(tokens))
        return self.score(tokens) if score is None else score

    def score(self, tokens: list[int]) -> float:
        """The sum of log-probabilities of tokens after the prompt."""
        logs = _log_softmax(self._logits(tokens[:-1]))
        return float(logs[np.arange(len(tokens)), tokens].sum())

    def _logits(self, tokens: list[int]) -> np.ndarray:
        """The logits of the prompt's last token and of the tokens after it (1 + tokens, V), in float64."""
        logits = self.reference.decode(self.prompt + tokens, self.source, len(self.prompt))[LOGITS]
        return logits[len(self.prompt) - 1 :].astype(np.float64)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    top = logits.max(axis=-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
