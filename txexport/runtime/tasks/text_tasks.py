"""What bundles are for: texts and images in, labels, words and probabilities out.

Each function is a method of Model. One input gives one answer, several give a list in the order given, like
those of transformers' pipelines. They share three arguments. `truncate` cuts texts that are longer than the
model allows, which are otherwise an InputError. `batch_tokens` is how many tokens, padding included, a batch
may have; a text longer than that stands alone. `progress` is told how many inputs are done, and of how many.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from txexport.bundle import read_json
from txexport.contracts import roles
from txexport.contracts.names import LOGITS, PREDICTION_LOGITS, SEQ_RELATIONSHIP_LOGITS
from txexport.errors import BundleError, InputError, shown
from txexport.runtime.batches import BATCH_TOKENS, SCORES_AT_ONCE, Progress, encode, gather, run, text_limit
from txexport.runtime.generation.options import check_count, check_flag
from txexport.runtime.preprocessing.text import Item, as_items, as_list, as_texts
from txexport.runtime.tasks.labels import Label, labelled, names, ranked, softmax
from txexport.tasks import TASKS, served_by

if TYPE_CHECKING:
    from txexport.runtime.model import Model


class Word(TypedDict):
    """A word for a mask: how likely it is, its id, its text, and the whole text with it."""

    score: float
    token: int
    token_str: str
    sequence: str


def check_task(model: "Model", method: str) -> None:
    """Raise InputError unless the bundle is for `method`, with what it is for instead."""
    task, served = model.manifest.task, served_by(method)
    if task not in served:
        hint = f" (use {TASKS[task].methods[0]})" if task in TASKS else ""
        raise InputError(f"the bundle is for {task}{hint}; {method} needs an export with --task {served[0]}")


def classify(
    model: "Model",
    texts: str | Sequence[Item],
    *,
    top_k: int | None = None,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The labels of a text, likeliest first: all of them, or the first `top_k`.

    Several `texts` may hold pairs, as in [("premise", "hypothesis")]. Scores are probabilities that sum to
    1, or of each label alone, or plain numbers of a regression, as config.json's problem_type says; those of
    a cross-encoder of sentence-transformers are what its predict gives by the activation that its files name.
    """
    check_task(model, "classify")
    encodings = encode(model, as_items(texts), truncate)
    logits = gather(model, encodings, LOGITS, batch_tokens, progress)
    found = labelled(_scoring(model), logits, top_k)
    return found[0] if isinstance(texts, str) else found


def _scoring(model: "Model") -> dict:
    """config.json, and what a cross-encoder's newer file says of its scores, which goes before."""
    own = read_json(model.folder / "config_sentence_transformers.json", missing={}).get("activation_fn")
    return model.config if own is None else model.config | {"sentence_transformers": {"activation_fn": own}}


