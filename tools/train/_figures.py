"""Drawn figures for pages: charts, diagrams, maps of heat, and pictures that look like photographs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Canvas:
    """A picture to draw a figure on, with a font for labels and the colours of lines and data."""

    picture: Image.Image
    draw: ImageDraw.ImageDraw
    random: np.random.Generator
    font: ImageFont.FreeTypeFont
    paper: Colour
    ink: Colour
    palette: list[Colour]


def mixed(first: Colour, second: Colour, share: float) -> Colour:
    """A colour between two: `share` of the second."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def figure(canvas: Canvas, box: Box) -> None:
    """Draw a figure of a random kind that reaches the edges of `box`."""
    kind = KINDS[canvas.random.integers(len(KINDS))]
    kind(canvas, box)


def _axes(canvas: Canvas, box: Box) -> Box:
    """Draw axes or a frame with ticks and labels; return the box inside."""
    draw, random = canvas.draw, canvas.random
    left, top, right, bottom = box
    size = round(canvas.font.size)
    inside = left + 2 * size + 4, top + 1, right - 1, bottom - size - 5
    framed = random.random() < 0.5
    if framed:
        draw.rectangle(inside, outline=canvas.ink)
    else:
        draw.line([(inside[0], top), (inside[0], inside[3]), (right, inside[3])], fill=canvas.ink)
    ticks, grid = int(random.integers(3, 7)), random.random() < 0.5
    for number in range(ticks):
        share = number / (ticks - 1)
        y = round(inside[3] + (inside[1] - inside[3]) * share)
        x = round(inside[0] + (inside[2] - inside[0]) * share)
        if grid and 0 < number < ticks - 1:
            draw.line([(inside[0], y), (inside[2], y)], fill=mixed(canvas.paper, canvas.ink, 0.2))
        draw.line([(inside[0] - 3, y), (inside[0], y)], fill=canvas.ink)
        height = min(max(y - size // 2, top), inside[3] - size)
        draw.text((left, height), str(number * 10), font=canvas.font, fill=canvas.ink)
        draw.text(
            (min(x, right - 2 * size), bottom - size - 2), str(number), font=canvas.font, fill=canvas.ink
        )
    draw.point([(left, bottom - 1), (right - 1, top)], fill=canvas.ink)
    return inside


def _bars(canvas: Canvas, box: Box) -> None:
    left, top, right, bottom = _axes(canvas, box)
    groups, series = int(canvas.random.integers(3, 9)), int(canvas.random.integers(1, 4))
    step = (right - left) / groups
    for group in range(groups):
        for number in range(series):
            height = canvas.random.uniform(0.1, 0.95) * (bottom - top)
            x = left + step * (group + 0.15 + 0.7 * number / series)
            bar = x, bottom - height, x + max(2, 0.65 * step / series), bottom
            outline = canvas.ink if groups % 2 else None
            canvas.draw.rectangle(bar, fill=canvas.palette[number], outline=outline)


def _lines(canvas: Canvas, box: Box) -> None:
    left, top, right, bottom = _axes(canvas, box)
    count = int(canvas.random.integers(5, 40))
    for number in range(int(canvas.random.integers(1, 5))):
        heights = np.cumsum(canvas.random.normal(size=count))
        heights = (heights - heights.min()) / max(np.ptp(heights), 1e-6)
        across = np.linspace(left + 3, right - 3, count)
        points = [*zip(across.tolist(), (bottom - 4 - heights * (bottom - top - 8)).tolist(), strict=True)]
        width = int(canvas.random.integers(1, 4))
        canvas.draw.line(points, fill=canvas.palette[number], width=width)
        for x, y in points if number % 2 and count < 15 else []:
            canvas.draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=canvas.palette[number])


def _scatter(canvas: Canvas, box: Box) -> None:
    left, top, right, bottom = _axes(canvas, box)
    for number in range(int(canvas.random.integers(1, 4))):
        centre, spread = canvas.random.uniform(0.25, 0.75, 2), canvas.random.uniform(0.05, 0.2)
        points = centre + spread * canvas.random.normal(size=(int(canvas.random.integers(15, 80)), 2))
        radius = int(canvas.random.integers(1, 4))
        for x, y in points.clip(0.03, 0.97):
            x, y = left + x * (right - left), top + y * (bottom - top)
            canvas.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=canvas.palette[number])


