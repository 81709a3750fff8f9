"""Train a Transformer of 2017 that translates English number words to French ones.

python tools/train/translator.py [FOLDER]

Encoder-decoder, post-norm, sinusoidal positions (Vaswani et al. 2017), in transformers' Marian format. The
data come from num2words: numbers below a thousand million, of which one in twenty is held out.
"""

import zlib
from pathlib import Path
from typing import NamedTuple

import _loop
import click
import numpy as np
import torch
from num2words import num2words
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from txmodels.model import Transformer
from txmodels.training import checkpoints, initialisation, metrics, objectives, optimisation

from txexport.contracts import cache_names

FOLDER = Path(__file__).parents[2] / "models/pretrained/number-translator"
DIGITS, BATCH, WIDTH, LONGEST, VOCAB = 9, 96, 128, 96, 256
LAYERS = {"encoder": 3, "decoder": 2}
PAD, END = 0, 1
FEW = 200  # held-out examples published with the checkpoint
EXAMPLES = "`heldout.jsonl` too; no part of num2words (LGPL 2.1), which wrote the words, is here."


class Pair(NamedTuple):
    """A number in both languages."""

    english: str
    french: str


def numbers(random: np.random.Generator, count: int) -> list[int]:
    """Random numbers, uniform over the number of digits, one to nine."""
    digits = random.integers(1, DIGITS + 1, count)
    return [int(random.integers(10 ** (d - 1) if d > 1 else 0, 10**d)) for d in digits]


def held_out(number: int) -> bool:
    """Tell whether a number is held out: one in twenty from a thousand up; smaller ones compose all."""
    return number >= 1000 and zlib.crc32(str(number).encode()) % 20 == 0


def said(number: int) -> Pair:
    """The number in words."""
    return Pair(num2words(number), num2words(number, lang="fr"))


def make_tokenizer() -> Tokenizer:
    """A BPE tokenizer of both languages."""
    random = np.random.default_rng(0)
    pairs = [said(number) for number in numbers(random, 4000) if not held_out(number)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator((text for pair in pairs for text in pair), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", END)])
    return tokenizer


def config(tokenizer: Tokenizer) -> dict:
    """The architecture as a config of transformers."""
    sides = {
        f"{side}_{name}": value
        for side, layers in LAYERS.items()
        for name, value in (("layers", layers), ("attention_heads", 4), ("ffn_dim", 4 * WIDTH))
    }
    return sides | {
        "model_type": "marian",
        "vocab_size": tokenizer.get_vocab_size(),
        "d_model": WIDTH,
        "activation_function": "relu",
        "dropout": 0.0,
        "scale_embedding": True,
        "max_position_embeddings": LONGEST,
        "pad_token_id": PAD,
        "eos_token_id": END,
        "forced_eos_token_id": None,
        "decoder_start_token_id": PAD,
    }


def ids(tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """Texts as ids (B,S), right-padded."""
    rows = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(texts)]
    return pad_sequence(rows, batch_first=True, padding_value=PAD)


def scores(model: Transformer, sources: Tensor, read: Tensor) -> Tensor:
    """Sources (B,E) and decoder inputs (B,S) -> logits (B,S,V)."""
    mask = sources.ne(PAD).long()
    encoded = model.encode(sources, mask)
    cross = [
        tuple(encoded[name] for name in cache_names.present(i, cache_names.ENCODER))
        for i in range(len(model.cross))
    ]
    past = model.empty_past(len(sources))
    logits, _ = model.decode(read, past, encoder_attention_mask=mask, cross=cross)
    return logits


@torch.inference_mode()
def translate(model: Transformer, tokenizer: Tokenizer, texts: list[str]) -> list[str]:
    """Greedy translations."""
    sources = ids(tokenizer, texts)
    read = torch.full((len(texts), 1), PAD)
    ended = torch.zeros(len(texts), dtype=torch.bool)
    while not ended.all() and read.shape[1] < LONGEST:
        best = scores(model, sources, read)[:, -1].argmax(-1)
        read = torch.cat([read, best.where(~ended, PAD)[:, None]], dim=1)
        ended |= best == END
    return tokenizer.decode_batch(read[:, 1:].tolist())


def evaluate(model: nn.Module, tokenizer: Tokenizer) -> tuple[list[Pair], list[str]]:
    """Held-out numbers and the model's translations."""
    random = np.random.default_rng(1)
    chosen = list(dict.fromkeys(n for n in numbers(random, 60_000) if held_out(n)))[:2000]
    pairs = [said(number) for number in chosen]
    translations: list[str] = []
    for start in range(0, len(pairs), 200):
        translations += translate(model, tokenizer, [pair.english for pair in pairs[start : start + 200]])
    return pairs, translations


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--steps", default=6000, show_default=True, help="Steps of training.")
def main(folder: Path, steps: int) -> None:
    """Train the translator of number words and write its checkpoint to FOLDER."""
    part = _loop.part_of(folder)
    tokenizer = make_tokenizer()
    checkpoints.create(part, config(tokenizer), "MarianMTModel")
    model = checkpoints.load(part)
    assert isinstance(model, Transformer)
    torch.manual_seed(0)
    initialisation.xavier(model)
    print(f"{_loop.parameters(model):,} parameters, {tokenizer.get_vocab_size()} tokens")

    def loss_of(step: int) -> Tensor:
        random = np.random.default_rng([2, step])
        pairs = [said(number) for number in numbers(random, BATCH) if not held_out(number)]
        sources = ids(tokenizer, [pair.english for pair in pairs])
        labels = ids(tokenizer, [pair.french for pair in pairs])
        logits = scores(model, sources, objectives.shift_right(labels, PAD, PAD))
        labels = labels.masked_fill(labels == PAD, objectives.IGNORED)
        return objectives.token_loss(logits, labels, label_smoothing=0.1)

    optimizer = optimisation.adam_2017(model)
    schedule = optimisation.inverse_square_root(optimizer, WIDTH, warmup=800)
    _loop.train(
        model, loss_of, optimizer, schedule, steps, part, [said(0), tokenizer.to_str()], average_last=0.2
    )
    checkpoints.save(model, part, like=part, dtype=torch.float16)
    pairs, said_by_model = evaluate(checkpoints.load(part), tokenizer)
    wanted = [pair.french for pair in pairs]
    exact = metrics.exact_match(wanted, said_by_model)
    sampled = metrics.exact_match(wanted[:FEW], said_by_model[:FEW])
    print(f"exact match on {len(pairs)} numbers held out: {exact:.4f}")
    _loop.write_tokenizer(part, tokenizer, LONGEST, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    _loop.write_json(
        part / "generation_config.json",
        {
            "decoder_start_token_id": PAD,
            "pad_token_id": PAD,
            "eos_token_id": END,
            "max_length": LONGEST,
        },
    )
    examples = [pair._asdict() for pair in pairs[:FEW]]
    _loop.write_examples(part / "heldout.jsonl", examples)
    card = f"""
A small Transformer of 2017: an encoder of three layers, a decoder of two, {WIDTH} wide,
post-norm, sinusoidal positions, {_loop.parameters(model):,} parameters. It translates English
number words, below a thousand million, into French.

Data: made by num2words; numbers of one to nine digits equally often; from a thousand up one in
twenty is held out. `heldout.jsonl` has the first 200 of the numbers held out.
"""
    _loop.write_card(
        part,
        "English number words to French",
        card,
        "python tools/train/translator.py",
        {
            f"exact match, {len(pairs):,} numbers": f"{exact:.2%}",
            f"exact match on heldout.jsonl, {FEW} numbers": f"{sampled:.2%}",
        },
        EXAMPLES,
    )
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
