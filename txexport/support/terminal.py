"""Tables that fit the width of the terminal; in a pipe they have full width.

If a table is too wide, its `apart` columns become lines above their rows, then texts are broken into several
lines at the ends of words and parts of names, and then columns continue in a second table below.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions
from rich.text import Text

GAP = 3
NARROWEST = 14  # the minimum width of a column of texts
PIECE = re.compile(r"[^\s/._:,=-]*(?:[/._:,=-]+\s*|\s+|$)")


@dataclass(frozen=True)
class Column:
    """A column of numbers, aligned right and never broken, or a column of texts.

    An `apart` column has the same value for several consecutive rows.
    """

    title: str = ""
    number: bool = False
    apart: bool = False


class FittedTable:
    """Rows and columns; a title alone is a column of texts."""

    def __init__(self, *columns: Column | str):
        self.columns = [Column(one) if isinstance(one, str) else one for one in columns]
        self.rows: list[list[Text]] = []

    def add_row(self, *cells: Text | str) -> None:
        """Add a row; missing cells are empty."""
        row = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
        self.rows.append(row + [Text()] * (len(self.columns) - len(row)))

    def add_section(self) -> None:
        """Add an empty row."""
        self.add_row()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The lines, for rich."""
        every = range(len(self.columns))
        kept_columns = [place for place in every if not self.columns[place].apart]
        widths = [self._widest(place) for place in every]
        shown = list(every) if _across(widths) <= options.max_width else kept_columns
        for part in self._parts(shown, options.max_width):
            yield Text()
            yield from self._lines(part, self._widths(part, options.max_width), options.max_width)
        yield Text()

    def _widest(self, place: int) -> int:
        texts = [self.columns[place].title, *(row[place].plain for row in self.rows)]
        return max(map(cell_len, texts))

    def _parts(self, shown: Sequence[int], width: int) -> list[list[int]]:
        """The columns of each table, as many as fit with texts at their minimum width."""
        parts = [[shown[0]]]
        for place in shown[1:]:
            if _across([self._narrowest(one) for one in (*parts[-1], place)]) > width and parts[-1][1:]:
                parts.append([shown[0]])
            parts[-1].append(place)
        return parts

    def _narrowest(self, place: int) -> int:
        if not self.columns[place].number:
            return min(self._widest(place), NARROWEST)
        title = [piece.rstrip() for piece in PIECE.findall(self.columns[place].title)]
        return max(map(cell_len, [*title, *(row[place].plain for row in self.rows)]))

    def _widths(self, part: Sequence[int], width: int) -> list[int]:
        """The widths of columns; the column in which the fewest cells are broken shrinks first."""
        sizes = [[cell_len(row[place].plain) for row in self.rows] for place in part]
        widths = [self._widest(place) for place in part]
        least = [self._narrowest(place) for place in part]

        def broken(column: int) -> tuple[int, int]:
            return sum(size >= widths[column] for size in sizes[column]), -widths[column]

        while _across(widths) > width:
            wide = [column for column, size in enumerate(widths) if size > least[column]]
            if not wide:
                break
            widths[min(wide, key=broken)] -= 1
        return widths

    def _lines(self, part: Sequence[int], widths: Sequence[int], width: int) -> Iterator[Text]:
        yield from self._line([Text(self.columns[place].title) for place in part], part, widths, "bold")
        yield Text(" " + "─" * (_across(widths) - 1))
        previous = None
        for row in self.rows:
            common = ", ".join(self._apart(row, part))
            if common and common != previous:
                yield from (Text(f" {line}", "dim") for line in folded(common, width - 1))
            previous = common or previous
            yield from self._line([row[place] for place in part], part, widths)

    def _apart(self, row: Sequence[Text], part: Sequence[int]) -> Iterator[str]:
        """The cells of a row in the columns that are laid out separately."""
        for place, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
            if column.apart and place not in part and cell.plain:
                yield f"{column.title}: {cell.plain}"

    def _line(
        self, cells: Sequence[Text], part: Sequence[int], widths: Sequence[int], style: str = ""
    ) -> Iterator[Text]:
        """The lines of one row."""
        parts = [folded(cell.plain, width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(map(len, parts))):
            line = Text(" ")
            for place, cell, texts, width in zip(part, cells, parts, widths, strict=True):
                text = texts[number] if number < len(texts) else ""
                space = " " * (width - cell_len(text))
                right = self.columns[place].number
                line.append(space if right else "")
                line.append(text, cell.style or style)
                line.append("" if right else space)
                line.append(" " * GAP)
            line.rstrip()
            yield line


def number(title: str) -> Column:
    """A column of numbers."""
    return Column(title, number=True)


def folded(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken after words and parts of names; longer words are cut."""
    lines = [""]
    for piece in PIECE.findall(text):
        if cell_len(lines[-1] + piece.rstrip()) > width and lines[-1]:
            lines.append("")
        *cut, last = chop_cells(piece, width) if cell_len(piece.rstrip()) > width else [piece]
        lines[-1:] = [*cut, last] if cut else [lines[-1] + last]
    return [line.rstrip() for line in lines]


def _across(widths: Sequence[int]) -> int:
    return 1 + sum(widths) + GAP * (len(widths) - 1)


class Notes:
    """Texts too long for a table, listed below it once each, by number."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}

    def mark(self, text: str) -> str:
        """The number of a text, as a table cell."""
        return f"({self._texts.setdefault(text, len(self._texts) + 1)})"

    def lines(self) -> list[Text]:
        """The texts, a line each."""
        return [Text(f"({place}) {text}") for text, place in self._texts.items()]
