"""Fine-tune the small BERT to find code in the prose of documentation.

python tools/train/reader.py && python tools/train/tagger.py [FOLDER]

Tags each word by its first token (Devlin et al. 2019, 5.3): the spans that authors marked as code (``axis``,
:class:`Tensor`) are to be found in the sentence without its marks. That is useful for chats and issues, and
needs the context: "index" and "a" are code in one sentence, English in another.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import _documentation
import _loop
import _notices
import click
import numpy as np
import reader
import torch
from _documentation import Sentence
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from txmodels.model import Transformer
from txmodels.training import metrics, objectives

FOLDER = Path(__file__).parents[2] / "models/pretrained/code-tagger"
LABELS = ["O", "B-CODE", "I-CODE"]
OUTSIDE, BEGIN, INSIDE = range(3)
BATCH = 32
Spans = Sequence[tuple[int, int]]


def data() -> tuple[list[Sentence], list[Sentence]]:
    """Sentences with code, of training files and of held-out ones, without duplicates."""
    train, heldout = _documentation.split()
    return [sentence for sentence in train if sentence.code], [s for s in heldout if s.code]


def tags(offsets: Spans, code: Spans) -> list[int]:
    """The tag at each of `offsets`; `code` are the spans to find."""
    starts = {start for start, _ in code}
    inside = {place for start, end in code for place in range(start, end)}
    return [BEGIN if a in starts else INSIDE if a in inside else OUTSIDE for a, _ in offsets]


def spans(offsets: Spans, tags: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The inverse of `tags`: tagged spans, from first to last position."""
    ends: list[list[int]] = []
    before = OUTSIDE
    for (start, end), tag in zip(offsets, tags, strict=True):
        if tag == BEGIN or (tag == INSIDE and before == OUTSIDE):
            ends.append([start, end])
        elif tag == INSIDE:
            ends[-1][1] = end
        before = tag
    return tuple((start, end) for start, end in ends)


def batch(tokenizer: Tokenizer, chosen: Sequence[Sentence]) -> tuple[Tensor, Tensor, list[Spans]]:
    """input_ids (B,S), the tags of words at their first tokens (B,S), and the words' offsets."""
    rows, wanted, offsets = [], [], []
    for sentence, encoding in zip(chosen, tokenizer.encode_batch([s.text for s in chosen]), strict=True):
        first: dict[int, int] = {}
        for at, word in enumerate(encoding.word_ids):
            if word is not None:
                first.setdefault(word, at)
        spots = list(first.values())
        ends = [encoding.word_to_chars(word) for word in first]
        row = torch.full((len(encoding.ids),), objectives.IGNORED)
        row[spots] = torch.tensor(tags(ends, sentence.code))
        rows.append(torch.tensor(encoding.ids))
        wanted.append(row)
        offsets.append(ends)
    ids = pad_sequence(rows, batch_first=True, padding_value=reader.PAD)
    return ids, pad_sequence(wanted, batch_first=True, padding_value=objectives.IGNORED), offsets


@torch.inference_mode()
def predict(model: Transformer, tokenizer: Tokenizer, chosen: Sequence[Sentence]) -> list[Spans]:
    """The spans predicted in each sentence; a word has the tag of its first token."""
    result: list[Spans] = []
    for start in range(0, len(chosen), 64):
        ids, wanted, offsets = batch(tokenizer, chosen[start : start + 64])
        best = model.encode(ids, ids.ne(reader.PAD).long(), torch.zeros_like(ids))["logits"].argmax(-1)
        first = wanted != objectives.IGNORED
        result += [
            spans(words, row[at].tolist()) for words, row, at in zip(offsets, best, first, strict=True)
        ]
    return result


def f1(chosen: Sequence[Sentence], spans: Sequence[Spans]) -> dict[str, float]:
    """Precision, recall and F1 of spans, correct where both ends are (Tjong Kim Sang and De Meulder 2003)."""
    predicted = {(i, span) for i, row in enumerate(spans) for span in row}
    gold = {(i, span) for i, sentence in enumerate(chosen) for span in sentence.code}
    every = sorted(gold | predicted)
    return metrics.classification(
        [s in gold for s in every], [s in predicted for s in every], positive=[True]
    )