def zero_shot(
    model: "Model",
    texts: str | Sequence[str],
    candidate_labels: Sequence[str],
    *,
    hypothesis_template: str = "This example is {}.",
    multi_label: bool = False,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """How likely each of `candidate_labels`, of any words, fits a text, likeliest first (Yin et al. 2019, 5).

    For a model of natural language inference: a label's score is how far the text entails the
    `hypothesis_template` with the label in the place of {}. Scores sum to 1 over the labels or, with
    `multi_label`, each is the probability of entailment against contradiction. `truncate` cuts the text,
    never the hypothesis. Raises InputError where no label of the model begins with "entail".
    """
    check_flag("multi_label", multi_label)
    check_task(model, "zero_shot")
    rows, labels = as_texts(texts), as_texts(candidate_labels)
    asked = isinstance(hypothesis_template, str) and "{}" in hypothesis_template
    if isinstance(candidate_labels, str) or not labels or not asked:
        raise InputError(
            f"candidate_labels {shown(candidate_labels)} and template {shown(hypothesis_template)}, "
            "expected a list of labels, and {} for each"
        )
    count = model.sessions[roles.MODEL].outputs[LOGITS].shape[-1]
    known = names(model.config, count)
    entailed = next((i for i, name in enumerate(known) if name.lower().startswith("entail")), None)
    if entailed is None or count < 2:
        raise InputError(f"the model's labels are {', '.join(known)}, of which none is entailment")
    hypotheses = [hypothesis_template.replace("{}", label) for label in labels]
    limit = text_limit(model)
    for hypothesis, alone in zip(hypotheses, model.text.encode(hypotheses), strict=True):
        if limit is not None and len(alone) >= limit:
            raise InputError(
                f"a hypothesis of {len(alone)} tokens leaves no room for a text: {hypothesis[:40]!r}"
            )
    pairs: list[Item] = [(text, hypothesis) for text in rows for hypothesis in hypotheses]
    encodings = encode(model, pairs, truncate, strategy="only_first")
    logits = gather(model, encodings, LOGITS, batch_tokens, progress)
    logits = logits.reshape(len(rows), len(labels), count)
    if multi_label or len(labels) == 1:
        contradicted = count - 1 if entailed == 0 else 0
        shares = softmax(logits[:, :, [contradicted, entailed]])[:, :, 1]
    else:
        shares = softmax(logits[:, :, entailed])
    found = [ranked(labels, row, None) for row in shares]
    return found[0] if isinstance(texts, str) else found


def fill_mask(
    model: "Model",
    texts: str | Sequence[str],
    *,
    top_k: int = 5,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Any]:
    """The `top_k` likeliest words for the mask in a text; with several masks, a list of them for each mask.

    A mask is written as the tokenizer does: [MASK], <mask>. Raises InputError for a text without one.
    """
    check_task(model, "fill_mask")
    check_count("top_k", top_k)
    rows, mask = as_texts(texts), model.text.special("mask_token")
    if mask is None:
        raise BundleError(f"{model.folder}: no file names a mask_token that the tokenizer knows")
    encodings = encode(model, rows, truncate)
    for row, encoding in zip(rows, encodings, strict=True):
        if mask[1] not in encoding.ids:
            raise InputError(f"a text has no {mask[0]} for a word to fill: {row[:40]!r}")
    output = LOGITS if LOGITS in model.sessions[roles.MODEL].outputs else PREDICTION_LOGITS
    words = model.manifest.spec["encoder"]["embedding"]["vocab_size"]
    check_count("batch_tokens", batch_tokens)
    budget = min(batch_tokens, max(1, SCORES_AT_ONCE // words))
    found: list[Any] = [None] * len(rows)
    for places, outputs, _ in run(model, encodings, budget, progress):
        for i, logits in zip(places, outputs[output], strict=True):
            found[i] = _fill(model, encodings[i].ids, mask[1], logits, top_k)
    return found[0] if isinstance(texts, str) else found


def _fill(model: "Model", ids: list[int], mask: int, logits: np.ndarray, top_k: int) -> list[Any]:
    """The likeliest words for each mask of one text, whose logits are (S,V)."""
    masks, padding = [i for i, token in enumerate(ids) if token == mask], model.text.special("pad_token")
    found: list[list[Word]] = []
    for place, row in zip(masks, softmax(logits[masks]), strict=True):
        best = np.argsort(-row, kind="stable")[:top_k].tolist()
        filled = [[*ids[:place], token, *ids[place + 1 :]] for token in best]
        if padding is not None:
            filled = [[token for token in tokens if token != padding[1]] for tokens in filled]
        sequences = model.text.decode(filled, special=len(masks) > 1)  # the masks that are left are special
        texts = model.text.decode([[token] for token in best], special=True)
        found.append(
            [
                {"score": float(row[token]), "token": token, "token_str": text, "sequence": sequence}
                for token, text, sequence in zip(best, texts, sequences, strict=True)
            ]
        )
    return found[0] if len(masks) == 1 else found


def next_sentence(
    model: "Model",
    first: str | Sequence[str],
    second: str | Sequence[str],
    *,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> float | list[float]:
    """The probability that `second` goes on where `first` ends (Devlin et al. 2019, 3.1); or of each pair."""
    check_task(model, "next_sentence")
    output = LOGITS if LOGITS in model.sessions[roles.MODEL].outputs else SEQ_RELATIONSHIP_LOGITS
    pairs = as_pairs(first, second)
    logits = gather(model, encode(model, pairs, truncate), output, batch_tokens, progress)
    found = softmax(logits)[:, 0].tolist()
    return found[0] if isinstance(first, str) and isinstance(second, str) else found


def as_pairs(first: str | Sequence[str], second: str | Sequence[str]) -> list[Item]:
    """Pairs of texts; one text goes with each of several. Raises InputError for lists of unlike lengths."""
    firsts, seconds = as_texts(first), as_texts(second)
    if isinstance(first, str):
        firsts = firsts * len(seconds)
    elif isinstance(second, str):
        seconds = seconds * len(firsts)
    if len(firsts) != len(seconds):
        raise InputError(f"{len(firsts)} texts and {len(seconds)} make no pairs; give as many of each")
    return list(zip(firsts, seconds, strict=True))


def choose(
    model: "Model",
    question: str | Sequence[str],
    choices: Sequence[str] | Sequence[Sequence[str]],
    *,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[float] | list[list[float]]:
    """The probability of each of the `choices`, in their order; for several questions, of each one's own."""
    check_task(model, "choose")
    questions = as_texts(question)
    groups: Sequence[Any] = [choices] if isinstance(question, str) else choices
    sets = [as_texts(group) for group in as_list(groups)]
    if len(sets) != len(questions) or not all(sets):
        raise InputError(f"{len(questions)} questions and {len(sets)} lists of choices; give each its own")
    pairs: list[Item] = [(text, one) for text, group in zip(questions, sets, strict=True) for one in group]
    logits = gather(model, encode(model, pairs, truncate), LOGITS, batch_tokens, progress)[:, 0]
    ends = np.cumsum([len(group) for group in sets])[:-1]
    found = [softmax(row).tolist() for row in np.split(logits, ends)] if sets else []
    return found[0] if isinstance(question, str) else found
