"""Train a small RT-DETR that finds the headings, paragraphs, tables and figures of a page.

pip install pycocotools
python tools/train/finder.py [FOLDER]

The pages are drawn by _pages.py, which names the Debian packages of their fonts. The loss is that of RT-DETR
(Zhao et al. 2024) with contrastive denoising (Zhang et al. 2023), from random weights. The scores are those
of COCO for pages in typefaces that no training page has.
"""

import contextlib
import io
import json
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
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import interpolate
from txmodels.training import optimisation

from txexport.checkpoints import transformers_loading

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models/pretrained/page-finder"
KIND = "RTDetrForObjectDetection"
WIDTH, HEIGHT = 192, 256  # of the pixels that models read
BATCH = 10
PAGES = 6000
AVERAGED = 0.1  # the last fraction of the steps
EXAMPLES = (
    "The fonts, under the SIL Open Font License and others, are no part of it; those licences do not extend\n"
    "to pictures of text."
)


def names(labels: Sequence[str]) -> dict:
    """The label names of a configuration."""
    return {"id2label": dict(enumerate(labels)), "label2id": {name: n for n, name in enumerate(labels)}}


def create() -> transformers.RTDetrForObjectDetection:
    """An untrained detector.

    The library begins with scales of norms of about 0.01, since it loads pretrained weights; here they are 1,
    and matrices begin as Glorot and Bengio 2010 and He et al. 2015 have them.
    """
    network = transformers.RTDetrResNetConfig(
        embedding_size=24, hidden_sizes=[24, 48, 96, 128], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = transformers.RTDetrConfig(
        backbone_config=network, freeze_backbone_batch_norms=False, encoder_in_channels=[48, 96, 128],
        encoder_hidden_dim=96, encoder_ffn_dim=192, encoder_attention_heads=4, hidden_expansion=0.5,
        d_model=96, decoder_in_channels=[96, 96, 96], decoder_ffn_dim=192, decoder_layers=2,
        decoder_attention_heads=4, num_queries=60, num_denoising=40, attn_implementation="eager",
        **names(LABELS),
    )  # fmt: skip
    model = transformers.RTDetrForObjectDetection(config)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
        elif isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear) and module.weight.count_nonzero():
            nn.init.xavier_uniform_(module.weight)
    nn.init.zeros_(model.model.enc_bbox_head.layers[-1].weight)
    return model.train()


class Batches:
    """Batches of drawn pages, mirrored and in other tones at random."""

    def __init__(self, pages: Pages):
        self.pages = pages
        starts = range(0, len(pages.parts), 100)
        self.pictures = torch.cat([self._resized(pages.pictures[i : i + 100]) for i in starts])

    @staticmethod
    def _resized(pictures: np.ndarray) -> Tensor:
        """Pictures (N,H,W,3) as (N,3,256,192), of bytes."""
        pixels = torch.from_numpy(pictures).permute(0, 3, 1, 2).float()
        smaller = interpolate(pixels, (HEIGHT, WIDTH), mode="bilinear", antialias=True)
        return smaller.round().clamp(0, 255).byte()

    def batch(self, step: int) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """Pixels (B,3,256,192) of 0 to 1, and the parts of each page."""
        random = np.random.default_rng([4, step])
        chosen = random.integers(len(self.pictures), size=BATCH)
        pixels = self.pictures[chosen].float() / 255
        parts = torch.from_numpy(self.pages.parts[chosen])
        mirrored = torch.from_numpy(random.random(BATCH) < 0.5)
        pixels[mirrored] = pixels[mirrored].flip(-1)
        parts[mirrored, :, 1] = 1 - parts[mirrored, :, 1]
        pixels = torch.from_numpy(_pages.toned(random, pixels.numpy()))
        rows = [row[row[:, 0] >= 0] for row in parts]
        return pixels, [{"class_labels": row[:, 0].long(), "boxes": row[:, 1:]} for row in rows]


def loss(model: nn.Module, batches: Batches, step: int) -> Tensor:
    """The loss of the batch of a step."""
    pixels, parts = batches.batch(step)
    torch.manual_seed(step)  # of the denoising's boxes
    with _loop.autocast():
        return model(pixel_values=pixels, labels=parts).loss