def baseline(train: Sequence[Sentence], heldout: Sequence[Sentence]) -> list[Spans]:
    """Predictions of logistic regression from each word, its shape, and two words on either side."""

    def features(text: str, offsets: Spans) -> Iterator[dict[str, str]]:
        context = ["", "", *(text[start:end] for start, end in offsets), "", ""]
        shapes = [re.sub("[a-z]+", "a", re.sub("[A-Z]+", "A", re.sub(r"\d+", "0", word))) for word in context]
        for at, (start, end) in enumerate(offsets):
            around = {f"word {i}": context[at + i] for i in range(5)}
            around |= {f"shape {i}": shapes[at + i] for i in range(5)}
            around |= {"before": text[start - 1 : start], "after": text[end : end + 1]}
            around |= {"two": " ".join(context[at + 1 : at + 3]), "next": " ".join(context[at + 2 : at + 4])}
            yield around

    def places(sentence: Sentence) -> Spans:
        return [match.span() for match in re.finditer(reader.WORD, sentence.text)]

    model = make_pipeline(DictVectorizer(), LogisticRegression(max_iter=600))
    model.fit(
        [feature for s in train for feature in features(s.text, places(s))],
        [tag for s in train for tag in tags(places(s), s.code)],
    )
    return [spans(places(s), model.predict(list(features(s.text, places(s)))).tolist()) for s in heldout]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--base", type=click.Path(path_type=Path), default=reader.FOLDER, help="The pretrained reader.")
@click.option("--steps", default=2500, show_default=True, help="Steps of training.")
def main(folder: Path, base: Path, steps: int) -> None:
    """Fine-tune the tagger of code and write its checkpoint to FOLDER."""
    part, model, tokenizer, began_with = reader.start(base, folder, LABELS, "BertForTokenClassification")
    train, heldout = data()
    print(f"{_loop.parameters(model):,} parameters; {len(train):,} sentences, {len(heldout):,} held out")

    def loss_of(step: int) -> Tensor:
        chosen = np.random.default_rng([0, step]).integers(0, len(train), BATCH)
        ids, wanted, _ = batch(tokenizer, [train[i] for i in chosen])
        with reader.fast():
            logits = model.encode(ids, ids.ne(reader.PAD).long(), torch.zeros_like(ids))["logits"]
        return objectives.token_loss(logits.float(), wanted)

    tuned = reader.tune(model, loss_of, steps, part, [began_with, train])
    scored = f1(heldout, predict(tuned, tokenizer, heldout))
    few = heldout[:400]
    sampled = f1(few, predict(tuned, tokenizer, few))["f1"]
    print(f"F1 of code found in sentences held out: {scored['f1']:.4f}", flush=True)
    simple = f1(heldout, baseline(train, heldout))
    print(f"F1 of logistic regression over words: {simple['f1']:.4f}")
    _loop.write_examples(part / "heldout.jsonl", [{"text": s.text, "code": s.code} for s in few])
    _loop.write_notice(part, _notices.of_documentation(s.text for s in few))
    card = f"""
Finds code in prose: names, values and expressions that an author of documentation would mark.
A BERT of four layers, 128 wide, {_loop.parameters(model):,} parameters, {reader.LONGEST} tokens at
most; `tools/train/reader.py` pretrains it with masked LM and next-sentence prediction.

{_documentation.about(f"{len(train):,} sentences with code in them")}
`heldout.jsonl` has sentences of these.
"""
    scores = {
        f"precision of spans, {len(heldout):,} sentences": f"{scored['precision']:.2%}",
        "recall": f"{scored['recall']:.2%}",
        "F1": f"{scored['f1']:.2%}",
        "F1 of logistic regression over words and their neighbours": f"{simple['f1']:.2%}",
        f"F1 on heldout.jsonl, {len(few)} sentences": f"{sampled:.2%}",
    }
    command = "python tools/train/tagger.py"
    _loop.write_card(part, "Finds code in prose", card, command, scores, _loop.NOTICE)
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
