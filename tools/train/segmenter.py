"""Train a small SegFormer that tells the headings, paragraphs, tables and figures of a page, pixel by pixel.

python tools/train/segmenter.py [FOLDER]

The pages are drawn by _pages.py, which names the Debian packages of their fonts. The loss is the cross
entropy of pixels, from random weights. The scores are intersections over unions for pages in typefaces that
no training page has.
"""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import _loop
import _pages
import click
import numpy as np
import torch
import transformers
from _pages import LABELS, Page, Pages
from _typesetting import SEEN, UNSEEN
from finder import EXAMPLES, names, unseen
from torch import Tensor, nn
from txmodels.training import optimisation

from txexport.checkpoints import transformers_loading

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models/pretrained/page-segmenter"
KIND = "SegformerForSemanticSegmentation"
CLASSES = "background", *LABELS
BATCH = 8
PAGES = 3000
MEAN, DEVIATION = 0.5, 0.25  # of all colours
AVERAGED = 0.1  # the last fraction of the steps


def create() -> transformers.SegformerForSemanticSegmentation:
    """An untrained segmenter."""
    config = transformers.SegformerConfig(
        hidden_sizes=[24, 48, 96, 144], depths=[2, 2, 2, 2], num_attention_heads=[1, 2, 3, 4],
        mlp_ratios=[4, 4, 4, 3], decoder_hidden_size=96, drop_path_rate=0.0, classifier_dropout_prob=0.0,
        attn_implementation="eager", **names(CLASSES),
    )  # fmt: skip
    return transformers.SegformerForSemanticSegmentation(config).train()


class Batches:
    """Batches of drawn pages, mirrored and in other tones at random."""

    def __init__(self, pages: Pages):
        self.pages = pages

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Pixels (B,3,320,224), normalised, and the class of each (B,320,224)."""
        random = np.random.default_rng([5, step])
        chosen = random.integers(len(self.pages.pictures), size=BATCH)
        pixels = self.pages.pictures[chosen].transpose(0, 3, 1, 2) / np.float32(255)
        areas = self.pages.areas[chosen].astype(np.int64)
        mirrored = random.random(BATCH) < 0.5
        pixels[mirrored], areas[mirrored] = pixels[mirrored, ..., ::-1], areas[mirrored, ..., ::-1]
        values = (_pages.toned(random, pixels) - MEAN) / DEVIATION
        return torch.from_numpy(values), torch.from_numpy(areas)


def loss(model: nn.Module, batches: Batches, step: int) -> Tensor:
    """The loss of the batch of a step."""
    pixels, areas = batches.batch(step)
    with _loop.autocast():
        return model(pixel_values=pixels, labels=areas).loss


def processor() -> transformers.SegformerImageProcessorPil:
    """The image processor, which makes a page as small as those of training."""
    width, height = _pages.SMALL
    return transformers.SegformerImageProcessorPil(
        size={"height": height, "width": width}, image_mean=[MEAN] * 3, image_std=[DEVIATION] * 3
    )


@torch.inference_mode()
def overlaps(folder: Path, pages: Sequence[Page]) -> np.ndarray:
    """The intersection over union of each class (C) in all pages' pixels, by the checkpoint in `folder`."""
    model = transformers_loading.model_from_pretrained(KIND, folder, dtype=torch.float32).eval()
    reader = transformers_loading.from_pretrained("SegformerImageProcessorPil", folder)
    counts = np.zeros((len(CLASSES), len(CLASSES)), np.int64)  # of drawn and answered classes
    for one in pages:
        outputs = model(**reader(one.picture, return_tensors="pt"))
        [answer] = reader.post_process_semantic_segmentation(outputs, [one.picture.size[::-1]])
        pairs = len(CLASSES) * np.asarray(one.areas, np.int64) + answer.numpy()
        counts += np.bincount(pairs.ravel(), minlength=counts.size).reshape(counts.shape)
    shared = counts.diagonal()
    return shared / (counts.sum(0) + counts.sum(1) - shared)


CARD = """
A SegFormer of {parameters:,} parameters, from random weights. It gives each pixel of a page to a heading, a
paragraph, a table, a figure, or the background; it reads 224 x 320 pixels.

Data: {count:,} pages drawn by `tools/train/_pages.py`, in twelve typefaces, of one column or two, with tables
with and without rules, charts, diagrams and textures, light and dark, turned by a degree or so, unevenly lit
and noisy. No page is a real one, and their text is random: it is a model for examples and tests. The scores
are of all pixels of {tested} further pages in five typefaces that no training page has. `tests/data/pages`
has one such page.
"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--steps", default=2000, show_default=True, help="Steps of training.")
@click.option("--pages", "count", default=PAGES, show_default=True, help="Pages to train on.")
@_pages.options
def main(
    folder: Path, steps: int, count: int, tested: int, cache: Path | None, fonts: Path, example: Path
) -> None:
    """Train the segmenter of pages and write its checkpoint to FOLDER, and the example's areas.png."""
    part = _loop.part_of(folder)
    train = _pages.pages(cache or part / "pages", 0, count, _pages.files(SEEN, fonts))
    torch.manual_seed(0)
    model = create()
    print(f"{_loop.parameters(model):,} parameters", flush=True)
    optimizer = optimisation.adamw(model, 1e-3)
    schedule = optimisation.linear(optimizer, min(200, steps // 2), steps)
    loss_of = partial(loss, model, Batches(train))
    about = [count, model.config]
    _loop.train(model, loss_of, optimizer, schedule, steps, part, about, average_last=AVERAGED)
    model.half().save_pretrained(part)
    processor().save_pretrained(part)
    scores = overlaps(part, unseen(tested, fonts))
    rows = {f"IoU of {name}": f"{score:.2%}" for name, score in zip(CLASSES, scores, strict=True)}
    rows["mean IoU"] = f"{scores.mean():.2%}"
    print(rows, flush=True)
    example.mkdir(parents=True, exist_ok=True)
    _pages.example(_pages.files(UNSEEN, fonts)).areas.save(example / "areas.png", optimize=True)
    text = CARD.format(parameters=_loop.parameters(model), count=count, tested=tested)
    title, command = "The parts of a page, pixel by pixel", "python tools/train/segmenter.py"
    _loop.write_card(part, title, text, command, rows, EXAMPLES)
    shutil.rmtree(part / "pages", ignore_errors=True)
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
