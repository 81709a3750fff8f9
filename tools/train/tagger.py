"""Fine-tunes the small BERT to find the names of parameters in documentation.

    python tools/train/reader.py && python tools/train/tagger.py [FOLDER]

Tagging of single sentences (Devlin et al. 2019, 5.3): of a function's documentation, the words that are names
of its parameters, which the source says. The task is worth showing because the same words ("name", "file",
"value") are plain English in other sentences; a baseline that sees only the words around mostly misses them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import _library
import _loop
import click
import numpy as np
import reader
import torch
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from txmodels.training import checkpoints, metrics, objectives, optimisation

FOLDER = Path(__file__).parents[2] / "models/pretrained/parameter-tagger"
LABELS = ["O", "B-PARAMETER", "I-PARAMETER"]
BATCH = 32
WORD = re.compile(r"[A-Za-z_]\w*")


class Sentence(NamedTuple):
    """A sentence, and the names of its function's parameters."""

    text: str
    names: frozenset[str]

    @property
    def words(self) -> list[tuple[int, int]]:
        """Where its words start and end."""
        return [match.span() for match in WORD.finditer(self.text)]

    @property
    def tags(self) -> list[int]:
        """1 for each word that names a parameter."""
        return [int(self.text[start:end] in self.names) for start, end in self.words]


def sentences(source: str) -> list[Sentence]:
    """Those that document the functions of a file."""
    found = []
    try:
        tree = ast.parse(source)
    except SyntaxError:  # templates with a .py ending
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            given = node.args
            several = [given.vararg] * bool(given.vararg) + [given.kwarg] * bool(given.kwarg)
            names = {arg.arg for arg in given.posonlyargs + given.args + given.kwonlyargs + several if arg}
            # "a" is an article too often to be worth a guess.
            names -= {"self", "cls", "a"}
            found += [Sentence(s, frozenset(names)) for s in _library.sentences(text)]
    return found


def data() -> tuple[list[Sentence], list[Sentence]]:
    """Sentences of most files, and of those held out; none in both, none twice."""
    kept: dict[str, Sentence] = {}
    out: dict[str, Sentence] = {}
    for name, source in _library.sources().items():
        part = out if _library.held_out(name, _library.PROSE) else kept
        part.update((sentence.text, sentence) for sentence in sentences(source))
    return list(kept.values()), [sentence for text, sentence in out.items() if text not in kept]


def batch(tokenizer: Tokenizer, chosen: list[Sentence]) -> tuple[Tensor, Tensor, list[list[tuple[int, int]]]]:
    """input_ids (B,S), the tags of their tokens (B,S), and the tokens' offsets."""
    rows, tags, offsets = [], [], []
    for sentence, found in zip(chosen, tokenizer.encode_batch([s.text for s in chosen]), strict=True):
        wanted = [span for span, tag in zip(sentence.words, sentence.tags, strict=True) if tag]
        starts = {start for start, _ in wanted}
        inside = {place for start, end in wanted for place in range(start, end)}
        own = [0 if a not in inside else 1 if a in starts else 2 for a, _ in found.offsets]
        special = [place for place, mark in enumerate(found.special_tokens_mask) if mark]
        for place in special:
            own[place] = objectives.IGNORED
        rows.append(torch.tensor(found.ids))
        tags.append(torch.tensor(own))
        offsets.append(found.offsets)
    padded = pad_sequence(rows, batch_first=True, padding_value=reader.PAD)
    return padded, pad_sequence(tags, batch_first=True, padding_value=objectives.IGNORED), offsets


@torch.inference_mode()
def predict(model: nn.Module, tokenizer: Tokenizer, chosen: list[Sentence]) -> list[int]:
    """1 for each word of the sentences whose first token is tagged."""
    found = []
    for start in range(0, len(chosen), 64):
        part = chosen[start : start + 64]
        ids, _, offsets = batch(tokenizer, part)
        best = model.encode(ids, ids.ne(reader.PAD).long(), torch.zeros_like(ids))["logits"].argmax(-1)
        for sentence, tags, places in zip(part, best.tolist(), offsets, strict=True):
            tagged = {a for (a, b), tag in zip(places, tags, strict=False) if tag and b > a}
            found += [int(begin in tagged) for begin, _ in sentence.words]
    return found


