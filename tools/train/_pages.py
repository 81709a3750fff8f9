"""Drawn pages with headings, paragraphs, tables and figures, as a scanner sees them, and what is where.

apt-get install fonts-dejavu-core fonts-liberation fonts-crosextra-carlito fonts-lato fonts-open-sans \\
    fonts-roboto-unhinted fonts-ebgaramond fonts-oldstandard fonts-crosextra-caladea fonts-linuxlibertine \\
    fonts-cantarell fonts-sil-charis
"""

import colorsys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from _figures import Box, Colour, figure, mixed
from _typesetting import Region, Sheet, Typeface, bullets, heading, paragraph, table
from PIL import Image, ImageDraw, ImageFilter

WIDTH, HEIGHT = 560, 800  # pixels of a page
SMALL = 224, 320  # width and height of the pictures of the training pages
LABELS = ("heading", "paragraph", "table", "figure")
MOST = 40  # parts of a page
EXAMPLE = 80  # of the random pages
FONTS = Path("/usr/share/fonts")
FOLDER = Path(__file__).parents[2] / "tests/data/pages"  # of the example


def options(command: Callable) -> Callable:
    """The options of recipes that train on pages."""
    folder = click.Path(path_type=Path)
    for option in (
        click.option("--example", type=folder, default=FOLDER, help="Folder of an example."),
        click.option("--fonts", type=folder, default=FONTS, help="Folder of fonts."),
        click.option("--cache", type=folder, help="Folder that keeps the pages."),
        click.option("--tested", default=500, show_default=True, help="Pages to evaluate on."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Page:
    """A picture, and its parts: labels, and boxes (N,4) of left, upper, right and lower edge in pixels.

    `areas` is a picture of the same size: a pixel is 1 more than the number of its label, or 0.
    """

    picture: Image.Image
    labels: list[str]
    boxes: np.ndarray
    areas: Image.Image


def files(typefaces: Sequence[Typeface], folder: Path) -> list[tuple[Path, Path]]:
    """The regular and the bold file of each typeface, anywhere in a folder.

    Raises ClickException that names the package of a font that is missing.
    """
    present = {path.name: path for path in sorted(folder.rglob("*.[to]tf"))}
    for face in typefaces:
        if not {face.regular, face.bold} <= present.keys():
            raise click.ClickException(f"{folder} has no {face.regular}: apt-get install {face.package}")
    return [(present[face.regular], present[face.bold]) for face in typefaces]


def colour(random: np.random.Generator, saturation: float, value: float) -> Colour:
    """A colour of random hue."""
    red, green, blue = colorsys.hsv_to_rgb(random.random(), saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def _sheet(random: np.random.Generator, fonts: Sequence[tuple[Path, Path]]) -> Sheet:
    """An empty page with random colours and fonts; 15 % are dark."""
    dark = random.random() < 0.15
    paper = colour(random, random.uniform(0, 0.12), random.uniform(0.93, 1.0))
    ink = colour(random, random.uniform(0, 0.6), random.uniform(0, 0.3))
    if random.random() < 0.4:
        paper, ink = (255, 255, 255), (0, 0, 0)
    if dark:
        paper = colour(random, random.uniform(0, 0.4), random.uniform(0.05, 0.2))
        ink = colour(random, random.uniform(0, 0.1), random.uniform(0.75, 1.0))
    colourful = random.random() < 0.75
    saturation = random.uniform(0.3, 0.9) if colourful else 0.0
    palette = [colour(random, saturation, random.uniform(0.3, 0.9)) for _ in range(5)]
    regular, bold = fonts[random.integers(len(fonts))]
    picture = Image.new("RGB", (WIDTH, HEIGHT), paper)
    size = int(random.integers(9, 14))
    return Sheet(picture, random, paper, ink, palette, regular, bold, size, bool(random.random() < 0.5))


def _captioned(sheet: Sheet, box: Box, kind: str) -> float:
    """Put a table or figure, often with a caption above or below; return the bottom."""
    random, (left, top, right, lowest) = sheet.random, box
    if random.random() < 0.4:
        margin = round((right - left) * random.uniform(0.03, 0.2))
        left, right = left + margin, right - margin
    where = random.random()  # below a caption, above one, or without
    y = top
    if where < 0.3:
        y = round(paragraph(sheet, (left, top, right, lowest), small=True)) + int(random.integers(5, 12))
    before = len(sheet.regions)
    if kind == "table":
        bottom = table(sheet, (left, y, right, lowest))
    else:
        height = round((right - left) * random.uniform(0.35, 0.95))
        bottom = float(min(y + max(70, min(height, 330)), lowest))
        if bottom - y < 60 or right - left < 90:
            return float(y)
        figure(sheet.canvas(), (left, y, right, round(bottom)))
        sheet.regions.append(Region("figure", [(left, y, right, bottom)]))
    if where > 0.65 and len(sheet.regions) > before:
        below = left, round(bottom) + int(random.integers(4, 11)), right, lowest
        bottom = max(bottom, paragraph(sheet, below, small=True))
    return bottom


def _column(sheet: Sheet, box: Box) -> None:
    """Fill a column from the top with random parts."""
    left, top, right, lowest = box
    random, y, after_heading = sheet.random, float(top), False
    gap = int(random.integers(8, 20))
    end = lowest if random.random() < 0.8 else round(top + (lowest - top) * random.uniform(0.3, 0.9))
    rates = random.dirichlet([4, 1.3, 0.8, 2.2, 2.2])
    while y < end - 3 * sheet.size:
        kind = ("paragraph", "heading", "list", "table", "figure")[random.choice(5, p=rates)]
        if kind == "heading" and after_heading:
            kind = "paragraph"
        place = left, round(y), right, end
        if kind in ("table", "figure"):
            bottom = _captioned(sheet, place, kind)
        elif kind == "heading":
            bottom = heading(sheet, place, random.uniform(1.05, 1.5))
        else:
            bottom = (bullets if kind == "list" else paragraph)(sheet, place)
        after_heading = kind == "heading"
        y = max(bottom, y + 4) + (gap if not after_heading else max(6, gap // 2))


def _furniture(sheet: Sheet, box: Box) -> None:
    """At times a running title, a page number, and rules, which are no part of any kind."""
    random, draw = sheet.random, sheet.draw
    left, top, right, bottom = box
    canvas = sheet.canvas()
    grey = mixed(sheet.paper, sheet.ink, 0.6)
    if random.random() < 0.4:
        draw.text(
            (right, bottom + 14), str(random.integers(1, 400)), font=canvas.font, fill=grey, anchor="rt"
        )
    if random.random() < 0.3:
        draw.text((left, top - 14), "annual report", font=canvas.font, fill=grey, anchor="lb")
        draw.line([(left, top - 10), (right, top - 10)], fill=grey)


def page(random: np.random.Generator, fonts: Sequence[tuple[Path, Path]], scanned: bool = True) -> Page:
    """A random page of one column or two."""
    sheet = _sheet(random, fonts)
    margin = int(random.integers(22, 60))
    left, top, right, bottom = margin, int(random.integers(28, 64)), WIDTH - margin, HEIGHT - margin
    _furniture(sheet, (left, top, right, bottom))
    if random.random() < 0.35:
        top = round(heading(sheet, (left, top, right, bottom), random.uniform(1.5, 2.3))) + 14
    if random.random() < 0.45:
        _column(sheet, (left, top, right, bottom))
    else:
        if random.random() < 0.35:
            kind = "table" if random.random() < 0.5 else "figure"
            top = round(_captioned(sheet, (left, top, right, bottom), kind)) + 16
        gutter, middle = int(random.integers(7, 15)), (left + right) // 2
        _column(sheet, (left, top, middle - gutter, bottom))
        _column(sheet, (middle + gutter, top, right, bottom))
        if random.random() < 0.15:
            sheet.draw.line([(middle, top), (middle, bottom)], fill=mixed(sheet.paper, sheet.ink, 0.4))
    return scan(sheet, scanned)


def _placement(random: np.random.Generator) -> np.ndarray:
    """A rotation by about a degree with a change of scale and place, (2,3)."""
    angle = np.deg2rad(random.normal(0, 0.8)) if random.random() < 0.6 else 0.0
    scale = random.uniform(0.92, 1.12) if random.random() < 0.6 else 1.0
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = np.array([WIDTH, HEIGHT]) / 2
    shift = random.normal(0, 8, 2) if scale != 1 else np.zeros(2)
    return np.column_stack([turn, middle - turn @ middle + shift])


def scan(sheet: Sheet, scanned: bool) -> Page:
    """The page as a scanner sees it: turned a little, unevenly lit, blurred, and noisy."""
    random, picture = sheet.random, sheet.picture
    placement = _placement(random) if scanned else np.eye(2, 3)
    if scanned:
        inverse = np.linalg.inv(np.vstack([placement, [0, 0, 1]]))[:2]
        picture = picture.transform(
            picture.size, Image.Transform.AFFINE, inverse.ravel().tolist(), Image.Resampling.BILINEAR,
            fillcolor=sheet.paper if random.random() < 0.7 else (30, 30, 30),
        )  # fmt: skip
        picture = _lit(random, picture)
    labels, boxes, areas = [], [], Image.new("L", picture.size)
    for region in sheet.regions:
        corners = [
            np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) @ placement[:, :2].T + placement[:, 2]
            for x0, y0, x1, y1 in region.rectangles
        ]
        for one in corners:
            ImageDraw.Draw(areas).polygon([*map(tuple, one)], fill=LABELS.index(region.label) + 1)
        low, high = np.min(corners, axis=(0, 1)), np.max(corners, axis=(0, 1))
        edges = np.concatenate([low, high]).clip(0, [WIDTH, HEIGHT] * 2)
        visible = np.prod(edges[2:] - edges[:2]) / np.prod(high - low)
        if visible > 0.4 and min(edges[2:] - edges[:2]) >= 4:
            labels.append(region.label)
            boxes.append(edges)
    return Page(picture, labels, np.array(boxes).reshape(-1, 4), areas)


def _lit(random: np.random.Generator, picture: Image.Image) -> Image.Image:
    """Blur, a shadow, less contrast, and noise, each at times."""
    if random.random() < 0.3:
        picture = picture.filter(ImageFilter.GaussianBlur(random.uniform(0.4, 1.2)))
    values = np.asarray(picture).astype(np.float32)
    if random.random() < 0.3:
        corners = random.uniform(0.75, 1.0, (2, 2)).astype(np.float32)
        shade = np.asarray(Image.fromarray(corners).resize(picture.size, Image.Resampling.BILINEAR))
        values *= shade[:, :, None]
    if random.random() < 0.4:
        values = 128 + (values - 128) * random.uniform(0.6, 1.0) + random.uniform(-15, 15)
    if random.random() < 0.4:
        grain = random.standard_normal((HEIGHT, WIDTH, 1), np.float32)
        values += grain * random.uniform(3, 14)
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


@dataclass(frozen=True)
class Pages:
    """Small pictures (N,320,224,3), their areas (N,320,224), and their parts (N,MOST,5).

    A part is the number of its label and its box in shares of the page: centre, width and height. The rest of
    the MOST rows have the label -1.
    """

    pictures: np.ndarray
    areas: np.ndarray
    parts: np.ndarray


def _arrays(folder: Path, count: int) -> Pages:
    """Arrays in the files of a folder, new where there are none."""
    width, height = SMALL
    arrays = []
    for name, kind, shape in (
        ("pictures", np.uint8, (height, width, 3)),
        ("areas", np.uint8, (height, width)),
        ("parts", np.float32, (MOST, 5)),
    ):
        path = folder / f"{name}.npy"
        mode = "r+" if path.is_file() else "w+"
        arrays.append(np.lib.format.open_memmap(path, mode, kind, (count, *shape)))
    return Pages(*arrays)


def parts_of(drawn: Page) -> np.ndarray:
    """The parts of a page, (MOST,5), as `Pages` has them."""
    result = np.full((MOST, 5), -1, np.float32)
    size = np.array([WIDTH, HEIGHT])
    low, high = drawn.boxes[:, :2] / size, drawn.boxes[:, 2:] / size
    rows = np.column_stack([[LABELS.index(label) for label in drawn.labels], (low + high) / 2, high - low])
    result[: len(rows)] = rows[:MOST]
    return result


def pages(folder: Path, seed: int, count: int, fonts: Sequence[tuple[Path, Path]]) -> Pages:
    """Draw `count` pages into a folder, or go on where an earlier call was interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    result, log = _arrays(folder, count), folder / "drawn.txt"
    first = int(log.read_text()) if log.is_file() else 0
    for number in range(first, count):
        drawn = page(np.random.default_rng([seed, number]), fonts)
        result.pictures[number] = np.asarray(drawn.picture.resize(SMALL, Image.Resampling.BILINEAR))
        result.areas[number] = np.asarray(drawn.areas.resize(SMALL, Image.Resampling.NEAREST))
        result.parts[number] = parts_of(drawn)
        if number % 500 == 499 or number == count - 1:
            log.write_text(str(number + 1))
            print(f"{number + 1} of {count} pages in {folder}", flush=True)
    return result


def toned(random: np.random.Generator, pixels: np.ndarray) -> np.ndarray:
    """Pixels (B,3,H,W) of 0 to 1 with other contrasts and colours; one page in ten is a negative."""
    size = len(pixels), 1, 1, 1
    negative = random.random(size) < 0.1
    pixels = np.where(negative, 1 - pixels, pixels)
    gain, colour = random.uniform(0.75, 1.15, size), random.uniform(0.92, 1.08, (size[0], 3, 1, 1))
    pixels = (pixels - 0.5) * gain + 0.5 + random.uniform(-0.1, 0.1, size)
    return (pixels * colour).clip(0, 1).astype(np.float32)


def example(fonts: Sequence[tuple[Path, Path]]) -> Page:
    """The page that the guide shows, equal at each call."""
    return page(np.random.default_rng([2, EXAMPLE]), fonts)
