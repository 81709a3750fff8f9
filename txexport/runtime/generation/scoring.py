"""Log-probabilities of the tokens of given sequences."""

from collections.abc import Sequence

import numpy as np

from txexport.contracts.names import LOGITS
from txexport.errors import InputError
from txexport.runtime.batches import SCORES_AT_ONCE
from txexport.runtime.generation.planning import plan_of
from txexport.runtime.generation.prefill import cache_of, padding
from txexport.runtime.generation.requests import GenerationRequest
from txexport.runtime.generation.sampling import log_softmax
from txexport.runtime.preprocessing.text import pad
from txexport.runtime.session import finite


def token_log_probs(request: GenerationRequest, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The log-probability of each token of each row but the first, given those before it."""
    _check_scored(request, rows)
    ids, _ = pad(rows, padding(request))
    counts = np.array([len(row) for row in rows])
    cache = cache_of(request, len(ids), ids.shape[1])
    log_probs = np.zeros((len(ids), ids.shape[1] - 1), np.float32)
    most = max(1, SCORES_AT_ONCE // (len(ids) * request.vocab_size))
    for start in range(0, ids.shape[1] - 1, most):
        logits = cache.read(ids[:, start : start + most], np.clip(counts - start, 0, most))  # (B, S, V)
        following = ids[:, start + 1 : start + 1 + most, None]
        logs = log_softmax(logits[:, : following.shape[1]])
        log_probs[:, start : start + most] = np.take_along_axis(logs, following, axis=2)[:, :, 0]
    scores = [log_probs[row, : count - 1] for row, count in enumerate(counts)]
    for row in scores:
        finite({LOGITS: row})
    return scores


def _check_scored(request: GenerationRequest, rows: Sequence[Sequence[int]]) -> None:
    """Raise InputError for a token that has an embedding and no score, as one that stands for an image."""
    beyond = next((token for row in rows for token in row[1:] if token >= request.vocab_size), None)
    if beyond is not None:
        raise InputError(
            f"token {beyond} has no score; the model scores tokens 0 to {request.vocab_size - 1}"
        )


def shaped_log_probs(request: GenerationRequest, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The log-probability of each new token of each row after its decoder's first tokens.

    Under the scores that a search chose from, at temperature 1: processed scores times the temperature.
    """
    prompts, temperature = request.decoder_input_ids, request.config.temperature
    scale = temperature if request.config.do_sample else 1.0
    plan = plan_of(request, list(map(len, rows)), list(range(len(rows))))
    ids, _ = pad([[*prompt, *row[:-1]] for prompt, row in zip(prompts, rows, strict=True)], padding(request))
    counts = np.array([len(p) + len(row) - 1 for p, row in zip(prompts, rows, strict=True)])
    cache = cache_of(request, len(ids), ids.shape[1])
    results = [np.zeros(len(row), np.float32) for row in rows]
    most = max(1, SCORES_AT_ONCE // (len(ids) * request.vocab_size))
    for start in range(0, ids.shape[1], most):
        logits = cache.read(ids[:, start : start + most], np.clip(counts - start, 0, most))  # (B, S, V)
        for row, tokens in enumerate(rows):
            before = len(prompts[row]) - 1  # the position whose logits choose the first new token
            new = range(max(0, start - before), min(len(tokens), start + logits.shape[1] - before))
            if not new:
                continue
            scores = logits[row, new[0] + before - start : new[-1] + 1 + before - start]
            if request.config.num_beams > 1:  # which processes log-probabilities
                scores = log_softmax(scores)
            if plan.shape is not None:
                scores = plan.shape([row] * len(new), [tokens[:i] for i in new], scores)
            logs = log_softmax(scores * np.float32(scale))
            results[row][new[0] : new[-1] + 1] = logs[np.arange(len(new)), [tokens[i] for i in new]]
    return results
