"""Pretrain a small BERT on the documentation of scientific libraries: masked LM, next sentences.

python tools/train/reader.py [FOLDER]

The two objectives of Devlin et al. 2019 together, on the docstrings of numpy, scipy, torch and others. One
file in twenty is held out, for the accuracy of masked tokens and of next-sentence prediction. `tagger.py` and
`proofreader.py` fine-tune the result.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import _documentation
import _loop
import click
import numpy as np
import torch
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence
from txmodels.model import Transformer
from txmodels.training import checkpoints, corruption, objectives, optimisation

FOLDER = Path(__file__).parents[2] / "models/pretrained/documentation-bert"
VOCAB, LONGEST = 3000, 96
SHORT, BATCH = 48, 64  # nine steps in ten use shorter texts (Devlin et al. 2019, A.2)
WORD = r"\w+|[^\w\s]"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNKNOWN, CLS, SEP, MASK = range(5)


def make_tokenizer(texts: list[str]) -> Tokenizer:
    """A cased WordPiece tokenizer, since case marks code. An identifier with underscores is one word."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCAB, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    vocabulary = SPECIAL + sorted(tokenizer.get_vocab().keys() - SPECIAL)  # the trainer's order varies
    tokenizer.model = models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", SEP), ("[CLS]", CLS))
    return tokenizer