@torch.inference_mode()
def detections(folder: Path, pages: Sequence[Page]) -> list[dict[str, Tensor]]:
    """For each page `scores` (N), `labels` (N) and `boxes` (N,4) in pixels, by the checkpoint in `folder`."""
    model = transformers_loading.model_from_pretrained(KIND, folder, dtype=torch.float32).eval()
    processor = transformers_loading.from_pretrained("RTDetrImageProcessorPil", folder)
    result = []
    for one in pages:
        outputs = model(**processor(one.picture, return_tensors="pt"))
        size = [(one.picture.height, one.picture.width)]
        result += processor.post_process_object_detection(outputs, 0.0, size)
    return result


def precisions(pages: Sequence[Page], detected: Sequence[dict[str, Tensor]]) -> np.ndarray:
    """The average precision of each label (L,2): over IoUs of 0.5 to 0.95 (Lin et al. 2014), and at 0.5."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, answers = [], []
    for number, (one, objects) in enumerate(zip(pages, detected, strict=True)):
        for label, box in zip(one.labels, one.boxes.tolist(), strict=True):
            truth.append(_annotation(number, LABELS.index(label), box) | {"id": len(truth) + 1, "iscrowd": 0})
        rows = zip(*(objects[name].tolist() for name in ("labels", "boxes", "scores")), strict=True)
        answers += [_annotation(number, label, box) | {"score": score} for label, box, score in rows]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "images": [{"id": number} for number in range(len(pages))],
            "categories": [{"id": number} for number in range(len(LABELS))],
            "annotations": truth,
        }
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(answers), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
    values = evaluation.eval["precision"][:, :, :, 0, 2]  # IoU, recall, label; all sizes, 100 detections
    return np.stack([values.mean((0, 1)), values[0].mean(0)], axis=1)


def _annotation(image: int, label: int, box: list[float]) -> dict:
    """An object as COCO has it."""
    left, top, right, bottom = box
    size = right - left, bottom - top
    return {"image_id": image, "category_id": label, "bbox": [left, top, *size], "area": size[0] * size[1]}


def write_example(folder: Path, fonts: Path) -> None:
    """Write page.png, in an unseen typeface and 64 colours, and parts.json with its labels and boxes."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = _pages.example(_pages.files(UNSEEN, fonts))
    small = shown.picture.quantize(64, dither=Image.Dither.NONE)
    small.save(folder / "page.png", optimize=True)
    rows = zip(shown.labels, shown.boxes.round(1).tolist(), strict=True)
    lines = ",\n".join(f"  {json.dumps({'label': label, 'box': box})}" for label, box in rows)
    (folder / "parts.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def unseen(count: int, fonts: Path) -> list[Page]:
    """Pages in typefaces that no training page has."""
    faces = _pages.files(UNSEEN, fonts)
    return [_pages.page(np.random.default_rng([1, number]), faces) for number in range(count)]


CARD = """
An RT-DETR of {parameters:,} parameters over a small residual network, with two decoder layers and 60
queries. It finds the headings, paragraphs, tables and figures of a page, of which it reads 192 x 256
pixels.

Data: {count:,} pages drawn by `tools/train/_pages.py`, in twelve typefaces, of one column or two, with tables
with and without rules, charts, diagrams and textures, light and dark, turned by a degree or so, unevenly lit
and noisy. No page is a real one, and their text is random: it is a model for examples and tests. The scores,
those of COCO, are of {tested} further pages in five typefaces that no training page has. `tests/data/pages`
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
    """Train the finder of a page's parts and write its checkpoint to FOLDER."""
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
    transformers.RTDetrImageProcessorPil(size={"width": WIDTH, "height": HEIGHT}).save_pretrained(part)
    pages = unseen(tested, fonts)
    scores = precisions(pages, detections(part, pages))
    rows = {
        f"AP of {label}s, {kind}": f"{score:.2%}"
        for kind, column in (("IoU 0.5", 1), ("IoU 0.5 to 0.95", 0))
        for label, score in zip(LABELS, scores[:, column], strict=True)
    }
    rows |= {"mean AP, IoU 0.5": f"{scores[:, 1].mean():.2%}"}
    rows |= {"mean AP, IoU 0.5 to 0.95": f"{scores[:, 0].mean():.2%}"}
    print(rows, flush=True)
    write_example(example, fonts)
    text = CARD.format(parameters=_loop.parameters(model), count=count, tested=tested)
    title, command = "Tables, figures, headings and paragraphs of pages", "python tools/train/finder.py"
    _loop.write_card(part, title, text, command, rows, EXAMPLES)
    shutil.rmtree(part / "pages", ignore_errors=True)
    _loop.finish(part, folder)


if __name__ == "__main__":
    main()
