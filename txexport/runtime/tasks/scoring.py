"""Log-probabilities of texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from txexport.contracts.stage import SOUND, TOKENS
from txexport.errors import InputError, counted
from txexport.runtime.batches import batches_by_length
from txexport.runtime.generation.prompts import inputs_of
from txexport.runtime.generation.requests import GenerationRequest, checked, encoded
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.runtime.generation.scoring import token_log_probs
from txexport.runtime.loaded_bundle import LoadedBundle, check_length
from txexport.support.progress import Progress, counting


@dataclass(frozen=True)
class Score:
    """Tokens, and the log-probability of each one given those before it."""

    tokens: list[int]
    log_probs: list[float]

    @property
    def total(self) -> float:
        """The log-probability of all tokens together."""
        return float(sum(self.log_probs))


def score(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    targets: str | Sequence[str] | None = None,
    *,
    batch_tokens: int = CACHE_TOKENS,
    progress: Progress | None = None,
) -> list[Score]:
    """The log-probability of each token of texts, given those before it; the first token has none.

    An encoder-decoder scores `targets`, as answers to `texts`. `batch_tokens` as in `generate`. Raises
    InputError for a task that does not generate, for a model whose prompts' tokens attend to later ones
    (PaliGemma), and for texts that are too long.
    """
    if bundle.prompt_kind != TOKENS:
        seeing = "ask_image" if bundle.draws_questions else "image_to_text"
        what, method = ("speech", "transcribe") if bundle.prompt_kind == SOUND else ("images", seeing)
        raise InputError(f"a model of {what} scores no texts; it has {method}")
    if bundle.is_encoder_decoder != (targets is not None):
        expected = "one for each text" if bundle.is_encoder_decoder else "None: it is no encoder-decoder"
        state = "None" if targets is None else "given"
        raise InputError(f"task '{bundle.manifest.task}': targets are {state}, expected {expected}")
    if bundle.step is not None and bundle.step.facts.mutual_prompts:
        raise InputError(
            "tokens of a prompt attend to those after them, so that none has a log-probability given those "
            "before it; use generate_with_scores"
        )
    config = bundle.files.generation_config
    request = checked(GenerationRequest(bundle, inputs_of(bundle, texts)[0], config, strict=False))
    rows = request.inputs
    answers: list[list[int]] = [[] for _ in rows]
    if targets is not None:
        answers = inputs_of(bundle, targets)[0]
        if len(answers) != len(rows):
            raise InputError(
                f"{counted(len(rows), 'text')} and {counted(len(answers), 'target')}, expected one each"
            )
    read = [
        len(target) + 1 if targets is not None else len(row)
        for row, target in zip(rows, answers, strict=True)
    ]
    for length in read:
        check_length(length, request.limit)
    results: list[Score] = [Score([], [])] * len(rows)
    costs = [len(row) + len(target) for row, target in zip(rows, answers, strict=True)]
    tell, done = counting(progress), 0
    for batch in batches_by_length(costs, costs, batch_tokens):
        mine = encoded(request.of_rows(batch))
        sequences = [[*prompt, *answers[i]] for prompt, i in zip(mine.decoder_input_ids, batch, strict=True)]
        logs = token_log_probs(mine, sequences)
        for i, row, values in zip(batch, sequences, logs, strict=True):
            results[i] = Score(list(row[1:]), values.tolist())
        done += len(batch)
        tell(done, len(rows))
    return results
