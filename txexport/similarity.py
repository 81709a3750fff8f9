"""How alike texts are, for a terminal."""

import numpy as np
from rich.table import Table


def similarity_table(texts: list[str], vectors: np.ndarray) -> Table:
    """Cosine of every pair of `vectors` (len(texts), W); each row's nearest other text stands out."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = (vectors / lengths) @ (vectors / lengths).T
    others = cosines - 2 * np.eye(len(texts))
    table = Table(title=f"cosine similarity of {vectors.shape[1]} numbers each", title_justify="left")
    table.add_column("")
    table.add_column("text")
    for i in range(len(texts)):
        table.add_column(str(i + 1), justify="right")
    for i, text in enumerate(texts):
        nearest = int(others[i].argmax())
        cells = [f"[bold]{c:.2f}[/]" if j == nearest != i else f"{c:.2f}" for j, c in enumerate(cosines[i])]
        table.add_row(str(i + 1), text, *cells)
    return table
