"""Lines of text, tables and receipts, composed at random: strings at places, and rules."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _typesetting import VOCABULARY, font_of
from num2words import num2words
from numpy.random import Generator

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


class Piece(NamedTuple):
    """A string at a place: its left edge and its middle, in pixels."""

    string: str
    x: float
    y: float
    bold: bool = False


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