def _pie(canvas: Canvas, box: Box) -> None:
    left, top, right, bottom = box
    side = min(right - left, bottom - top) - 1
    x, y = (left + right - side) / 2, (top + bottom - side) / 2
    shares = canvas.random.dirichlet(np.full(int(canvas.random.integers(3, 7)), 2.0)) * 360
    start = canvas.random.uniform(0, 360)
    for number, share in enumerate(shares):
        colour = canvas.palette[number % len(canvas.palette)]
        canvas.draw.pieslice(
            (x, y, x + side, y + side), start, start + share, fill=colour, outline=canvas.paper
        )
        start += share
    if canvas.random.random() < 0.4:
        hole = side * 0.28
        middle = (x + hole, y + hole, x + side - hole, y + side - hole)
        canvas.draw.ellipse(middle, fill=canvas.paper)
    canvas.draw.rectangle((left, top, right - 1, bottom - 1), outline=mixed(canvas.paper, canvas.ink, 0.35))


def _heat(canvas: Canvas, box: Box) -> None:
    left, top, right, bottom = box
    rows, columns = (int(n) for n in canvas.random.integers(4, 14, 2))
    values = canvas.random.random((rows, columns))
    for row in range(rows):
        for column in range(columns):
            colour = mixed(canvas.palette[0], canvas.palette[1], values[row, column])
            x = [left + (right - left - 1) * (column + one) / columns for one in (0, 1)]
            y = [top + (bottom - top - 1) * (row + one) / rows for one in (0, 1)]
            canvas.draw.rectangle((x[0], y[0], x[1], y[1]), fill=colour)


def _diagram(canvas: Canvas, box: Box) -> None:
    """Boxes with names, joined by arrows."""
    left, top, right, bottom = box
    draw, random = canvas.draw, canvas.random
    rows, columns = int(random.integers(1, 4)), int(random.integers(2, 5))
    width, height = (right - left) / columns, (bottom - top) / rows
    names = ("input", "encoder", "loss", "cache", "output", "sum", "mask", "head")
    for row in range(rows):
        for column in range(columns):
            x, y = left + column * width, top + row * height
            inner = [x + 0.12 * width, y + 0.22 * height, x + 0.8 * width, y + 0.78 * height]
            inner[0] = left if column == 0 else inner[0]
            inner[1] = top if row == 0 else inner[1]
            inner[2] = right - 1 if column == columns - 1 else inner[2]
            inner[3] = bottom - 1 if row == rows - 1 else inner[3]
            fill = canvas.palette[(row + column) % 3] if random.random() < 0.6 else canvas.paper
            if random.random() < 0.7:
                draw.rounded_rectangle(
                    inner, radius=int(random.integers(0, 9)), fill=fill, outline=canvas.ink
                )
            else:
                draw.ellipse(inner, fill=fill, outline=canvas.ink)
            name = names[random.integers(len(names))]
            middle = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
            ink = canvas.ink if fill == canvas.paper else (255, 255, 255)
            draw.text(middle, name, font=canvas.font, fill=ink, anchor="mm")
            if column < columns - 1:
                end = x + 1.12 * width
                draw.line([(inner[2], middle[1]), (end, middle[1])], fill=canvas.ink)
                draw.polygon(
                    [(end, middle[1]), (end - 5, middle[1] - 3), (end - 5, middle[1] + 3)], fill=canvas.ink
                )


def _photograph(canvas: Canvas, box: Box) -> None:
    """Noise of several scales in two colours, at times under a horizon with hills and a sun."""
    left, top, right, bottom = box
    random, size = canvas.random, (right - left, bottom - top)
    total = np.zeros((size[1], size[0]), np.float32)
    for octave in range(5):
        coarse = random.random((2 ** (octave + 1), 2 ** (octave + 1))).astype(np.float32)
        total += np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)) / 1.7**octave
    total = (total - total.min()) / max(float(np.ptp(total)), 1e-6)
    dark, light = (random.integers(low, low + 110, 3) for low in (10, 140))
    picture = Image.fromarray((dark + (light - dark) * total[:, :, None]).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    if random.random() < 0.5:
        radius, x, y = 0.08 * size[0], *(random.uniform(0.15, 0.5, 2) * size)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(250, 235, 190))
        for number in range(3):
            heights = size[1] * (0.5 + 0.15 * number + 0.12 * random.random(9))
            ridge = [*zip(np.linspace(0, size[0], 9).tolist(), heights.tolist(), strict=True)]
            shade = mixed(tuple(dark.tolist()), tuple(light.tolist()), 0.5 - 0.2 * number)
            draw.polygon([(0, size[1]), *ridge, (size[0], size[1])], fill=shade)
    canvas.picture.paste(picture, (left, top))


KINDS: tuple[Callable[[Canvas, Box], None], ...] = (
    _bars, _lines, _scatter, _pie, _heat, _diagram, _photograph, _photograph,
)  # fmt: skip
