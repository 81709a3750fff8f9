"""Train a Qwen2-VL of 2 million parameters that reads lines, tables and receipts.

python tools/train/picture_reader.py [FOLDER]
"""

import json
import string
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import _loop
import _pages
import _receipts
import click
import numpy as np
import torch
import transformers
from _receipts import QUESTIONS, SQUARE, Print
from _typesetting import SEEN, UNSEEN
from numpy.random import Generator
from PIL import Image
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from txmodels.training import metrics, objectives, optimisation

from txexport.checkpoints import transformers_loading

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models/pretrained/picture-reader"
KIND = "Qwen2VLForConditionalGeneration"
SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>",
    "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
PAD, START, END, OPEN, CLOSE, IMAGE, VIDEO = range(7)
PHRASES = ["user\n", "assistant\n", *QUESTIONS]  # are tokens, which makes prompts short
LETTERS = ["\ufffd", "\n", *(string.digits + string.ascii_letters + string.punctuation + " €£")]
TOKENS = {name: number for number, name in enumerate([*SPECIAL, *PHRASES, *LETTERS])}
VOCAB = len(TOKENS)
WIDTH, PATCH = 128, SQUARE // 2
SLOTS = 4  # letters of one square, at most
GUIDED = 2, 0  # the layer and the head of the decoder that look where the next letter is
BATCH, SORTED = 32, 4  # prints of a step; steps whose prints are sorted by size
MIXED = ["line"] * 16 + ["block"] * 4 + ["receipt"] * 6  # of a step, after the lines
LONGEST = 120  # letters of an answer


def make_tokenizer() -> Tokenizer:
    """A tokenizer of single characters."""
    tokenizer = Tokenizer(models.BPE(TOKENS, [], unk_token=LETTERS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in SPECIAL])
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in PHRASES])
    return tokenizer


def create() -> transformers.Qwen2VLForConditionalGeneration:
    """An untrained model."""
    heads = 4
    config = transformers.Qwen2VLConfig(
        vision_config={
            "depth": 4, "embed_dim": WIDTH, "hidden_size": WIDTH, "num_heads": heads, "mlp_ratio": 3,
            "patch_size": PATCH, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3,
            "initializer_range": 0.04, "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0}, "hidden_act": "gelu",
        },
        text_config={
            "vocab_size": VOCAB, "hidden_size": WIDTH, "num_hidden_layers": 4, "num_attention_heads": heads,
            "num_key_value_heads": heads, "intermediate_size": 3 * WIDTH, "max_position_embeddings": 1024,
            "initializer_range": 0.04, "pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 5, 5],
            },
        },
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=OPEN, vision_end_token_id=CLOSE,
        tie_word_embeddings=True, attn_implementation={"text_config": "eager", "vision_config": "eager"},
    )  # fmt: skip
    model = transformers.Qwen2VLForConditionalGeneration(config)
    model.model.visual.patch_embed.proj = Patches(3, WIDTH, (2, PATCH, PATCH), bias=False)
    return model.train()


class Patches(nn.Conv3d):
    """The projection of patches as one product, which is faster than a convolution."""

    def forward(self, patches: Tensor) -> Tensor:
        """(N,3,2,8,8) -> (N,W,1,1,1)."""
        return functional.linear(patches.flatten(1), self.weight.flatten(1))[..., None, None, None]


class Batch(NamedTuple):
    """Patches of all pictures, their grids (B,3), and of the prompts with answers, padded on the right:
    input_ids (B,S), position_ids (3,B,S), labels (B,S) of the next token, the place `looked` (B,S) of the
    image token that has it, or IGNORED; and of each image token its letters (I,SLOTS)."""

    pixels: Tensor
    grids: Tensor
    ids: Tensor
    positions: Tensor
    labels: Tensor
    looked: Tensor
    letters: Tensor


