"""N-gram language models of CTC checkpoints: ARPA files from counts, and the files of pyctcdecode."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

WEIGHTS = {"alpha": 0.5, "beta": 1.5, "unk_score_offset": -10.0, "score_boundary": True}
START, END, UNKNOWN = "<s>", "</s>", "<unk>"


def arpa(texts: Sequence[str]) -> str:
    """A bigram model by absolute discounting with 0.5 (Ney et al. 1994), as an ARPA file."""
    rows = [[START, *text.split(), END] for text in texts]
    vocabulary, pairs = Counter[str](), Counter[tuple[str, str]]()
    for row in rows:
        vocabulary.update(row[1:])
        pairs.update(itertools.pairwise(row))
    total = sum(vocabulary.values())
    single = {word: (count - 0.5) / total for word, count in vocabulary.items()}
    single[UNKNOWN] = 0.5 * len(vocabulary) / total
    before = Counter(first for first, _ in pairs.elements())
    kinds = Counter(first for first, _ in pairs)
    lines = ["\\data\\", f"ngram 1={len(single) + 1}", f"ngram 2={len(pairs)}", "", "\\1-grams:"]
    lines.append(f"-99\t{START}\t{_backoff(START, pairs, single, before, kinds)}")
    for word, probability in sorted(single.items()):
        lines.append(f"{math.log10(probability)}\t{word}\t{_backoff(word, pairs, single, before, kinds)}")
    lines += ["", "\\2-grams:"]
    lines += [
        f"{math.log10((count - 0.5) / before[first])}\t{first} {second}"
        for (first, second), count in sorted(pairs.items())
    ]
    return "\n".join([*lines, "", "\\end\\", ""])


def _backoff(word: str, pairs: Counter, single: dict, before: Counter, kinds: Counter) -> float:
    """The decimal logarithm of the weight of single words after a word."""
    if not before[word]:
        return 0.0
    left = 0.5 * kinds[word] / before[word]
    return math.log10(left / (1 - sum(single[b] for a, b in pairs if a == word) or 1))


def save_language_model(folder: Path, labels: Sequence[str], texts: Sequence[str], **weights) -> None:
    """alphabet.json and language_model/ beside a checkpoint, of a model of `texts`."""
    (folder / "language_model").mkdir()
    (folder / "alphabet.json").write_text(json.dumps({"labels": [*labels], "is_bpe": False}))
    (folder / "language_model/attrs.json").write_text(json.dumps(WEIGHTS | weights))
    vocabulary = sorted({word for text in texts for word in text.split()})
    (folder / "language_model/unigrams.txt").write_text("".join(f"{word}\n" for word in vocabulary))
    (folder / "language_model/2-gram.arpa").write_text(arpa(texts))


def sentences(count: int, letters: str, seed: int = 0) -> list[str]:
    """Random sentences of few words."""
    draw = np.random.default_rng(seed)
    vocabulary = ["".join(draw.choice([*letters], draw.integers(1, 5))) for _ in range(60)]
    return [" ".join(draw.choice(vocabulary, draw.integers(1, 9))) for _ in range(count)]
