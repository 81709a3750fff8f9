"""How likely a model finds texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txexport.errors import InputError
from txexport.runtime.batches import Progress, together
from txexport.runtime.generation import generation, requests

if TYPE_CHECKING:
    from txexport.runtime.model import Model


@dataclass(frozen=True)
class Score:
    """How likely a model finds tokens: the logarithm of each one's probability, given those before it."""

    tokens: list[int]
    log_probs: list[float]

    @property
    def total(self) -> float:
        """The logarithm of the probability of all of them."""
        return float(sum(self.log_probs))


def score(
    model: "Model",
    texts: str | Sequence[str],
    targets: str | Sequence[str] | None = None,
    *,
    batch_tokens: int = requests.CACHE_TOKENS,
    progress: Progress | None = None,
) -> list[Score]:
    """How likely the model finds each token of texts, given those before it; the first ones have none.

    An encoder-decoder scores `targets`, as answers to `texts`. `batch_tokens` and `progress` as in
    `generate`. Raises InputError for a task that does not generate and for texts that are too long.
    """
    if model.is_speech:
        raise InputError("a model of speech scores no texts")
    if ("encoder_model" in model.sessions) != (targets is not None):
        raise InputError("targets are what an encoder-decoder scores, and only that")
    rows = requests.checked(model, model.rows(texts)[0], model.generation_config)
    answers: list[list[int]] = [[] for _ in rows]
    if targets is not None:
        answers = model.rows(targets)[0]
        if len(answers) != len(rows):
            raise InputError(f"{len(rows)} texts have {len(answers)} targets, expected one each")
    read = [
        len(target) + 1 if targets is not None else len(row)
        for row, target in zip(rows, answers, strict=True)
    ]
    for length in read:
        model.check_length(length, model.manifest.limits["decoder"])
    found: list[Score] = [Score([], [])] * len(rows)
    costs = [len(row) + len(target) for row, target in zip(rows, answers, strict=True)]
    done = 0
    for batch in together(costs, costs, batch_tokens):
        job = requests.job_of(model, [rows[i] for i in batch], model.generation_config, strict=False)
        whole = [[*prompt, *answers[i]] for prompt, i in zip(job.prompts, batch, strict=True)]
        logs = generation.score(job, whole, model.generation_config.pad)
        for i, row, values in zip(batch, whole, logs, strict=True):
            found[i] = Score(list(row[1:]), values.tolist())
        done += len(batch)
        if progress is not None:
            progress(done, len(rows))
    return found