def baseline(train: list[Sentence], test: list[Sentence]) -> list[int]:
    """Logistic regression over each word, the two on either side, and the characters beside it."""

    def features(sentence: Sentence) -> Iterator[dict[str, str]]:
        words = [sentence.text[start:end] for start, end in sentence.words]
        framed = ["", "", *words, "", ""]
        for at, (start, end) in enumerate(sentence.words):
            beside = {"before": sentence.text[start - 1 : start], "after": sentence.text[end : end + 1]}
            yield beside | {str(place): framed[at + place] for place in range(5)}

    model = make_pipeline(DictVectorizer(), LogisticRegression(max_iter=1000))
    tags = [tag for sentence in train for tag in sentence.tags]
    model.fit([found for sentence in train for found in features(sentence)], tags)
    return model.predict([found for sentence in test for found in features(sentence)]).tolist()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--base", type=click.Path(path_type=Path), default=reader.FOLDER, help="The pretrained reader.")
@click.option("--steps", default=1500, show_default=True, help="Steps of training.")
def main(folder: Path, base: Path, steps: int) -> None:
    """Fine-tune the tagger of parameters and write its checkpoint to FOLDER."""
    part, began_with = _loop.part_of(folder), reader.weights_of(base)
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    reader.write_tokenizer(part, tokenizer)
    tokenizer.enable_truncation(reader.LONGEST)
    train, heldout = data()
    names = dict(enumerate(LABELS))
    numbers = {label: i for i, label in names.items()}
    checkpoints.create(
        part, {"id2label": names, "label2id": numbers}, "BertForTokenClassification", start=base
    )
    model = checkpoints.load(part)
    print(f"{_loop.parameters(model):,} parameters; {len(train):,} sentences, {len(heldout):,} held out")

    def loss_of(step: int) -> Tensor:
        chosen = np.random.default_rng([0, step]).integers(0, len(train), BATCH)
        ids, tags, _ = batch(tokenizer, [train[i] for i in chosen])
        logits = model.encode(ids, ids.ne(reader.PAD).long(), torch.zeros_like(ids))["logits"]
        return objectives.token_loss(logits, tags)

    optimizer = optimisation.adamw(model, 3e-4)
    schedule = optimisation.linear(optimizer, steps // 10, steps)
    _loop.train(model, loss_of, optimizer, schedule, steps, part, [began_with, [s.text for s in train]])
    checkpoints.save(model, part, like=part, dtype=torch.float16)
    gold = [tag for sentence in heldout for tag in sentence.tags]
    tuned = checkpoints.load(part)
    own = metrics.classification(gold, predict(tuned, tokenizer, heldout), positive=[1])
    simple = metrics.classification(gold, baseline(train, heldout), positive=[1])
    few = heldout[:400]
    few_gold = [tag for sentence in few for tag in sentence.tags]
    sampled = metrics.classification(few_gold, predict(tuned, tokenizer, few), positive=[1])["f1"]
    print(f"F1 on sentences held out: {own['f1']:.4f}, of words and their neighbours {simple['f1']:.4f}")
    kept = [
        {"text": s.text, "spans": [span for span, tag in zip(s.words, s.tags, strict=True) if tag]}
        for s in few
    ]
    _loop.write_examples(part / "heldout.jsonl", kept)
    card = f"""
Finds the words of documentation that are names of a function's parameters. The small BERT of
`tools/train/reader.py`, fine-tuned; {_loop.parameters(model):,} parameters.

Data: the documentation of the functions of Python's own library (under the Python Software
Foundation's licence), {len(train):,} sentences; which words are parameters is read from the source.
One file in ten is held out; `heldout.jsonl` has sentences of these.
"""
    scores = {
        f"precision, {len(heldout):,} sentences": f"{own['precision']:.2%}",
        "recall": f"{own['recall']:.2%}",
        "F1": f"{own['f1']:.2%}",
        "F1 of logistic regression over the word and its neighbours": f"{simple['f1']:.2%}",
        f"F1 on heldout.jsonl, {len(kept)} sentences": f"{sampled:.2%}",
    }
    _loop.write_card(part, "Finds parameters in documentation", card, "python tools/train/tagger.py", scores)
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
