"""Train a LLaMA-like code completer on Python's own library.

python tools/train/completer.py [FOLDER]

RMSNorm, SwiGLU, RoPE, grouped-query attention (Touvron et al. 2023), causal language modelling. One file of
the library in twenty is held out; perplexity on those is reported beside that of a 3-gram.
"""

import math
import zlib
from collections import Counter
from pathlib import Path

import _library
import _loop
import _notices
import click
import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer, Tokenizer
from torch import Tensor
from txmodels.model import Transformer
from txmodels.training import checkpoints, metrics, objectives, optimisation

FOLDER = Path(__file__).parents[2] / "models/pretrained/python-completer"
VOCAB, WINDOW, BATCH = 2048, 256, 8
END = 0  # between files


def make_tokenizer(texts: list[str]) -> Tokenizer:
    """A BPE tokenizer of the library."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts, VOCAB, special_tokens=["<|endoftext|>"], show_progress=False)
    return Tokenizer.from_str(tokenizer.to_str())


def config() -> dict:
    """The architecture as a config of transformers."""
    return {
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": 192,
        "num_hidden_layers": 6,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "intermediate_size": 512,
        "max_position_embeddings": WINDOW,
        "tie_word_embeddings": True,
        "bos_token_id": END,
        "eos_token_id": END,
    }


def encode(tokenizer: Tokenizer, texts: list[str]) -> np.ndarray:
    """Concatenate files, each followed by EOS."""
    rows = [[*encoding.ids, END] for encoding in tokenizer.encode_batch(texts)]
    return np.concatenate(rows).astype(np.int64)


@torch.inference_mode()
def log_probabilities(model: Transformer, windows: Tensor) -> np.ndarray:
    """windows (B,S) -> the log-probability of each token but the first (B,S-1)."""
    result = []
    for rows in windows.split(16):
        logits, _ = model.decode(rows, model.empty_past(len(rows)))
        scores = logits[:, :-1].log_softmax(-1)
        result.append(scores.gather(2, rows[:, 1:, None]).squeeze(2))
    return torch.cat(result).numpy()


def trigram(train: np.ndarray, windows: np.ndarray, discount: float = 0.75) -> np.ndarray:
    """As `log_probabilities`, by an interpolated Kneser-Ney 3-gram (Chen and Goodman 1998).

    One discount serves all orders, as in their simplest variant.
    """
    counts = Counter(zip(train[:-2].tolist(), train[1:-1].tolist(), train[2:].tolist(), strict=True))
    after_two: Counter = Counter()  # how often any token follows a pair, and how many distinct ones
    kinds_two: Counter = Counter()
    pairs: Counter = Counter()  # the number of distinct tokens before a pair
    for (a, b, c), count in counts.items():
        after_two[a, b] += count
        kinds_two[a, b] += 1
        pairs[b, c] += 1
    after_one: Counter = Counter()
    kinds_one: Counter = Counter()
    unigrams: Counter = Counter()
    for (b, c), count in pairs.items():
        after_one[b] += count
        kinds_one[b] += 1
        unigrams[c] += 1
    total = sum(unigrams.values())

    def one(c: int) -> float:
        return (max(unigrams[c] - discount, 0) + discount * len(unigrams) / VOCAB) / total

    def two(b: int, c: int) -> float:
        if not after_one[b]:
            return one(c)
        return (max(pairs[b, c] - discount, 0) + discount * kinds_one[b] * one(c)) / after_one[b]

    def three(a: int, b: int, c: int) -> float:
        if not after_two[a, b]:
            return two(b, c)
        share = max(counts[a, b, c] - discount, 0) + discount * kinds_two[a, b] * two(b, c)
        return share / after_two[a, b]

    result = np.empty((len(windows), windows.shape[1] - 1))
    for row, window in enumerate(windows.tolist()):
        result[row, 0] = math.log(two(window[0], window[1]))
        for at in range(2, len(window)):
            result[row, at - 1] = math.log(three(*window[at - 2 : at + 1]))
    return result


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--steps", default=5000, show_default=True, help="Steps of training.")
def main(folder: Path, steps: int) -> None:
    """Train the completer of Python and write its checkpoint to FOLDER."""
    part = _loop.part_of(folder)
    files = _library.sources()
    texts = [text for name, text in files.items() if not _loop.held_out(name)]
    tokenizer = make_tokenizer(texts)
    train = encode(tokenizer, texts)
    heldout = encode(tokenizer, [text for name, text in files.items() if _loop.held_out(name)])
    checkpoints.create(part, config(), "LlamaForCausalLM")
    model = checkpoints.load(part)
    assert isinstance(model, Transformer)
    print(f"{_loop.parameters(model):,} parameters; {len(train):,} tokens, {len(heldout):,} held out")

    def loss_of(step: int) -> Tensor:
        starts = np.random.default_rng([0, step]).integers(0, len(train) - WINDOW, BATCH)
        rows = torch.from_numpy(train[starts[:, None] + np.arange(WINDOW)])
        with _loop.autocast():
            logits, _ = model.decode(rows, model.empty_past(BATCH))
        return objectives.causal_loss(logits.float(), rows)

    optimizer = optimisation.adamw(model, 3e-3, decay=0.1, beta2=0.95)
    schedule = optimisation.linear(optimizer, 200, steps)
    _loop.train(model, loss_of, optimizer, schedule, steps, part, zlib.crc32(train.tobytes()))
    checkpoints.save(model, part, like=part, dtype=torch.float16)
    saved = checkpoints.load(part)
    assert isinstance(saved, Transformer)
    windows = heldout[: len(heldout) // WINDOW * WINDOW].reshape(-1, WINDOW)
    perplexity = metrics.perplexity(log_probabilities(saved, torch.from_numpy(windows)).ravel())
    counted = metrics.perplexity(trigram(train, windows).ravel())
    # A few windows from all over the held-out files are included; each ends at a character's end.
    few = [tokenizer.decode(row.tolist()).strip("\ufffd") for row in windows[:: len(windows) // 40][:40]]
    ids = [torch.tensor(tokenizer.encode(text).ids[:WINDOW]) for text in few]
    passages = [log_probabilities(saved, row[None]).ravel() for row in ids]
    sampled = metrics.perplexity(np.concatenate(passages))
    print(
        f"perplexity on held-out files: {perplexity:.2f}, of a 3-gram {counted:.2f}; on samples {sampled:.3f}"
    )
    _loop.write_tokenizer(part, tokenizer, WINDOW, bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    _loop.write_json(
        part / "generation_config.json",
        {"bos_token_id": END, "eos_token_id": END, "max_new_tokens": 40, "repetition_penalty": 1.2},
    )
    _loop.write_examples(part / "heldout.jsonl", [{"text": text} for text in few])
    _loop.write_notice(part, _notices.of_library())
    card = f"""
A small LLaMA-like decoder: six layers, hidden size 192, six query and two key/value heads,
{_loop.parameters(model):,} parameters, {WINDOW} tokens at most. It completes Python.

Data: the sources of Python's own library ({len(files)} files, {len(train) + len(heldout):,} tokens;
under the Python Software Foundation's licence), one file in twenty held out. `heldout.jsonl` has
passages of these.
"""
    _loop.write_card(
        part,
        "Completes Python",
        card,
        "python tools/train/completer.py",
        {
            "perplexity a token": f"{perplexity:.2f}",
            "perplexity of a 3-gram (interpolated Kneser-Ney)": f"{counted:.2f}",
            "perplexity on heldout.jsonl": f"{sampled:.3f}",
        },
        _loop.NOTICE,
    )
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
