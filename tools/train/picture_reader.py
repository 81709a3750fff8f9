"""Train a Qwen2-VL of 2 million parameters that reads pictures of lines, tables and receipts.

python tools/train/picture_reader.py [FOLDER]

Pictures of any size become patches with 2D RoPE, and tokens among those of the text (Wang et al. 2024), from
random weights. Where each letter is drawn is known. So the image encoder first learns which letter is on each
patch; and one head of the decoder learns to look at the square of the next letter, as guided attention does
for speech (Tachibana et al. 2018). The scores are of typefaces that no
training picture has; _pages.py names the Debian packages of all.
"""

import shutil
from functools import lru_cache
from pathlib import Path

import _loop
import _pages
import _receipts
import click
import numpy as np
import torch
import transformers
from _picture_network import CONTEXT, Network, Reader
from _reading import (
    DEVIATION,
    END,
    IMAGE,
    MEAN,
    PAD,
    PATCH,
    SPECIAL,
    START,
    TOKENS,
    Batch,
    batch,
    make_tokenizer,
    patches,
    prompt,
)  # fmt: skip
from _receipts import QUESTIONS, SQUARE, Print
from _typesetting import SEEN, UNSEEN
from PIL import Image
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from txmodels.training import metrics, optimisation

from txexport.checkpoints import transformers_loading

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models/pretrained/picture-reader"
KIND = "Qwen2VLForConditionalGeneration"
EXAMPLE = ROOT / "tests/data/receipts"
TEMPLATE = Path(__file__).with_name("picture_chat_template.jinja")
GUIDANCE = (
    0.5,
    0.5,
    1.0,
    1.0,
)  # weights of the losses of letters on patches and in squares, of answers, of looking
BATCH, SORTED = 32, 4  # prints of a step of lines; steps whose prints are sorted by size
PATCHES, WORDS = 0.25, 0.37  # the first fractions of the steps, whose stages are `patches`, then `words`
MIXED = ["line"] * 12 + ["receipt"] * 8  # prints of a step, after that
LONGEST = 120  # letters of an answer
SHOWN = {"receipt.png": ("receipt", 7), "line.png": ("line", 0)}  # kinds and numbers of example pictures
PAGE = 3, 2  # the number of the example page, and its typeface
RATE, WARM, COOL = 2e-3, 150, 0.35  # steps of warm-up; the fraction in which the learning rate falls to 0
AVERAGED = 0.05  # the last fraction of the steps
LEAST, MOST = 32 * 32, 320 * 320  # pixels of a picture, which is resized otherwise
EXAMPLES = (
    "The fonts, under the SIL Open Font License and others, are no part of it; those licences do not extend\n"
    "to pictures of text."
)


@lru_cache(1)
def drawn(number: int, lines: bool, fonts: tuple[tuple[Path, Path], ...]) -> list[Batch]:
    """The batches of SORTED steps, each of prints of about one size, which need little padding."""
    random = np.random.default_rng([0, number])
    kinds = ["line"] * BATCH if lines else MIXED
    prints = [_receipts.draw(random, fonts, kind) for kind in SORTED * kinds]
    prints.sort(key=lambda one: len(one.answers[0].text) + one.picture.width * one.picture.height / SQUARE**2)
    size = len(kinds)
    return [batch(random, prints[i * size : (i + 1) * size]) for i in random.permutation(SORTED)]


