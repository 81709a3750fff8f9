"""Accuracy of a dtype's answers relative to another dtype's, by kind of answer."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from txexport.bundle import Manifest
from txexport.dtype_comparison.texts import pairs, singles
from txexport.errors import InputError
from txexport.runtime import Model
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.session import Session
from txexport.tasks import served_row

NEIGHBOURS = 10
COSINE, WORST, OVERLAP = "cosine", "worst cosine", "top-10 overlap"
SAME, ENTITIES = "same answers", "same entities"
PERPLEXITY, CHANGE, GREEDY = "perplexity", "change of perplexity", "greedy tokens"
MEASURES = {
    COSINE: "cosine with the reference's vector, mean over texts",
    WORST: "the least of them",
    OVERLAP: "of each text's ten nearest others, the share that the reference has too",
    SAME: "share of inputs with the reference's best answer",
    ENTITIES: "entities of text, place and label that both find: F1 with the reference's as truth",
    PERPLEXITY: "of the texts, or of targets; where an encoder-decoder has none, of the reference's answers",
    CHANGE: "of perplexity, over the reference's",
    GREEDY: "share of the reference's greedy tokens that come before the first difference",
}
SEARCH: dict[str, Any] = {"num_beams": 1, "do_sample": False, "max_length": None}
PROMPT = 2  # a decoder continues the first half of a text
CHOICES = 3  # choices of each text: itself, and the two before it
IMAGES = 8  # seeded images
FRACTION = {COSINE, WORST}  # printed as numbers; other measures are shares in per cent


def check_task(manifest: Manifest, items: list[Item]) -> str:
    """The method whose answers are compared. Raises InputError for too few texts, or if there is none."""
    row = served_row(manifest.task, manifest.cache is not None, manifest.spec.get("type", ""))
    method = "another task" if row is None else row.methods[0]
    if method not in (*ANSWERS, "generate"):
        raise InputError(f"dtypes are compared on texts or images, but the bundle is for {method}")
    if method == "choose" and len(items) < CHOICES:
        raise InputError(f"{len(items)} texts are too few for multiple choice, expected {CHOICES} or more")
    return method


def accuracy_of(models: dict[str, Model], items: list[Item], new_tokens: int) -> dict[str, dict[str, float]]:
    """Measures by dtype; the first of the `models` is the reference. Raises InputError as `check_task`."""
    method = check_task(next(iter(models.values())).manifest, items)
    if method == "generate":
        return _generating(models, items, new_tokens)
    ask, measure = ANSWERS[method]
    answers = {dtype: ask(model, items) for dtype, model in models.items()}
    truth = next(iter(answers.values()))
    return {dtype: measure(truth, answer) for dtype, answer in answers.items()}


def _embedded(model: Model, items: list[Item]) -> np.ndarray:
    """Sentence embeddings; mean pooling for a model without pooling settings."""
    pooling = "mean" if model.pooling is None else None
    return model.embed(singles(items), pooling=pooling, truncate=True)


def vectors(truth: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Measures of vectors (T,W): cosine similarity, and the nearest neighbour if there are more than two."""
    count = min(NEIGHBOURS, len(truth) - 1)
    if count <= 1:
        return _cosines(truth, other)
    near = []
    for rows in _normalised(truth, other):
        alike = rows @ rows.T
        np.fill_diagonal(alike, -np.inf)
        near.append(np.argsort(-alike, axis=1, kind="stable")[:, :count])
    shared = (near[0][:, :, None] == near[1][:, None, :]).any(axis=2)
    return _cosines(truth, other) | {OVERLAP: float(shared.mean())}


