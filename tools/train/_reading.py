"""The tokens of prompts about pictures, and batches of them with the patches of drawn ones."""

import string
from typing import NamedTuple

import numpy as np
import torch
from _receipts import QUESTIONS, SQUARE, Answer, Print
from numpy.random import Generator
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from txmodels.training import objectives

SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>",
    "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
PAD, START, END, OPEN, CLOSE, IMAGE, VIDEO = range(7)
PHRASES = ["user\n", "assistant\n", *QUESTIONS]  # are tokens, which makes prompts short
LETTERS = ["\ufffd", "\n", *(string.digits + string.ascii_letters + string.punctuation + " €£")]
TOKENS = {name: number for number, name in enumerate([*SPECIAL, *PHRASES, *LETTERS])}
VOCAB = len(TOKENS)
PATCH = SQUARE // 2
SLOTS = 4  # letters of one square, at most
MEAN, DEVIATION = 0.85, 0.3  # of light and of its differences
BEFORE = [START, TOKENS["user\n"], OPEN]
REPLY = [END, TOKENS["\n"], START, TOKENS["assistant\n"]]


def make_tokenizer() -> Tokenizer:
    """A tokenizer of single characters."""
    tokenizer = Tokenizer(models.BPE(TOKENS, [], unk_token=LETTERS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in SPECIAL])
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in PHRASES])
    return tokenizer


class Batch(NamedTuple):
    """Patches of all pictures, their grids (B,3), and of the prompts with answers, padded on the right:
    input_ids (B,S), position_ids (3,B,S), labels (B,S) of the next token, the place `looked` (B,S) of the
    image token that has it, or IGNORED; the letter on each patch (N),
    and the letters in each square in their order (I,SLOTS)."""

    pixels: Tensor
    grids: Tensor
    ids: Tensor
    positions: Tensor
    labels: Tensor
    looked: Tensor
    letters: Tensor
    slots: Tensor


def patches(picture: np.ndarray) -> np.ndarray:
    """Patches (N,3*2*8*8) of a picture (H,W,3) of bytes, as the processor makes them."""
    height, width = picture.shape[0] // SQUARE, picture.shape[1] // SQUARE
    split = picture.reshape(height, 2, PATCH, width, 2, PATCH, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    flat = (split.reshape(-1, 3, 1, PATCH * PATCH).astype(np.float32) / 255 - MEAN) / DEVIATION
    return flat.repeat(2, axis=2).reshape(len(flat), -1)


def squares(points: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """The image tokens in which points (N,2) are."""
    rows = (points[:, 1] // SQUARE).clip(0, grid[0] - 1)
    return (rows * grid[1] + (points[:, 0] // SQUARE).clip(0, grid[1] - 1)).astype(int)


def seen_letters(answer: Answer, grid: tuple[int, int]) -> np.ndarray:
    """The letter that is drawn on each patch, or PAD, (N) in the order of patches."""
    result = np.full((2 * grid[0], 2 * grid[1]), PAD)
    for letter, (x, y, width) in zip(answer.text, answer.letters, strict=True):
        if not letter.isspace():
            half = max(width / 2, PATCH / 2)
            rows, columns = (
                slice(
                    max(0, int(np.ceil((middle - size) / PATCH - 0.5))),
                    int(np.floor((middle + size) / PATCH + 0.5)),
                )
                for middle, size in ((y, 0.8 * PATCH), (x, half))
            )
            result[rows, columns] = TOKENS[letter]
    return result.reshape(grid[0], 2, grid[1], 2).transpose(0, 2, 1, 3).ravel()


def ordered_letters(answer: Answer, grid: tuple[int, int]) -> np.ndarray:
    """The letters whose middle is in each square, in the order of the text, then PAD: (I,SLOTS)."""
    result = np.full((grid[0] * grid[1], SLOTS), PAD)
    for letter, square in zip(answer.text, squares(answer.letters, grid), strict=True):
        free = np.flatnonzero(result[square] == PAD)
        if not letter.isspace() and len(free):
            result[square, free[0]] = TOKENS[letter]
    return result


def prompt(count: int, question: str) -> list[int]:
    """The tokens of a question about a picture of `count` squares, up to the answer."""
    return [*BEFORE, *[IMAGE] * count, CLOSE, TOKENS[question], *REPLY]


def batch(random: Generator, prints: list[Print]) -> Batch:
    """A batch of prints, about each of which one thing is asked."""
    rows, letters, slots = [], [], []
    for one in prints:
        grid = one.picture.height // SQUARE, one.picture.width // SQUARE
        count = grid[0] * grid[1]
        letters.append(seen_letters(one.answers[0], grid))
        slots.append(ordered_letters(one.answers[0], grid))
        chosen = one.answers[0 if random.random() < 0.5 else random.integers(len(one.answers))]
        read = prompt(count, chosen.question)
        answer = [*(TOKENS[letter] for letter in chosen.text), END]
        ids = np.array([*read, *answer[:-1]])
        labels, looked = np.full((2, len(ids)), objectives.IGNORED)
        labels[len(read) - 1 :] = answer
        looked[len(read) - 1 : -1] = len(BEFORE) + squares(chosen.letters, grid)
        start, rest = len(BEFORE), len(ids) - len(BEFORE) - count
        row, column = np.divmod(np.arange(count), grid[1])
        image = np.stack([np.zeros_like(row), row, column]) + start
        after = np.arange(rest) + start + max(grid)
        positions = np.concatenate([np.tile(np.arange(start), (3, 1)), image, np.tile(after, (3, 1))], axis=1)
        rows.append((ids, positions, labels, looked))
    longest = max(len(row[0]) for row in rows)

    def padded(rows: list[np.ndarray], value: int) -> Tensor:
        """Rows of another last size each, side by side on the axis before it."""
        more = [longest - row.shape[-1] for row in rows]
        return torch.from_numpy(
            np.stack(
                [
                    np.pad(row, [(0, 0)] * (row.ndim - 1) + [(0, extra)], constant_values=value)
                    for row, extra in zip(rows, more, strict=True)
                ],
                axis=-2,
            )
        )

    pixels = np.concatenate([patches(np.asarray(one.picture)) for one in prints])
    grids = [[1, one.picture.height // PATCH, one.picture.width // PATCH] for one in prints]
    ids, positions, labels, looked = zip(*rows, strict=True)
    return Batch(
        torch.from_numpy(pixels),
        torch.tensor(grids),
        padded(ids, PAD),
        padded(positions, 0),
        padded(labels, objectives.IGNORED),
        padded(looked, objectives.IGNORED),
        torch.from_numpy(np.concatenate(letters)),
        torch.from_numpy(np.concatenate(slots)),
    )
