"""A table of cosine similarities, for a terminal."""

import numpy as np
from rich.text import Text

from txexport.support.printable import line
from txexport.support.terminal import FittedTable, number

WIDEST = 8  # with up to this number of texts, the table has every pair


def similarity_table(texts: list[str], vectors: np.ndarray, kind: str = "text") -> FittedTable:
    """Cosines of `vectors` (len(texts), W): of every pair, or for many texts of each with its nearest."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.maximum(lengths, 1e-12)
    cosines = units @ units.T
    nearest = (cosines - 3 * np.eye(len(texts))).argmax(axis=1)
    if len(texts) == 1:
        table = FittedTable(number(""), kind, number("numbers"))
        table.add_row("1", line(texts[0]), str(vectors.shape[1]))
        return table
    pairs = len(texts) <= WIDEST
    titles = [str(i + 1) for i in range(len(texts))] if pairs else ["nearest", "cosine"]
    table = FittedTable(number(""), kind, *map(number, titles))
    for i, text in enumerate(texts):
        cells = [Text(f"{c:.2f}", "bold" if j == nearest[i] else "") for j, c in enumerate(cosines[i])]
        if not pairs:
            cells = [Text(str(nearest[i] + 1)), Text(f"{cosines[i, nearest[i]]:.2f}")]
        table.add_row(str(i + 1), line(text), *cells)
    return table
