"""The n-gram language model of a CTC checkpoint: its alphabet, weights, words and ARPA file."""

import json

import numpy as np

from fuzzing import json_values, raw_bytes
from fuzzing.case import Case
from txexport.runtime.preprocessing.ctc_beams import BeamSearch
from txexport.runtime.preprocessing.ngram_language_model import NgramLanguageModel, read_labels

LABELS = ["", " ", "a", "b", "é"]
ARPA = """\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-1.2\t<unk>\t0
-99\t<s>\t-0.4
-1.0\t</s>\t0
-0.8\tab\t-0.3
-0.9\tba\t-0.2
-1.1\té\t-0.25

\\2-grams:
-0.3\t<s> ab
-0.4\tab ba
-0.5\tba é
-0.7\té </s>

\\end\\
"""
FILES = {
    "alphabet.json": json.dumps({"labels": LABELS, "is_bpe": False}),
    "language_model/attrs.json": json.dumps(
        {"alpha": 0.5, "beta": 1.5, "unk_score_offset": -10.0, "score_boundary": True}
    ),
    "language_model/unigrams.txt": "ab\nba\né\n",
    "language_model/2-gram.arpa": ARPA,
}
LOGITS = 3 * np.sin(np.arange(200.0) ** 1.5).reshape(40, 5)


def language_model(case: Case) -> None:
    """The files, one of them changed, and a search with them."""
    folder = case.work / "recogniser"
    (folder / "language_model").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    name = case.random.choice([*FILES])
    case.change(folder / name, json_values.change if name.endswith(".json") else raw_bytes.change)

    def searched() -> list:
        labels, model = read_labels(folder), NgramLanguageModel(folder)
        search = BeamSearch(labels, 5, model)
        width = min(len(labels), LOGITS.shape[1])
        log_probs = np.full((len(LOGITS), len(labels)), -30.0)
        log_probs[:, :width] = LOGITS[:, :width] - 4
        search.add(log_probs)
        return [[score, log_prob] for _, score, log_prob in search.finish()[1]]

    case.attempt(searched)
