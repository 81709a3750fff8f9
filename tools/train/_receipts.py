"""Drawn lines of text, tables and receipts, as a camera sees them, with where each letter is.

The typefaces are those of _typesetting.py; _pages.py names their Debian packages.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _pages import HEIGHT, WIDTH, colour
from _typesetting import VOCABULARY, Sheet, font_of, sentence, text
from num2words import num2words
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFilter, ImageOps

SQUARE = 16  # pixels a side of what is one token
QUESTIONS = WRITTEN, TOTAL, DATE = "What is written here?", "What is the total?", "What is the date?"
MONTHS = (  # noqa: SIM905
    "January February March April May June July August September October November December"
).split()
GOODS = (  # noqa: SIM905
    "apples beer bread butter cake carrots cheese chocolate coffee eggs fish flour grapes honey jam juice "
    "lemons milk mushrooms nuts oil olives onions oranges pasta pepper pizza potatoes rice salad salt soap "
    "soup sugar tea tomatoes towel water wine yoghurt paper pens candles batteries stamps plums cream corn"
).split()
SHOPS = (  # noqa: SIM905
    "Market Bakery Kiosk Books Garden Corner Harbour Station Grocer Cafe Dairy Pharmacy Tools Store Shop"
).split()
TOTALS = ("Total", "TOTAL", "Sum", "Amount due", "To pay")
KINDS = ("line", "receipt")
SIZES = 13, 21  # pixels of a letter's height: the least, and the most and 1


class Piece(NamedTuple):
    """A string at a place: its left edge and its middle, in pixels."""

    string: str
    x: float
    y: float
    bold: bool = False


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


class Face(NamedTuple):
    """A regular and a bold file at a size."""

    regular: Path
    bold: Path
    size: int

    def length(self, string: str, bold: bool = False) -> float:
        """The width of a string in pixels."""
        return font_of(self.bold if bold else self.regular, self.size).getlength(string)


def one(random: Generator, choices: Sequence) -> str:
    """A random one."""
    return choices[random.integers(len(choices))]


def number(random: Generator) -> str:
    """A number in words, of one to four digits."""
    return num2words(int(10 ** random.uniform(0, 4)))


def date(random: Generator) -> str:
    """A day of this century or the last, in one of seven forms."""
    year, month, day = (
        int(random.integers(1950, 2050)),
        int(random.integers(1, 13)),
        int(random.integers(1, 29)),
    )
    name = MONTHS[month - 1]
    return (
        f"{day} {name} {year}", f"{name} {day}, {year}", f"{year}-{month:02}-{day:02}",
        f"{day:02}/{month:02}/{year}", f"{day:02}.{month:02}.{year}", f"{day} {name[:3]} {year}",
        f"{name} {year}",
    )[random.integers(7)]  # fmt: skip


def amount(random: Generator) -> str:
    """A price, most often below 100."""
    return f"{np.exp(random.normal(2.2, 1.3)):.2f}"


def phrase(random: Generator) -> str:
    """One to four terms."""
    terms = [one(random, VOCABULARY) for _ in range(random.integers(1, 5))]
    form = random.random()
    if form < 0.35:
        terms[0] = terms[0].capitalize()
    elif form < 0.5:
        terms = [term.capitalize() for term in terms]
    elif form < 0.6:
        terms = [term.upper() for term in terms]
    if random.random() < 0.25:
        terms.insert(0, f"{random.integers(1, 10)}.{random.integers(1, 10)}")
    return " ".join(terms) + ("", "", "", ".", ":", "?")[random.integers(6)]


def code(random: Generator) -> str:
    """Random letters and digits, so that letters are read, not guessed."""
    letters = ("0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789-/.,:%")
    return "".join(one(random, one(random, letters)) for _ in range(random.integers(3, 11)))


def priced(random: Generator) -> str:
    """A term with an amount."""
    sign = ("", "", "EUR ", "$", "€")[random.integers(5)]
    return (
        f"{one(random, (*GOODS, *TOTALS)).capitalize()}{one(random, (':', ' ', ''))} {sign}{amount(random)}"
    )


def item(random: Generator) -> str:
    """The name of something to buy."""
    name = one(random, GOODS)
    return (name, name.capitalize(), name.capitalize(), f"{random.integers(2, 10)} {name}")[
        random.integers(4)
    ]


def line(random: Generator, face: Face) -> tuple[list[list[Piece]], float]:
    """One line of text, and its height."""
    kinds = (number, number, date, phrase, phrase, code, priced)
    string = kinds[random.integers(len(kinds))](random)
    height = face.size * random.uniform(1.0, 2.2)
    return [[Piece(string, 0.0, height / 2, bool(random.random() < 0.3))]], height


class Receipt(NamedTuple):
    """The lines of a receipt or a table, its height, its rules, and the pieces of its date and total."""

    lines: list[list[Piece]]
    height: float
    rules: list[tuple[float, float, float, float]]
    date: Piece | None
    total: Piece


def receipt(random: Generator, face: Face, column: int | None = None) -> Receipt:
    """A head or a date, one to three items with prices, and their total; without lines, or as a table.

    In a `column` of that many pixels it is a table without a head.
    """
    step = face.size * random.uniform(1.2, 1.9)
    left: list[str] = []
    headed, dated = random.random() < 0.45 and not column, random.random() < 0.6 and not column
    if headed:
        left.append(f"{one(random, VOCABULARY).capitalize()} {one(random, SHOPS)}")
    if dated:
        left.append(date(random))
    first, count = len(left), int(random.integers(1, 4))
    table = bool(column) or random.random() < 0.5
    names = random.random() < 0.3
    cents = [round(100 * float(amount(random))) for _ in range(count)]
    left += ["Item"] * names + [item(random) for _ in range(count)] + [one(random, TOTALS)]
    right = [""] * first + ["Price"] * names + [f"{c / 100:.2f}" for c in (*cents, sum(cents))]
    bold = [(headed and i == 0) or (i == len(left) - 1 and random.random() < 0.5) for i in range(len(left))]
    gap = face.size * random.uniform(1, 3 if random.random() < 0.6 else 8)
    goods = [face.length(s, b) for s, b in zip(left[first:], bold[first:], strict=True)]
    prices = [face.length(s, b) for s, b in zip(right, bold, strict=True)]
    inner = face.size * random.uniform(0.2, 0.6) if table else 0.0
    edge = max(goods) + gap if not column else column - 2 * inner - max(prices)
    width = max(edge + max(prices), *(face.length(s, b) for s, b in zip(left, bold, strict=True)))
    flush = random.random() < 0.8
    lines = []
    for i, (name, price) in enumerate(zip(left, right, strict=True)):
        y = (i + 0.5) * step
        pieces = [Piece(name, inner, y, bold[i])]
        if price:
            x = width - prices[i] if flush else edge
            pieces.append(Piece(price, inner + x, y, bold[i]))
        lines.append(pieces)
    top, bottom, right_edge = first * step, len(left) * step, width + 2 * inner
    style = ("grid", "rules", "rows", "frame", "none")[random.integers(5)] if table else "receipt"
    levels = {
        "grid": range(first, len(left) + 1), "rows": range(first, len(left) + 1),
        "rules": (first, first + names, len(left)), "receipt": (len(left) - 1,) * (random.random() < 0.5),
    }.get(style, ())  # fmt: skip
    rules = [(0.0, level * step, right_edge, level * step) for level in levels]
    if style in ("grid", "frame"):
        rules += [(x, top, x, bottom) for x in (0.0, right_edge)]
    if style == "frame":
        rules += [(0.0, y, right_edge, y) for y in (top, bottom)]
    if style == "grid":
        middle = inner + (max(goods) + (edge if not flush else width - max(prices))) / 2
        rules.append((middle, top, middle, bottom))
    return Receipt(lines, bottom, rules, lines[first - 1][0] if dated else None, lines[-1][1])


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