def patches(picture: np.ndarray) -> np.ndarray:
    """Patches (N,3*2*8*8) of a picture (H,W,3) of bytes, as the processor makes them."""
    height, width = picture.shape[0] // SQUARE, picture.shape[1] // SQUARE
    split = picture.reshape(height, 2, PATCH, width, 2, PATCH, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    flat = split.reshape(-1, 3, 1, PATCH * PATCH).astype(np.float32) / 127.5 - 1
    return flat.repeat(2, axis=2).reshape(len(flat), -1)


def squares(places: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """The image tokens in which places (N,2) are."""
    rows = (places[:, 1] // SQUARE).clip(0, grid[0] - 1)
    return (rows * grid[1] + (places[:, 0] // SQUARE).clip(0, grid[1] - 1)).astype(int)


BEFORE = [START, TOKENS["user\n"], OPEN]
REPLY = [END, TOKENS["\n"], START, TOKENS["assistant\n"]]


def batch(random: Generator, prints: list[Print]) -> Batch:
    """A batch of prints, about each of which one thing is asked."""
    rows, letters = [], []
    for one in prints:
        grid = one.picture.height // SQUARE, one.picture.width // SQUARE
        count = grid[0] * grid[1]
        whole = one.answers[0]
        slots = np.zeros((count, SLOTS), int)
        for letter, square in zip(whole.text, squares(whole.places, grid), strict=True):
            free = np.flatnonzero(slots[square] == 0)
            if not letter.isspace() and len(free):
                slots[square, free[0]] = TOKENS[letter]
        letters.append(slots)
        chosen = one.answers[0 if random.random() < 0.5 else random.integers(len(one.answers))]
        prompt = [*BEFORE, *[IMAGE] * count, CLOSE, TOKENS[chosen.question], *REPLY]
        answer = [*(TOKENS[letter] for letter in chosen.text), END]
        ids = np.array([*prompt, *answer[:-1]])
        labels, looked = np.full((2, len(ids)), objectives.IGNORED)
        labels[len(prompt) - 1 :] = answer
        looked[len(prompt) - 1 : -1] = len(BEFORE) + squares(chosen.places, grid)
        start, rest = len(BEFORE), len(ids) - len(BEFORE) - count
        row, column = np.divmod(np.arange(count), grid[1])
        image = np.stack([np.zeros_like(row), row, column]) + start
        after = np.arange(rest) + start + max(grid)
        positions = np.concatenate(
            [np.tile(np.arange(start), (3, 1)), image, np.tile(after, (3, 1))], axis=1
        )
        rows.append((ids, positions, labels, looked))
    longest = max(len(row[0]) for row in rows)

    def padded(index: int, value: int) -> Tensor:
        return torch.from_numpy(np.stack([
            np.pad(row[index], [(0, 0)] * (row[index].ndim - 1) + [(0, longest - row[index].shape[-1])], constant_values=value)
            for row in rows
        ], axis=-2))

    pixels = np.concatenate([patches(np.asarray(one.picture)) for one in prints])
    grids = [[1, one.picture.height // PATCH, one.picture.width // PATCH] for one in prints]
    return Batch(
        torch.from_numpy(pixels), torch.tensor(grids), padded(0, PAD), padded(1, 0),
        padded(2, objectives.IGNORED), padded(3, objectives.IGNORED), torch.from_numpy(np.concatenate(letters)),
    )


class Reader(nn.Module):
    """The model, and while it is trained a guide: a guess of the letters of each square from its vector."""

    def __init__(self) -> None:
        super().__init__()
        self.model = create()
        self.guide = nn.Linear(WIDTH, SLOTS * VOCAB)

    def losses(self, data: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The losses of the answers, of the guide's letters, and of where the decoder's guided head looks."""
        tower, decoder = self.model.model.visual, self.model.model.language_model
        with _loop.autocast():
            vectors = tower(data.pixels, data.grids).pooler_output  # (I, W)
            embeddings = decoder.embed_tokens(data.ids)  # (B, S, W)
            shown = (data.ids == IMAGE)[..., None].expand_as(embeddings)
            outputs = decoder(
                inputs_embeds=embeddings.masked_scatter(shown, vectors.to(embeddings.dtype)),
                position_ids=data.positions,
                attention_mask=(data.ids != PAD).long(),
                output_attentions=True,
                use_cache=False,
            )
            guesses = self.guide(vectors).unflatten(-1, (SLOTS, VOCAB))
            logits = self.model.lm_head(outputs.last_hidden_state)
        layer, head = GUIDED
        looks = (outputs.attentions[layer][:, head].float() + 1e-6).log()  # (B, S, S)
        ignored = {"ignore_index": objectives.IGNORED}
        return (
            functional.cross_entropy(logits.float().flatten(0, 1), data.labels.flatten(), **ignored),
            functional.cross_entropy(guesses.float().flatten(0, 1), data.letters.flatten()),
            functional.nll_loss(looks.flatten(0, 1), data.looked.flatten(), **ignored),
        )


@cache
def drawn(number: int, lines: bool, fonts: tuple[tuple[Path, Path], ...]) -> list[Batch]:
    """The batches of SORTED steps, each of prints of about one size, which need little padding."""
    random = np.random.default_rng([0, number])
    kinds = ["line"] * BATCH if lines else MIXED
    prints = [_receipts.draw(random, fonts, kind) for kind in SORTED * kinds]
    prints.sort(key=lambda one: len(one.answers[0].text) + one.picture.width * one.picture.height / SQUARE**2)
    size = len(kinds)
    return [batch(random, prints[i * size : (i + 1) * size]) for i in random.permutation(SORTED)]


@torch.inference_mode()
def answer(model: transformers.Qwen2VLForConditionalGeneration, picture: Image.Image, question: str) -> str:
    """The greedy answer to a question about a picture, whose sides are whole squares."""
    pixels = torch.from_numpy(patches(np.asarray(picture)))
    grid = torch.tensor([[1, picture.height // PATCH, picture.width // PATCH]])
    ids = torch.tensor([[*BEFORE, *[IMAGE] * (len(pixels) // 4), CLOSE, TOKENS[question], *REPLY]])
    result = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=pixels, image_grid_thw=grid,
        mm_token_type_ids=(ids == IMAGE).int(), max_new_tokens=LONGEST, do_sample=False,
    )  # fmt: skip
    names = [*SPECIAL, *PHRASES, *LETTERS]
    return "".join(names[i] for i in result[0, ids.shape[1] :].tolist() if i >= len(SPECIAL))


def scores(model: transformers.Qwen2VLForConditionalGeneration, prints: dict[str, list[Print]]) -> dict[str, str]:
    """Exact matches and the error rate of letters, of each kind of print and question."""
    rows = {}
    for kind, some in prints.items():
        for question in QUESTIONS:
            pairs = [
                (one.text, answer(model, drawing.picture, question))
                for drawing in some
                for one in drawing.answers
                if one.question == question
            ]
            if pairs:
                expected, texts = zip(*pairs, strict=True)
                rows[f"{kind}: {question} exact match"] = f"{metrics.exact_match(expected, texts):.1%}"
                rows[f"{kind}: {question} character error rate"] = (
                    f"{metrics.character_error_rate(expected, texts):.2%}"
                )
    return rows