def _cosines(truth: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """The cosines alone: vectors of tokens have no neighbours among those of other texts."""
    one, two = _normalised(truth, other)
    cosines = (one * two).sum(axis=1)
    return {COSINE: float(cosines.mean()), WORST: float(cosines.min())}


def _normalised(*several: np.ndarray) -> list[np.ndarray]:
    """Vectors (T,W) of length 1."""
    return [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in several]


def _same(truth: Sequence, other: Sequence) -> dict[str, float]:
    return {SAME: float(np.mean([one == two for one, two in zip(truth, other, strict=True)]))}


def _classes(truth: np.ndarray, other: np.ndarray) -> dict[str, float]:
    return _same(truth.argmax(axis=1).tolist(), other.argmax(axis=1).tolist())


def _entities(truth: list, other: list) -> dict[str, float]:
    one, two = (
        {(i, entity["start"], entity["end"], entity["label"]) for i, row in enumerate(rows) for entity in row}
        for rows in (truth, other)
    )
    return {ENTITIES: 2 * len(one & two) / (len(one) + len(two)) if one or two else 1.0}


def _matched(model: Model, items: list[Item]) -> np.ndarray:
    return model.embed(singles(items), truncate=True)


def _queried(model: Model, items: list[Item]) -> np.ndarray:
    return np.concatenate(model.embed_queries(singles(items)))


def _tagged(model: Model, items: list[Item]) -> list[Any]:
    return model.tag(singles(items), truncate=True)


def _pixels(model: Model, _: list[Item]) -> np.ndarray:
    """The first output for seeded images, (I,...), reshaped to (I,rows,width of the last dimension)."""
    session: Session = next(iter(model.sessions.values()))
    [(name, port)] = session.inputs.items()
    shape = [IMAGES, *(dim if isinstance(dim, int) else 224 for dim in port.shape[1:])]
    images = np.random.default_rng(0).standard_normal(shape, np.float32)
    first = next(iter(model.run(**{name: images}).values()))
    return first.reshape(-1, first.shape[-1])


def _masked(model: Model, items: list[Item]) -> list[Any]:
    mask = (model.text.special("mask_token") or ("[MASK]",))[0]
    texts = [text.split() for text in singles(items)]
    rows = [[*words[: len(words) // 2], mask, *words[len(words) // 2 + 1 :]] for words in texts]
    answers = model.fill_mask([" ".join(row) for row in rows], top_k=1, truncate=True)
    return [answer[0]["token"] for answer in answers]


def _answered(model: Model, items: list[Item]) -> list[Any]:
    questions, contexts = zip(*pairs(items), strict=True)
    answers: list[Any] = model.answer(list(questions), list(contexts), top_k=1)
    return [(answer["start"], answer["end"]) for [answer] in answers]


def _next(model: Model, items: list[Item]) -> list[Any]:
    firsts, seconds = zip(*pairs(items), strict=True)
    return (np.array(model.next_sentence(list(firsts), list(seconds), truncate=True)) > 0.5).tolist()


def _chosen(model: Model, items: list[Item]) -> list[Any]:
    texts = singles(items)
    first = CHOICES - 1
    choices = [[text, *texts[i - first : i]] for i, text in enumerate(texts) if i >= first]
    return [int(np.argmax(row)) for row in model.choose(texts[first:], choices, truncate=True)]


def _classified(model: Model, items: list[Item]) -> list[Any]:
    labels: list[Any] = model.classify(items, top_k=1, truncate=True)
    return [row[0]["label"] for row in labels]


# By method: the function that computes answers, and the one that compares them, the reference's first.
ANSWERS: dict[str, tuple[Callable[[Model, list[Item]], Any], Callable[[Any, Any], dict[str, float]]]] = {
    "embed": (_embedded, vectors),
    "match": (_matched, vectors),
    "rank_pages": (_queried, _cosines),
    "tag": (_tagged, _entities),
    "embed_image": (_pixels, vectors),
    "classify_image": (_pixels, _classes),
    "fill_mask": (_masked, _same),
    "classify": (_classified, _same),
    "answer": (_answered, _same),
    "next_sentence": (_next, _same),
    "choose": (_chosen, _same),
}


def _generating(models: dict[str, Model], items: list[Item], new_tokens: int) -> dict[str, dict[str, float]]:
    """Perplexity and greedy answers of maximum length; a decoder continues half of each text."""
    reference = next(iter(models.values()))
    texts = singles(items)
    rows, new_tokens = prompts(reference, items, new_tokens)
    targets = [item[1] for item in items if not isinstance(item, str)]
    greedy = {
        dtype: model.generate_ids(rows, max_new_tokens=new_tokens, **SEARCH)
        for dtype, model in models.items()
    }
    truth = next(iter(greedy.values()))
    if reference.bundle.is_encoder_decoder and len(targets) < len(items):
        targets = reference.text.decode(truth)
    result = {}
    for dtype, model in models.items():
        scores = model.score(texts, targets if reference.bundle.is_encoder_decoder else None)
        logs = np.concatenate([score.log_probs for score in scores])
        together = [_common(one, two) for one, two in zip(truth, greedy[dtype], strict=True)]
        share = sum(together) / max(1, sum(map(len, truth)))
        result[dtype] = {PERPLEXITY: float(np.exp(-logs.mean())), GREEDY: share}
        result[dtype] |= _same(truth, greedy[dtype])
    own = next(iter(result.values()))[PERPLEXITY]
    return {dtype: {**found, CHANGE: found[PERPLEXITY] / own - 1} for dtype, found in result.items()}


def prompts(model: Model, items: list[Item], new_tokens: int) -> tuple[list[list[int]], int]:
    """The prompts of a generator, and the number of new tokens; for a decoder, half of each text."""
    rows = [encoding.ids for encoding in model.text.encode(singles(items))]
    if not model.bundle.is_encoder_decoder:
        rows = [row[: max(1, len(row) // PROMPT)] for row in rows]
    if (limit := model.manifest.limits["decoder"]) is not None:
        room = limit - (1 if model.bundle.is_encoder_decoder else max(map(len, rows)))
        new_tokens = max(1, min(new_tokens, room))
    return rows, new_tokens


def _common(one: list[int], two: list[int]) -> int:
    """The number of leading tokens that `one` and `two` have in common."""
    same = [a == b for a, b in zip(one, two, strict=False)]
    return same.index(False) if False in same else len(same)
