"""Log-probabilities of the tokens of given sequences."""

from collections.abc import Sequence

import numpy as np

from txexport.contracts.names import LOGITS
from txexport.runtime.batches import SCORES_AT_ONCE
from txexport.runtime.generation.prefill import cache_of, padding
from txexport.runtime.generation.requests import GenerationRequest
from txexport.runtime.generation.sampling import log_softmax
from txexport.runtime.preprocessing.text import pad
from txexport.runtime.session import finite


def token_log_probs(request: GenerationRequest, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The log-probability of each token of each row but the first, given those before it."""
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