def config() -> dict:
    """The architecture as a config of transformers."""
    return {
        "model_type": "bert",
        "vocab_size": VOCAB,
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 384,
        "max_position_embeddings": LONGEST,
        "initializer_range": 0.04,  # 0.02 suits wider models
        "pad_token_id": PAD,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


class Pairs:
    """Batches of sentence pairs, half of which are consecutive."""

    def __init__(self, documents: list[list[list[int]]]):
        self.documents = [document for document in documents if len(document) > 1]

    def batch(self, seed: list[int], size: int, longest: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """input_ids, attention_mask and token_type_ids (B,S), and labels (B): 1 for pairs not consecutive."""
        random = np.random.default_rng(seed)
        rows, segments, elsewhere = [], [], []
        for _ in range(size):
            first, second, other = corruption.next_sentence_pair(self.documents, longest - 3, random)
            rows.append(torch.tensor([CLS, *first, SEP, *second, SEP]))
            segments.append(torch.tensor([0] * (len(first) + 2) + [1] * (len(second) + 1)))
            elsewhere.append(other)
        ids = pad_sequence(rows, batch_first=True, padding_value=PAD)
        types = pad_sequence(segments, batch_first=True)
        return ids, ids.ne(PAD).long(), types, torch.tensor(elsewhere)


@contextmanager
def fast() -> Iterator[None]:
    """Low precision and eager attention: for short texts PyTorch's own attention takes twice the time."""
    with _loop.autocast(), sdpa_kernel(SDPBackend.MATH):
        yield


def masked(ids: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Masked inputs and their labels."""
    generator = torch.Generator().manual_seed(seed)
    return corruption.mask_words(ids, MASK, VOCAB, range(len(SPECIAL)), generator)


@torch.inference_mode()
def evaluate(model: Transformer, pairs: Pairs) -> tuple[float, float]:
    """The accuracy of masked tokens, and of next-sentence prediction."""
    masked_tokens, predicted, right, count = 0, 0, 0, 0
    for at in range(20):
        ids, mask, types, elsewhere = pairs.batch([9, at], BATCH, LONGEST)
        shown, labels = masked(ids, 10_000_000 + at)
        outputs = model.encode(shown, mask, types)
        chosen = labels != objectives.IGNORED
        masked_tokens += int(chosen.sum())
        predicted += int((outputs["prediction_logits"].argmax(-1) == labels)[chosen].sum())
        right += int((outputs["seq_relationship_logits"].argmax(-1) == elsewhere).sum())
        count += len(ids)
    return predicted / masked_tokens, right / count


def write_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """The tokenizer's files."""
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    _loop.write_tokenizer(folder, tokenizer, LONGEST, **special, sep_token="[SEP]", mask_token="[MASK]")


def start(
    base: Path, folder: Path, labels: list[str], architecture: str
) -> tuple[Path, Transformer, Tokenizer, str]:
    """The start of a fine-tuning: output folder, model with a new head, tokenizer, and the base's hash.

    Raises ClickException where `base` has no pretrained reader.
    """
    try:
        weights = hashlib.sha256((base / "model.safetensors").read_bytes()).hexdigest()
    except FileNotFoundError:
        raise click.ClickException(f"{base} holds no pretrained reader; run tools/train/reader.py") from None
    part, tokenizer = _loop.part_of(folder), Tokenizer.from_file(str(base / "tokenizer.json"))
    write_tokenizer(part, tokenizer)
    tokenizer.enable_truncation(LONGEST)
    names = dict(enumerate(labels))
    numbers = {label: i for i, label in names.items()}
    checkpoints.create(part, {"id2label": names, "label2id": numbers}, architecture, start=base)
    model = checkpoints.load(part)
    assert isinstance(model, Transformer)
    return part, model, tokenizer, weights


def tune(
    model: Transformer, loss_of: Callable[[int], Tensor], steps: int, part: Path, data: object
) -> Transformer:
    """Fine-tune with `_loop.train`; return the model as the checkpoint in `part` stores it."""
    optimizer = optimisation.adamw(model, 3e-4)
    schedule = optimisation.linear(optimizer, steps // 10, steps)
    _loop.train(model, loss_of, optimizer, schedule, steps, part, data)
    checkpoints.save(model, part, like=part, dtype=torch.float16)
    tuned = checkpoints.load(part)
    assert isinstance(tuned, Transformer)
    return tuned


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--steps", default=10_000, show_default=True, help="Steps of training.")
def main(folder: Path, steps: int) -> None:
    """Pretrain the reader of prose and write its checkpoint to FOLDER."""
    documents, heldout = _documentation.by_file()
    part = _loop.part_of(folder)
    texts = [sentence.text for document in documents for sentence in document]
    tokenizer = make_tokenizer(texts)

    def ids(document: list[_documentation.Sentence]) -> list[list[int]]:
        sentences = [sentence.text for sentence in document]
        return [encoding.ids for encoding in tokenizer.encode_batch(sentences, add_special_tokens=False)]

    train = Pairs([ids(document) for document in documents])
    unseen = Pairs([ids(document) for document in heldout])
    checkpoints.create(part, config(), "BertForPreTraining")
    model = checkpoints.load(part)
    assert isinstance(model, Transformer)
    count = sum(map(len, heldout))
    print(f"{_loop.parameters(model):,} parameters; {len(texts):,} sentences, {count:,} held out")

    def loss_of(step: int) -> Tensor:
        longest = SHORT if step % 10 else LONGEST
        ids, mask, types, elsewhere = train.batch([0, step], BATCH * SHORT // longest, longest)
        shown, labels = masked(ids, step)
        chosen = labels != objectives.IGNORED  # logits are computed for these alone
        with fast():
            x = model.encoder(shown, mask, types)
            logits = model.head(x[chosen], model.encoder.token_embedding)
            sentences = model.next_sentence(x, shown, mask)
        return objectives.pretraining_loss(logits.float()[None], labels[chosen], sentences.float(), elsewhere)

    optimizer = optimisation.adamw(model, 2e-3, beta2=0.98)
    schedule = optimisation.linear(optimizer, 400, steps)
    _loop.train(model, loss_of, optimizer, schedule, steps, part, [tokenizer.to_str(), texts])
    checkpoints.save(model, part, like=part, dtype=torch.float16)
    saved = checkpoints.load(part)
    assert isinstance(saved, Transformer)
    masked_lm, following = evaluate(saved, unseen)
    print(f"accuracy of masked tokens: {masked_lm:.4f}; of sentence pairs: {following:.4f}")
    write_tokenizer(part, tokenizer)
    card = f"""
A small BERT: four layers, 128 wide, {_loop.parameters(model):,} parameters, {LONGEST} tokens at
most, pretrained with masked LM and next-sentence prediction. The two models fine-tuned from it are
`code-tagger` and `proofreader`.

{_documentation.about(f"{len(texts):,} sentences")}
"""
    scores = {"accuracy of masked tokens": f"{masked_lm:.2%}", "next sentence, accuracy": f"{following:.2%}"}
    _loop.write_card(part, "Reads the prose of programmers", card, "python tools/train/reader.py", scores)
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
