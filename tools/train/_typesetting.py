"""Set text and tables on a page: fonts, paragraphs, lists, headings, and tables with and without rules."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from _figures import Box, Canvas, Colour, mixed
from PIL import Image, ImageDraw, ImageFont

VOCABULARY = (  # noqa: SIM905
    "a above after air all an and any are as at back been before below better between both but by can "
    "carry cell change city clear close coast cold could count cross current day degree depth do down "
    "each early east edge effect even every field figure first flow for force form from further garden "
    "green ground grow half harbour has have heat here high hill house how if in increase into is island "
    "it its just keep kind large last later lead length less level light like line long low main many "
    "map mark may mean measure method more morning most mountain much must near new night no north not "
    "now number of off often old on one only open or order other our out over paper part path people "
    "place plain plant point power rain rate reach reading record result rise river road rock same sea "
    "second section season shape short should show side since slope small so soil some sound south "
    "spring station still stone study summer sun surface table temperature than that the their them "
    "then there these they this those through time to town tree two under until up use valley value "
    "very warm was water wave way we weather week well were west when where which while wide will wind "
    "winter with without wood work would year yet"
).split()


@dataclass(frozen=True)
class Typeface:
    """A family of fonts of a Debian package, with its regular and its bold file."""

    package: str
    regular: str
    bold: str


SEEN = (
    Typeface("fonts-dejavu-core", "DejaVuSans.ttf", "DejaVuSans-Bold.ttf"),
    Typeface("fonts-dejavu-core", "DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf"),
    Typeface("fonts-liberation", "LiberationSans-Regular.ttf", "LiberationSans-Bold.ttf"),
    Typeface("fonts-liberation", "LiberationSerif-Regular.ttf", "LiberationSerif-Bold.ttf"),
    Typeface("fonts-liberation", "LiberationSansNarrow-Regular.ttf", "LiberationSansNarrow-Bold.ttf"),
    Typeface("fonts-liberation", "LiberationMono-Regular.ttf", "LiberationMono-Bold.ttf"),
    Typeface("fonts-crosextra-carlito", "Carlito-Regular.ttf", "Carlito-Bold.ttf"),
    Typeface("fonts-lato", "Lato-Regular.ttf", "Lato-Bold.ttf"),
    Typeface("fonts-open-sans", "OpenSans-Regular.ttf", "OpenSans-Bold.ttf"),
    Typeface("fonts-roboto-unhinted", "Roboto-Regular.ttf", "Roboto-Bold.ttf"),
    Typeface("fonts-ebgaramond", "EBGaramond12-Regular.otf", "EBGaramond12-Bold.otf"),
    Typeface("fonts-oldstandard", "OldStandard-Regular.ttf", "OldStandard-Bold.ttf"),
)
UNSEEN = (
    Typeface("fonts-crosextra-caladea", "Caladea-Regular.ttf", "Caladea-Bold.ttf"),
    Typeface("fonts-linuxlibertine", "LinLibertine_R.otf", "LinLibertine_RB.otf"),
    Typeface("fonts-linuxlibertine", "LinBiolinum_R.otf", "LinBiolinum_RB.otf"),
    Typeface("fonts-cantarell", "Cantarell-Regular.otf", "Cantarell-Bold.otf"),
    Typeface("fonts-sil-charis", "CharisSIL-Regular.ttf", "CharisSIL-Bold.ttf"),
)


@dataclass
class Region:
    """A part of a page: its label, and the rectangles that it fills, in pixels."""

    label: str
    rectangles: list[tuple[float, float, float, float]]

    @property
    def bottom(self) -> float:
        """The lowest edge."""
        return max(rectangle[3] for rectangle in self.rectangles)


@dataclass
class Sheet:
    """A page being drawn: its picture, colours and fonts, and the regions so far."""

    picture: Image.Image
    random: np.random.Generator
    paper: Colour
    ink: Colour
    palette: list[Colour]
    regular: Path
    bold: Path
    size: int
    justified: bool
    regions: list[Region] = field(default_factory=list)

    @property
    def draw(self) -> ImageDraw.ImageDraw:
        """Draws on the picture."""
        return ImageDraw.Draw(self.picture)

    def canvas(self) -> Canvas:
        """For a figure."""
        small = font_of(self.regular, max(7, self.size - 2))
        return Canvas(self.picture, self.draw, self.random, small, self.paper, self.ink, self.palette)


@cache
def font_of(path: Path, size: int) -> ImageFont.FreeTypeFont:
    """A font at a size in pixels."""
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


@cache
def _length(path: Path, size: int, text: str) -> float:
    return font_of(path, size).getlength(text)


def sentence(random: np.random.Generator, count: int) -> list[str]:
    """Random terms, capitalised and with stops as sentences have them."""
    terms = [VOCABULARY[i] for i in random.integers(len(VOCABULARY), size=count)]
    starts = True
    for i, stop in enumerate(random.random(count) < 0.08):
        terms[i] = terms[i].capitalize() if starts else terms[i]
        starts = bool(stop) or i == count - 2
        terms[i] += "." if starts and i < count - 2 else "," if random.random() < 0.04 else ""
    return terms


def text(
    sheet: Sheet,
    label: str,
    box: Box,
    terms: Sequence[str],
    path: Path,
    size: int,
    colour: Colour,
    align: str = "left",
    leading: float = 1.3,
) -> float:
    """Set terms in lines into `box` (left, top, right, lowest), as far as they fit; return the bottom."""
    left, top, right, lowest = box
    font, draw, space = font_of(path, size), sheet.draw, _length(path, size, " ")
    lines: list[list[str]] = [[]]
    length = 0.0
    for term in terms:
        width = _length(path, size, term)
        if lines[-1] and length + width > right - left:
            lines.append([])
            length = 0.0
        lines[-1].append(term)
        length += width + space
    step, rectangles, y = round(size * leading), [], float(top)
    for number, line in enumerate(lines):
        if y + step > lowest:
            break
        string = " ".join(line)
        x0, y0, x1, y1 = font.getbbox(string)
        spare = right - left - (x1 - x0)
        shift = {"left": 0.0, "centre": spare / 2, "right": spare}.get(align, 0.0)
        if align == "justified" and number < len(lines) - 1 and len(line) > 1:
            x, gap = float(left), space + max(0.0, spare) / (len(line) - 1)
            for term in line:
                draw.text((x, y), term, font=font, fill=colour)
                x += _length(path, size, term) + gap
            x1 += max(0.0, spare)
        else:
            draw.text((left + shift, y), string, font=font, fill=colour)
        rectangles.append((left + shift + x0, y + y0, min(right, left + shift + x1), y + y1))
        y += step
    if not rectangles:
        return top
    for i in range(len(rectangles) - 1):  # the space between lines is the paragraph's
        rectangles[i] = *rectangles[i][:3], rectangles[i + 1][1]
    sheet.regions.append(Region(label, rectangles))
    return rectangles[-1][3]


def paragraph(sheet: Sheet, box: Box, small: bool = False) -> float:
    """Set a paragraph of one to a dozen lines; return its bottom."""
    size = max(7, sheet.size - 1) if small else sheet.size
    count = int(sheet.random.integers(5, 22) if small else sheet.random.integers(12, 110))
    align = "justified" if sheet.justified else "left"
    if small and sheet.random.random() < 0.4:
        align = "centre"
    leading = float(sheet.random.uniform(1.15, 1.4))
    return text(
        sheet, "paragraph", box, sentence(sheet.random, count), sheet.regular, size, sheet.ink, align, leading
    )


def heading(sheet: Sheet, box: Box, larger: float) -> float:
    """Set a heading in larger or bold letters, at times with a number; return its bottom."""
    random = sheet.random
    terms = [term.strip(".,") for term in sentence(random, int(random.integers(1, 7)))]
    if random.random() < 0.4:
        terms.insert(0, f"{random.integers(1, 9)}.{random.integers(1, 9)}")
    if random.random() < 0.15:
        terms = [term.upper() for term in terms]
    colour = sheet.palette[0] if random.random() < 0.3 else sheet.ink
    align = "centre" if random.random() < 0.2 else "left"
    size = round(sheet.size * larger)
    return text(sheet, "heading", box, terms, sheet.bold, size, colour, align)


def bullets(sheet: Sheet, box: Box) -> float:
    """Set a list with bullets or numbers as one paragraph; return its bottom."""
    left, top, right, lowest = box
    first, y = len(sheet.regions), float(top)
    numbered = sheet.random.random() < 0.5
    for number in range(int(sheet.random.integers(2, 6))):
        before, terms = y, sentence(sheet.random, int(sheet.random.integers(4, 20)))
        inner = left + 2 * sheet.size, round(y), right, lowest
        y = text(sheet, "paragraph", inner, terms, sheet.regular, sheet.size, sheet.ink)
        if y <= before:
            break
        mark, font = f"{number + 1}." if numbered else "•", font_of(sheet.regular, sheet.size)
        sheet.draw.text((left + 2, round(before)), mark, font=font, fill=sheet.ink)
        x, above, _, below = font.getbbox(mark)
        sheet.regions[-1].rectangles.append(
            (left + 2 + x, before + above, left + 2 * sheet.size, before + below)
        )
        y += 0.5 * sheet.size
    items = sheet.regions[first:]
    if not items:
        return top
    sheet.regions[first:] = [Region("paragraph", [one for item in items for one in item.rectangles])]
    return sheet.regions[-1].bottom


def _cell(random: np.random.Generator, numeric: bool) -> str:
    """The text of a cell."""
    if not numeric:
        return " ".join(VOCABULARY[i] for i in random.integers(len(VOCABULARY), size=random.integers(1, 4)))
    value = float(random.lognormal(3, 2))
    return (f"{value:.1f}", f"{value:.0f}", f"{value % 100:.1f} %", f"{value:.2f}")[random.integers(4)]


def table(sheet: Sheet, box: Box) -> float:
    """Draw a table: a grid, rules between its parts, shaded rows, or no rules at all; return its bottom."""
    left, top, right, lowest = box
    random, draw = sheet.random, sheet.draw
    size = max(7, sheet.size - int(random.integers(0, 3)))
    height = round(size * random.uniform(1.4, 2.3))
    rows = min(int(random.integers(3, 15)), (lowest - top) // height)
    columns = int(random.integers(2, max(3, min(8, (right - left) // 45)) + 1))
    if rows < 3:
        return top
    shares = np.cumsum(random.uniform(0.6, 1.6, columns))
    edges = [left, *(round(left + (right - left) * share / shares[-1]) for share in shares)]
    bottom = top + rows * height
    style = ("grid", "rules", "rules", "rows", "zebra", "none", "frame")[random.integers(7)]
    faint, strong = mixed(sheet.paper, sheet.ink, random.uniform(0.15, 0.6)), sheet.ink
    headed = random.random() < 0.85
    filled = headed and style != "none" and random.random() < 0.4
    if filled:
        shade = sheet.palette[1] if random.random() < 0.5 else mixed(sheet.paper, sheet.ink, 0.15)
        draw.rectangle((left, top, right - 1, top + height), fill=shade)
    if style == "zebra":
        tint = mixed(sheet.paper, sheet.palette[2] if random.random() < 0.5 else sheet.ink, 0.12)
        for row in range(int(headed), rows, 2):
            draw.rectangle((left, top + row * height, right - 1, top + (row + 1) * height), fill=tint)
    inks = _cells(sheet, (left, top, right, bottom), edges, height, size, headed)
    levels = {"grid": range(rows + 1), "rows": range(rows + 1), "rules": (0, 1, rows)}.get(style, ())
    for level in levels:
        y = top + level * height
        colour = strong if style == "rules" else faint
        draw.line(
            [(left, y), (right - 1, y)], fill=colour, width=1 + (style == "rules" and level in (0, rows))
        )
    for x in edges if style == "grid" else ():
        draw.line([(min(x, right - 1), top), (min(x, right - 1), bottom)], fill=faint)
    if style == "frame":
        draw.rectangle((left, top, right - 1, bottom), outline=strong)
    region = left, top, right, bottom + 1
    if style == "none":  # nothing but ink says where it ends
        edges = np.array(inks)
        region = (*edges[:, :2].min(0).tolist(), *edges[:, 2:].max(0).tolist())
    sheet.regions.append(Region("table", [region]))
    return float(region[3])


def _cells(sheet: Sheet, box: Box, edges: list[int], height: int, size: int, headed: bool) -> list[tuple]:
    """Write the texts of a table's cells; return the boxes of their ink."""
    random, (_, top, _, bottom) = sheet.random, box
    columns, boxes = len(edges) - 1, []
    numeric = random.random(columns) < 0.65
    numeric[0] = random.random() < 0.2
    aligns = random.integers(3, size=columns)
    for row in range((bottom - top) // height):
        bold = headed and row == 0
        font = font_of(sheet.bold if bold else sheet.regular, size)
        for column in range(columns):
            if random.random() < 0.04:
                continue
            string, room = (
                _cell(random, bool(numeric[column]) and not bold),
                edges[column + 1] - edges[column] - 8,
            )
            while string and font.getlength(string) > room:
                string = string[:-1].rstrip()
            if not string:
                continue
            anchor = "lrm"[aligns[column]] + "m"
            x = (edges[column] + 4, edges[column + 1] - 4, (edges[column] + edges[column + 1]) / 2)
            position = x[aligns[column]], top + (row + 0.5) * height
            sheet.draw.text(position, string, font=font, fill=sheet.ink, anchor=anchor)
            boxes.append(sheet.draw.textbbox(position, string, font=font, anchor=anchor))
    return boxes or [box]
