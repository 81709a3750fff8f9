"""How alike texts are, for a terminal."""

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

WIDEST = 8  # texts of which every pair has a column


def similarity_table(texts: list[str], vectors: np.ndarray, kind: str = "text") -> Table:
    """Cosines of `vectors` (len(texts), W): of every pair, or of each and its nearest for many texts."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.maximum(lengths, 1e-12)
    cosines = units @ units.T
    nearest = (cosines - 3 * np.eye(len(texts))).argmax(axis=1)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column(kind)
    if len(texts) == 1:
        table.add_column("numbers", justify="right")
        table.add_row("1", Text(texts[0]), str(vectors.shape[1]))
        return table
    pairs = len(texts) <= WIDEST
    for name in [str(i + 1) for i in range(len(texts))] if pairs else ["nearest", "cosine"]:
        table.add_column(name, justify="right")
    for i, text in enumerate(texts):
        cells = [Text(f"{c:.2f}", "bold" if j == nearest[i] else "") for j, c in enumerate(cosines[i])]
        if not pairs:
            cells = [Text(str(nearest[i] + 1)), Text(f"{cosines[i, nearest[i]]:.2f}")]
        table.add_row(str(i + 1), Text(text), *cells)
    return table
