"""Fine-tune the small BERT to detect that two words of a sentence were exchanged.

python tools/train/reader.py && python tools/train/proofreader.py [FOLDER]

Single sentence classification (Devlin et al. 2019, 4.1). Both classes contain the same words, so that a
bag-of-words model is at chance, and only a model of word order can tell them apart.
"""

from pathlib import Path

import _documentation
import _loop
import _notices
import click
import numpy as np
import reader
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from txmodels.model import Transformer
from txmodels.training import metrics, objectives

FOLDER = Path(__file__).parents[2] / "models/pretrained/proofreader"
LABELS = ["in order", "swapped"]
BATCH = 48


def swapped(sentence: str, random: np.random.Generator) -> str:
    """The sentence with two adjacent words exchanged; the last one keeps its full stop."""
    words = sentence.split()
    positions = [i for i in range(1, len(words) - 2) if words[i] != words[i + 1]]
    if positions:
        at = positions[int(random.integers(len(positions)))]
        words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(words)


def examples(sentences: list[str], random: np.random.Generator) -> list[tuple[str, int]]:
    """Each sentence unchanged or, with probability 1/2, with two words exchanged."""
    result = []
    for sentence in sentences:
        sentence = " ".join(sentence.split())
        other = swapped(sentence, random) if random.random() < 0.5 else sentence
        result.append((other, int(other != sentence)))
    return result


def ids(tokenizer: Tokenizer, texts: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """input_ids, attention_mask and token_type_ids (B,S)."""
    rows = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(texts)]
    padded = pad_sequence(rows, batch_first=True, padding_value=reader.PAD)
    return padded, padded.ne(reader.PAD).long(), torch.zeros_like(padded)


@torch.inference_mode()
def predict(model: Transformer, tokenizer: Tokenizer, texts: list[str]) -> list[int]:
    """The predicted label of each text."""
    labels: list[int] = []
    for start in range(0, len(texts), 64):
        labels += model.encode(*ids(tokenizer, texts[start : start + 64]))["logits"].argmax(-1).tolist()
    return labels


def baseline(train: list[tuple[str, int]], test: list[str]) -> list[int]:
    """Logistic regression over words and bigrams."""
    model = make_pipeline(CountVectorizer(ngram_range=(1, 2), min_df=2), LogisticRegression(max_iter=1000))
    texts, labels = zip(*train, strict=True)
    return model.fit(texts, labels).predict(test).tolist()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--base", type=click.Path(path_type=Path), default=reader.FOLDER, help="The pretrained reader.")
@click.option("--steps", default=3000, show_default=True, help="Steps of training.")
def main(folder: Path, base: Path, steps: int) -> None:
    """Fine-tune the proofreader and write its checkpoint to FOLDER."""
    part, model, tokenizer, began_with = reader.start(base, folder, LABELS, "BertForSequenceClassification")
    train, unseen = _documentation.split()
    sentences, heldout = [s.text for s in train], [s.text for s in unseen]
    print(f"{_loop.parameters(model):,} parameters; {len(sentences):,} sentences, {len(heldout):,} held out")

    def loss_of(step: int) -> Tensor:
        random = np.random.default_rng([0, step])
        chosen = random.integers(0, len(sentences), BATCH)
        texts, labels = zip(*examples([sentences[i] for i in chosen], random), strict=True)
        with reader.fast():
            logits = model.encode(*ids(tokenizer, list(texts)))["logits"]
        return objectives.classification_loss(logits.float(), torch.tensor(labels))

    tuned = reader.tune(model, loss_of, steps, part, [began_with, sentences])
    random = np.random.default_rng(1)
    texts, labels = (list(part) for part in zip(*examples(heldout, random), strict=True))
    predicted = predict(tuned, tokenizer, texts)
    accuracy = metrics.classification(labels, predicted)["accuracy"]
    simple = baseline(examples(sentences, random), texts)
    beaten = metrics.classification(labels, simple)["accuracy"]
    few = slice(400)
    sampled = metrics.classification(labels[few], predicted[few])["accuracy"]
    print(f"accuracy on sentences held out: {accuracy:.4f}, of words and pairs of words {beaten:.4f}")
    sample = [
        {"text": text, "label": LABELS[label]} for text, label in zip(texts[few], labels[few], strict=True)
    ]
    _loop.write_examples(part / "heldout.jsonl", sample)
    _loop.write_notice(part, _notices.of_documentation(texts[few]))
    card = f"""
Classifies whether two adjacent words of an English sentence were exchanged: `{LABELS[0]}` or
`{LABELS[1]}`. A BERT of four layers, 128 wide, {_loop.parameters(model):,} parameters, {reader.LONGEST}
tokens at most; `tools/train/reader.py` pretrains it with masked LM and next-sentence prediction.

{_documentation.about(f"{len(sentences):,} sentences, half of them with two words swapped,")}
`heldout.jsonl` has sentences of these.
"""
    scores = {
        f"accuracy, {len(texts):,} sentences": f"{accuracy:.2%}",
        "accuracy of logistic regression over words and pairs of words": f"{beaten:.2%}",
        f"accuracy on heldout.jsonl, {len(sample)} sentences": f"{sampled:.2%}",
    }
    command = "python tools/train/proofreader.py"
    _loop.write_card(part, "Detects swapped words", card, command, scores, _loop.NOTICE)
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
