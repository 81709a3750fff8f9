"""Tasks of text models: classification, ranking, masked tokens, sentence pairs and multiple choice.

The public functions are methods of Model.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np

from txexport.bundle import read_json
from txexport.contracts import roles
from txexport.contracts.names import LOGITS, PREDICTION_LOGITS, SEQ_RELATIONSHIP_LOGITS
from txexport.errors import BundleError, InputError, counted, shown
from txexport.runtime.batches import BATCH_TOKENS, SCORES_AT_ONCE, encode, gather, longest_text, run
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.text import Item, as_items, as_list, as_texts
from txexport.runtime.tasks import late_interaction
from txexport.runtime.tasks.labels import Label, cross_encoder, labelled, names, ranked, sigmoid, softmax
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress


class Word(TypedDict):
    """A candidate for a mask: its probability, id and text, and the whole text with it."""

    score: float
    token: int
    token_str: str
    sequence: str


class Ranked(TypedDict):
    """A document's index, its score for a query and, if requested, its text."""

    corpus_id: int
    score: float
    text: NotRequired[str]


def classify(
    bundle: LoadedBundle,
    texts: str | Sequence[Item],
    *,
    top_k: int | None = None,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The labels of a text, likeliest first: all of them, or the first `top_k`.

    Several `texts` may hold pairs, as in [("premise", "hypothesis")]. By config.json's problem_type, scores
    are probabilities that sum to 1, independent probabilities, or the numbers of a regression; those of a
    sentence-transformers cross-encoder are the same as from its `predict`, with the activation that its files
    name.
    """
    check_task(bundle, "classify")
    encodings = encode(bundle, as_items(texts), truncate)
    logits = gather(bundle, encodings, LOGITS, batch_tokens, progress)
    labels = labelled(_scoring(bundle), logits, top_k)
    return labels[0] if isinstance(texts, str) else labels


def _scoring(bundle: LoadedBundle) -> dict:
    """config.json, updated with the activation in a cross-encoder's newer file.

    sentence-transformers reads that file only beside a modules.json.
    """
    folder, config = bundle.files.folder, bundle.files.config
    if not (folder / "modules.json").is_file():
        return config
    activation = read_json(folder / "config_sentence_transformers.json", missing={}).get("activation_fn")
    return config if activation is None else config | {"sentence_transformers": {"activation_fn": activation}}


def rerank(
    bundle: LoadedBundle,
    queries: str | Sequence[str],
    documents: Sequence[str],
    *,
    top_k: int | None = None,
    return_documents: bool = False,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Ranked] | list[list[Ranked]]:
    """The score of each of `documents` for a query, the best first, as in CrossEncoder.rank.

    For a cross-encoder with one label: `corpus_id` is a document's index, `score` the label after the
    checkpoint's activation, by default a sigmoid; `text` is there with `return_documents`. `top_k` is the
    most documents to return. Several queries have a list each. `truncate` cuts the longer of the two texts.
    Raises InputError for a model with more labels. For late interaction, query and document are encoded
    separately; the score is the sum, over the query's tokens, of the greatest product with a document's (see
    `embed_tokens`).
    """
    check_flag("return_documents", return_documents)
    check_task(bundle, "rerank")
    if top_k is not None:
        check_count("top_k", top_k)
    rows, passages = as_texts(queries), as_texts(documents)
    if isinstance(documents, str):
        raise InputError(f"documents are {shown(documents)}, expected a list of texts")
    score = _crossed if bundle.late_interaction is None else late_interaction.scores
    scores = score(bundle, rows, passages, truncate, batch_tokens, progress)
    results = ranked_by_score(scores, top_k, passages if return_documents else None)
    return results[0] if isinstance(queries, str) else results


def ranked_by_score(
    scores: np.ndarray, top_k: int | None, documents: Sequence[str] | None = None
) -> list[list[Ranked]]:
    """Scores (queries, documents) -> the documents of each query, the best first, at most `top_k`."""
    return [
        [_ranked(i, row[i], None if documents is None else documents[i]) for i in order]
        for row, order in zip(scores, np.argsort(-scores, axis=1, kind="stable")[:, :top_k], strict=True)
    ]


def _crossed(
    bundle: LoadedBundle,
    queries: Sequence[str],
    documents: Sequence[str],
    truncate: bool,
    batch_tokens: int,
    progress: Progress | None,
) -> np.ndarray:
    """Scores (queries, documents) of a cross-encoder."""
    count = bundle.sessions[roles.MODEL].width(LOGITS)
    if count != 1:
        known = ", ".join(names(bundle.files.config, count)[:5])
        raise InputError(f"the model has {count} labels ({known}), and ranking needs a model with one")
    pairs: list[Item] = [(query, document) for query in queries for document in documents]
    encodings = encode(bundle, pairs, truncate)
    owners = [i for i in range(len(queries)) for _ in documents]
    logits = gather(bundle, encodings, LOGITS, batch_tokens, progress, owners)
    return (cross_encoder(_scoring(bundle)) or sigmoid)(logits).reshape(len(queries), len(documents))


def _ranked(place: int, score: float, text: str | None) -> Ranked:
    plain: Ranked = {"corpus_id": int(place), "score": float(score)}
    return plain if text is None else plain | {"text": text}


def zero_shot(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    candidate_labels: Sequence[str],
    *,
    hypothesis_template: str = "This example is {}.",
    multi_label: bool = False,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The probability of each of `candidate_labels` (any words) for a text, the highest first.

    For a model of natural language inference (Yin et al. 2019, 5): a label's score is the entailment of
    `hypothesis_template`, with the label in place of {}, by the text. Scores sum to 1 over the labels or,
    with `multi_label`, each is the probability of entailment against contradiction. `truncate` cuts the text,
    never the hypothesis. Raises InputError where no label of the model begins with "entail".
    """
    check_flag("multi_label", multi_label)
    check_task(bundle, "zero_shot")
    rows, labels = as_texts(texts), as_texts(candidate_labels)
    has_slot = isinstance(hypothesis_template, str) and "{}" in hypothesis_template
    if isinstance(candidate_labels, str) or not labels or not has_slot:
        raise InputError(
            f"candidate_labels {shown(candidate_labels)} and template {shown(hypothesis_template)}, "
            "expected a list of labels, and {} for each"
        )
    count = bundle.sessions[roles.MODEL].width(LOGITS)
    known = names(bundle.files.config, count)
    entailed = next((i for i, name in enumerate(known) if name.lower().startswith("entail")), None)
    if entailed is None or count < 2:
        raise InputError(f"the model's labels are {', '.join(known)}, none of which is entailment")
    hypotheses = [hypothesis_template.replace("{}", label) for label in labels]
    limit = longest_text(bundle)
    for hypothesis, encoding in zip(hypotheses, bundle.files.text.encode(hypotheses), strict=True):
        if limit is not None and len(encoding) >= limit:
            long = f"a hypothesis of {counted(len(encoding), 'token')}"
            raise InputError(f"{long} leaves no room for a text: {hypothesis[:40]!r}")
    pairs: list[Item] = [(text, hypothesis) for text in rows for hypothesis in hypotheses]
    encodings = encode(bundle, pairs, truncate, strategy="only_first")
    owners = [i for i in range(len(rows)) for _ in hypotheses]
    logits = gather(bundle, encodings, LOGITS, batch_tokens, progress, owners)
    logits = logits.reshape(len(rows), len(labels), count)
    if multi_label or len(labels) == 1:
        contradicted = count - 1 if entailed == 0 else 0
        shares = softmax(logits[:, :, [contradicted, entailed]])[:, :, 1]
    else:
        shares = softmax(logits[:, :, entailed])
    results = [ranked(labels, row, None) for row in shares]
    return results[0] if isinstance(texts, str) else results


def fill_mask(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    *,
    top_k: int = 5,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Any]:
    """The `top_k` likeliest tokens for the mask in a text; with several masks, a list for each of them.

    A mask is written as the tokenizer does: [MASK], <mask>. Raises InputError for a text without one.
    """
    check_task(bundle, "fill_mask")
    check_count("top_k", top_k)
    rows, mask = as_texts(texts), bundle.files.text.special("mask_token")
    if mask is None:
        raise BundleError(f"{bundle.folder}: no file names a mask_token that the tokenizer knows")
    encodings = encode(bundle, rows, truncate)
    for row, encoding in zip(rows, encodings, strict=True):
        if mask[1] not in encoding.ids:
            raise InputError(f"a text has no {mask[0]} for a word to fill: {row[:40]!r}")
    output = LOGITS if LOGITS in bundle.sessions[roles.MODEL].outputs else PREDICTION_LOGITS
    vocab_size = bundle.vocab_size(roles.MODEL)
    check_count("batch_tokens", batch_tokens)
    budget = min(batch_tokens, max(1, SCORES_AT_ONCE // vocab_size))
    results: list[Any] = [None] * len(rows)
    for indices, outputs, _ in run(bundle, encodings, budget, progress):
        for i, logits in zip(indices, outputs[output], strict=True):
            results[i] = _fill(bundle, encodings[i].ids, mask[1], logits, top_k)
    return results[0] if isinstance(texts, str) else results


def _fill(bundle: LoadedBundle, ids: list[int], mask: int, logits: np.ndarray, top_k: int) -> list[Any]:
    """The likeliest tokens for each mask of one text, by its logits (S,V)."""
    text, masks = bundle.files.text, [i for i, token in enumerate(ids) if token == mask]
    padding = text.special("pad_token")
    results: list[list[Word]] = []
    for place, row in zip(masks, softmax(logits[masks]), strict=True):
        best = np.argsort(-row, kind="stable")[:top_k].tolist()
        filled = [[*ids[:place], token, *ids[place + 1 :]] for token in best]
        if padding is not None:
            filled = [[token for token in tokens if token != padding[1]] for tokens in filled]
        sequences = text.decode(filled, special=len(masks) > 1)  # the other masks are special tokens
        pieces = text.decode([[token] for token in best], special=True)
        results.append(
            [
                {"score": float(row[token]), "token": token, "token_str": word, "sequence": sequence}
                for token, word, sequence in zip(best, pieces, sequences, strict=True)
            ]
        )
    return results[0] if len(masks) == 1 else results


def next_sentence(
    bundle: LoadedBundle,
    first: str | Sequence[str],
    second: str | Sequence[str],
    *,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> float | list[float]:
    """The probability that `second` follows `first`, or of each of several pairs (Devlin et al. 2019)."""
    check_task(bundle, "next_sentence")
    output = LOGITS if LOGITS in bundle.sessions[roles.MODEL].outputs else SEQ_RELATIONSHIP_LOGITS
    pairs = as_pairs(first, second)
    logits = gather(bundle, encode(bundle, pairs, truncate), output, batch_tokens, progress)
    shares = softmax(logits)[:, 0].tolist()
    return shares[0] if isinstance(first, str) and isinstance(second, str) else shares


def as_pairs(first: str | Sequence[str], second: str | Sequence[str]) -> list[Item]:
    """Pairs of texts; a single text pairs with each of several. Raises InputError for unequal lengths."""
    firsts, seconds = as_texts(first), as_texts(second)
    if isinstance(first, str):
        firsts = firsts * len(seconds)
    elif isinstance(second, str):
        seconds = seconds * len(firsts)
    if len(firsts) != len(seconds):
        raise InputError(
            f"{counted(len(firsts), 'text')} and {len(seconds)} make no pairs; give as many of each"
        )
    return list(zip(firsts, seconds, strict=True))


def choose(
    bundle: LoadedBundle,
    question: str | Sequence[str],
    choices: Sequence[str] | Sequence[Sequence[str]],
    *,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[float] | list[list[float]]:
    """The probability of each of the `choices`, in order; several questions have a list of choices each."""
    check_task(bundle, "choose")
    questions = as_texts(question)
    groups: Sequence[Any] = [choices] if isinstance(question, str) else choices
    sets = [as_texts(group) for group in as_list(groups)]
    if len(sets) != len(questions) or not all(sets):
        raise InputError(f"{len(questions)} questions and {len(sets)} lists of choices; give each its own")
    pairs: list[Item] = [(text, one) for text, group in zip(questions, sets, strict=True) for one in group]
    owners = [i for i, group in enumerate(sets) for _ in group]
    logits = gather(bundle, encode(bundle, pairs, truncate), LOGITS, batch_tokens, progress, owners)[:, 0]
    ends = np.cumsum([len(group) for group in sets])[:-1]
    shares = [softmax(row).tolist() for row in np.split(logits, ends)] if sets else []
    return shares[0] if isinstance(question, str) else shares
