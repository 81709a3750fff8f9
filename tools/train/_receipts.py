"""Drawn lines of text, tables and receipts, as a camera sees them, with where each letter is.

The typefaces are those of _typesetting.py; _pages.py names their Debian packages.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _composing import SHOPS, Face, Piece, line, one, receipt
from _pages import HEIGHT, WIDTH, colour
from _typesetting import VOCABULARY, Sheet, font_of, sentence, text
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFilter, ImageOps

SQUARE = 16  # pixels a side of what is one token
QUESTIONS = WRITTEN, TOTAL, DATE = "What is written here?", "What is the total?", "What is the date?"
KINDS = ("line", "receipt")
SIZES = 13, 21  # pixels of a letter's height: the least, and the most and 1


class Answer(NamedTuple):
    """A question, the text of its answer, and where each letter of it is, (N,3): x and y of its middle, and
    its width, in pixels."""

    question: str
    text: str
    letters: np.ndarray


class Print(NamedTuple):
    """A picture whose sides are whole squares, and what may be asked about it."""

    picture: Image.Image
    answers: list[Answer]


@cache
def _advances(face: Face, bold: bool, letter: str) -> float:
    return face.length(letter, bold)


def _centres(face: Face, piece: Piece) -> np.ndarray:
    """The middle and the width of each letter of a piece, (N,3)."""
    steps = np.array([_advances(face, piece.bold, letter) for letter in piece.string])
    return np.column_stack([piece.x + np.cumsum(steps) - steps / 2, np.full(len(steps), piece.y), steps])


def _answer(question: str, face: Face, lines: Sequence[Sequence[Piece]]) -> Answer:
    """The text of lines; a gap between pieces and the end of a line are where the piece before ends."""
    texts, letters = [], []
    for number_, pieces in enumerate(lines):
        for column, piece in enumerate(pieces):
            if number_ or column:
                texts.append("\n" if not column else " ")
                letters.append(letters[-1][-1:])
            texts.append(piece.string)
            letters.append(_centres(face, piece))
    return Answer(question, "".join(texts), np.concatenate(letters))


def _whole(size: float) -> int:
    return SQUARE * int(np.ceil(size / SQUARE))


def draw(random: Generator, fonts: Sequence[tuple[Path, Path]], kind: str, seen: bool = True) -> Print:
    """A random print: a `line` or a `receipt`; `seen` through a camera."""
    regular, bold = fonts[random.integers(len(fonts))]
    face = Face(regular, bold, int(random.integers(*SIZES)))
    rules: list = []
    if kind == "receipt":
        drawn = receipt(random, face)
        lines, height, rules = drawn.lines, drawn.height, drawn.rules
        answers = [_answer(WRITTEN, face, lines), _answer(TOTAL, face, [[drawn.total]])]
        if drawn.date:
            answers.append(_answer(DATE, face, [[drawn.date]]))
    else:
        lines, height = line(random, face)
        answers = [_answer(WRITTEN, face, lines)]
    width = max([p.x + face.length(p.string, p.bold) for ps in lines for p in ps] + [r[2] for r in rules])
    scale = np.array([random.uniform(0.88, 1.12) if seen and random.random() < 0.6 else 1.0, 1.0])
    slant = random.uniform(-0.05, 0.25) if seen and random.random() < 0.25 else 0.0
    turn = np.deg2rad(random.normal(0, 0.7)) if seen and random.random() < 0.4 else 0.0
    matrix = np.array([[np.cos(turn), np.sin(turn) - slant], [-np.sin(turn), np.cos(turn)]]) * scale[:, None]
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]]) @ matrix.T
    low, size = corners.min(0), np.ptp(corners, axis=0)
    margins = random.uniform(2, 14, 4) if seen else np.full(4, 6.0)
    if len(lines) == 1:
        margins[1::2] *= 0.5
    sides = _whole(size[0] + margins[0] + margins[2]), _whole(size[1] + margins[1] + margins[3])
    shift = margins[:2] - low + (np.array(sides) - size - margins[:2] - margins[2:]) * random.random(2)
    mask = _mask(random, face, lines, rules, matrix, shift, sides)
    picture = _coloured(random, mask, seen)
    for answer in answers:
        answer.letters[:, :2] = answer.letters[:, :2] @ matrix.T + shift
    return Print(picture, answers)


def _mask(
    random: Generator,
    face: Face,
    lines: Sequence[Sequence[Piece]],
    rules: Sequence[tuple[float, float, float, float]],
    matrix: np.ndarray,
    shift: np.ndarray,
    sides: tuple[int, int],
) -> Image.Image:
    """A grey picture of the ink, 255 where it is full, on which a point x is at matrix x + shift."""
    upright = np.array_equal(matrix, np.eye(2))
    left, top = origin = shift if upright else np.array(sides) / 2
    result = Image.new("L", sides if upright else (2 * sides[0], 2 * sides[1]))
    pen, faint = ImageDraw.Draw(result), int(random.integers(64, 240))
    for x0, y0, x1, y1 in rules:
        pen.line([(x0 + left, y0 + top), (x1 + left, y1 + top)], fill=faint)
    for piece in (piece for pieces in lines for piece in pieces):
        font = font_of(face.bold if piece.bold else face.regular, face.size)
        pen.text((piece.x + left, piece.y + top), piece.string, font=font, fill=255, anchor="lm")
    if upright:
        return result
    inverse = np.linalg.inv(matrix)
    data = np.column_stack([inverse, origin - inverse @ shift]).ravel().tolist()
    return result.transform(sides, Image.Transform.AFFINE, data, Image.Resampling.BILINEAR)


def _coloured(random: Generator, mask: Image.Image, seen: bool) -> Image.Image:
    """Ink on paper, one in ten dark; at times blurred, of less contrast, and noisy."""
    paper, ink = (255, 255, 255), (0, 0, 0)
    if random.random() < 0.6:
        paper = colour(random, random.uniform(0, 0.15), random.uniform(0.9, 1))
        ink = colour(random, 0.5, random.uniform(0, 0.35))
        if random.random() < 0.17:
            paper = colour(random, 0.4, random.uniform(0.05, 0.3))
            ink = colour(random, 0.1, random.uniform(0.8, 1))
    if seen and random.random() < 0.25:
        mask = mask.filter(ImageFilter.GaussianBlur(random.uniform(0.3, 0.8)))
    share = np.asarray(mask).astype(np.float32)[:, :, None] / 255
    values = np.array(paper, np.float32) + share * (np.array(ink, np.float32) - np.array(paper, np.float32))
    if seen and random.random() < 0.4:
        values = 128 + (values - 128) * random.uniform(0.6, 1.0) + random.uniform(-15, 15)
    if seen and random.random() < 0.3:
        values += random.standard_normal(share.shape, np.float32) * random.uniform(2, 10)
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


class Bill(NamedTuple):
    """A table of a page: its heading, and the total."""

    heading: str
    total: str


def page(random: Generator, files: tuple[Path, Path]) -> tuple[Image.Image, list[Bill]]:
    """A page of two columns, with two tables each below a heading and a paragraph, and its tables."""
    regular, bold = files
    black, white = (0, 0, 0), (255, 255, 255)
    sheet = Sheet(
        Image.new("RGB", (WIDTH, HEIGHT), white), random, white, black, [black] * 5, regular, bold, 12, False
    )
    bills = []
    for left in (44, 296):
        y, right = 48.0, left + 220
        for _ in range(2):
            title = [one(random, VOCABULARY).capitalize(), one(random, SHOPS)]
            y = text(sheet, "heading", (left, round(y), right, HEIGHT), title, bold, 16, black) + 12
            y = _prose(sheet, left, y, right) + 16
            while len((drawn := receipt(random, face := Face(regular, bold, 14), 218)).lines) < 4:
                pass
            size = 220, int(drawn.height) + 3
            mask = _mask(random, face, drawn.lines, drawn.rules, np.eye(2), np.ones(2), size)
            sheet.picture.paste(ImageOps.invert(mask), (left, round(y)))
            bills.append(Bill(" ".join(title), drawn.total.string))
            y = _prose(sheet, left, y + mask.height + 16, right) + 34
    return sheet.picture, bills


def _prose(sheet: Sheet, left: int, y: float, right: int) -> float:
    """A short paragraph from y on; its bottom."""
    terms = sentence(sheet.random, 25)
    return text(sheet, "paragraph", (left, round(y), right, HEIGHT), terms, sheet.regular, 11, sheet.ink)