@torch.inference_mode()
def answers(model: Network, questions: list[tuple[Image.Image, str]]) -> list[str]:
    """The greedy answers to questions about pictures, whose sides are whole squares."""
    names, result = list(TOKENS), []
    for first in range(0, len(questions), BATCH):
        rows = questions[first : first + BATCH]
        pixels = [patches(np.asarray(picture)) for picture, _ in rows]
        prompts = [prompt(len(some) // 4, question) for some, (_, question) in zip(pixels, rows, strict=True)]
        longest = max(map(len, prompts))
        ids = torch.tensor([[PAD] * (longest - len(one)) + one for one in prompts])
        outputs = model.generate(
            input_ids=ids, attention_mask=ids.ne(PAD).long(), mm_token_type_ids=ids.eq(IMAGE).int(),
            pixel_values=torch.from_numpy(np.concatenate(pixels)),
            image_grid_thw=torch.tensor([[1, one.height // PATCH, one.width // PATCH] for one, _ in rows]),
            max_new_tokens=LONGEST, do_sample=False,
        )  # fmt: skip
        result += [
            "".join(names[number] for number in row if number >= len(SPECIAL))
            for row in outputs[:, longest:].tolist()
        ]
    return result


def scores(model: Network, prints: dict[str, list[Print]]) -> dict[str, str]:
    """Exact matches and the error rate of letters, of each kind of print and question."""
    rows = {}
    for kind, some in prints.items():
        some = sorted(some, key=lambda one: one.picture.width * one.picture.height)
        for question in QUESTIONS:
            pairs = [
                (one.picture, answer.text)
                for one in some
                for answer in one.answers
                if answer.question == question
            ]
            if pairs:
                texts = answers(model, [(picture, question) for picture, _ in pairs])
                expected = [text for _, text in pairs]
                about = f"{kind}s, {question!r}"
                rows[f"exact match, {about}"] = f"{metrics.exact_match(expected, texts):.1%}"
                rows[f"character error rate, {about}"] = (
                    f"{metrics.character_error_rate(expected, texts):.2%}"
                )
    return rows


def unseen(count: int, fonts: Path) -> dict[str, list[Print]]:
    """Prints of each kind in typefaces that no training print has."""
    faces = _pages.files(UNSEEN, fonts)
    return {
        kind: [_receipts.draw(np.random.default_rng([1, i]), faces, kind) for i in range(count)]
        for kind in _receipts.KINDS
    }


def write_processor(folder: Path) -> None:
    """Write the tokenizer, the chat template, and the settings of images and of generation."""
    transformers.Qwen2VLImageProcessorPil(
        patch_size=PATCH, image_mean=[MEAN] * 3, image_std=[DEVIATION] * 3, min_pixels=LEAST, max_pixels=MOST
    ).save_pretrained(folder)
    tokenizer = make_tokenizer()
    _loop.write_tokenizer(folder, tokenizer, CONTEXT, pad_token=SPECIAL[PAD], eos_token=SPECIAL[END])
    shutil.copyfile(TEMPLATE, folder / "chat_template.jinja")
    generation = {"bos_token_id": START, "eos_token_id": END, "pad_token_id": PAD, "max_new_tokens": LONGEST}
    _loop.write_json(folder / "generation_config.json", generation)


def write_example(folder: Path, fonts: Path) -> None:
    """Write a receipt, a line and a page of bills in unseen typefaces, and answers.json about them."""
    folder.mkdir(parents=True, exist_ok=True)
    faces = _pages.files(UNSEEN, fonts)
    answers = {}
    for name, (kind, seed) in SHOWN.items():
        shown = _receipts.draw(np.random.default_rng([2, seed]), faces, kind)
        shown.picture.save(folder / name, optimize=True)
        answers[name] = {one.question: one.text for one in shown.answers}
    page, bills = _receipts.page(np.random.default_rng([2, PAGE[0]]), faces[PAGE[1]])
    page.convert("L").save(folder / "bills.png", optimize=True)
    answers["bills.png"] = {bill.heading: bill.total for bill in bills}
    _loop.write_json(folder / "answers.json", answers)


CARD = """
A Qwen2-VL of {parameters:,} parameters: an image encoder and a decoder of four layers and hidden size 128
each. It reads a line, a small table or a receipt, in letters of 13 to 20 pixels, and answers
three questions: "What is written here?", "What is the total?" and "What is the date?". Each of the three is
one token, and it knows no other question. Pictures of more than {most:,} pixels are made smaller.

Data: {count:,} pictures drawn by `tools/train/_receipts.py`, in twelve typefaces, regular and bold: number
words, dates, amounts, common English terms, random letters and digits, and receipts of one to three items,
with and without rules, on light and dark paper, turned, slanted, blurred and noisy. No picture is a real one:
it is a model for examples and tests. The scores are of {tested} further pictures of each kind, in five
typefaces that no training picture has; an exact match is of the whole text, with its case, points and spaces.
`tests/data/receipts` has examples of these, which it reads without a mistake.

The training was interrupted several times, and the recipe was still being changed in the first third of it.
So another run gives other weights, and other scores.
"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--steps", default=5000, show_default=True, help="Steps of training.")
@click.option("--tested", default=200, show_default=True, help="Prints of each kind to evaluate on.")
@click.option("--fonts", type=click.Path(path_type=Path), default=_pages.FONTS, help="Folder of fonts.")
@click.option("--example", type=click.Path(path_type=Path), default=EXAMPLE, help="Folder of examples.")
def main(folder: Path, steps: int, tested: int, fonts: Path, example: Path) -> None:
    """Train the reader of pictures and write its checkpoint to FOLDER."""
    part = _loop.part_of(folder)
    faces = tuple(_pages.files(SEEN, fonts))
    torch.manual_seed(0)
    reader = Reader()
    print(f"{_loop.parameters(reader.model):,} parameters", flush=True)

    def loss_of(step: int) -> Tensor:
        stage = "patches" if step < PATCHES * steps else "words" if step < WORDS * steps else "all"
        number, turn = divmod(step, SORTED)
        data = drawn(number, stage != "all", faces)[turn]
        losses = reader.losses(data, stage)
        return sum(loss * weight for loss, weight in zip(losses, GUIDANCE, strict=False))

    optimizer = optimisation.adamw(reader, RATE, decay=0.05, beta2=0.98)
    schedule = LambdaLR(optimizer, lambda step: min((step + 1) / WARM, (steps - step) / (COOL * steps), 1.0))
    about = reader.model.config
    _loop.train(reader, loss_of, optimizer, schedule, steps, part, about, average_last=AVERAGED)
    count = round(steps * (WORDS * BATCH + (1 - WORDS) * len(MIXED)))
    publish(reader.model, part, tested, count, fonts)
    write_example(example, fonts)
    _loop.finish(part, folder)


def publish(model: Network, part: Path, tested: int, count: int, fonts: Path) -> None:
    """Write the checkpoint of a model that was trained on `count` pictures, with its scores."""
    model.half().save_pretrained(part)
    write_processor(part)
    saved = transformers_loading.model_from_pretrained(KIND, part, dtype=torch.float32).eval()
    rows = scores(saved, unseen(tested, fonts))
    print(rows, flush=True)
    text = CARD.format(parameters=_loop.parameters(model), count=count, tested=tested, most=MOST)
    title, command = "Reads pictures of text", "python tools/train/picture_reader.py"
    _loop.write_card(part, title, text, command, rows, EXAMPLES)


if __name__ == "__main__":
    main()
