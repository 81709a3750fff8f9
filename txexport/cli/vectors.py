"""Output of embeddings: lines of JSON, an array in a file, or a table of similarities."""

import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np

from txexport.cli.answers import NOTHING, Answered, Answers
from txexport.errors import InputError
from txexport.support.replaced import replaced

MOST = 1024  # vectors in a table of similarities
OTHERS = {".csv", ".tsv", ".txt", ".json", ".jsonl", ".npz", ".parquet"}  # formats that are not written
HEADER = 128  # bytes before the numbers in NumPy's format 1.0, with room for any number of rows


def show_vectors(kind: str, windows: Iterator[list[Answered]], answers: Answers, output: Path | None) -> None:
    """Write vectors to `output` one by one, or print them as JSON, or print a table of similarities."""
    if output is not None:
        if answers.as_json:
            raise click.UsageError("give --json or --output, not both")
        if output.suffix.lower() in OTHERS:
            raise click.UsageError(f"--output {output} ends in '{output.suffix}', expected .npy")
        signal.signal(
            signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
        )  # so that the temporary file is removed
        _write(windows, output)
    elif answers.as_json:
        answers.show(windows, lambda text, vector: {kind: text, "embedding": vector.tolist()}, [], [])
    else:
        _print_similarities(kind, windows)


def _print_similarities(kind: str, windows: Iterator[list[Answered]]) -> None:
    """Print a table of the inputs that have vectors. Raises InputError for too many of them."""
    from txexport.cli.console import Console
    from txexport.cli.similarity_table import similarity_table

    good: list[Answered] = []
    for window in windows:
        good += [(one, vector) for one, vector in window if not isinstance(vector, Exception)]
        if len(good) > MOST:
            raise InputError(
                f"more than {MOST:,} vectors, the most that the table of similarities compares; "
                "write the vectors with --output vectors.npy or --json"
            )
    if good:
        vectors = np.stack([vector for _, vector in good])
        Console(highlight=False).print(similarity_table([one.value for one, _ in good], vectors, kind))


def _write(windows: Iterator[list[Answered]], output: Path) -> None:
    """Write a float32 array (N,W) with a row for each input, NaN for skipped ones."""
    rows = 0
    with replaced(output) as stream:
        stream.write(b"\0" * HEADER)
        for window in windows:
            for _, vector in window:
                skipped = isinstance(vector, Exception)
                row = np.full(_width(), np.nan, "<f4") if skipped else np.asarray(vector, "<f4")
                stream.write(row.tobytes())
                rows += 1
        stream.seek(0)
        stream.write(_header((rows, _width())))


def _width() -> int:
    """The width of a vector, known from the first window on, and where there was no input."""
    width: int = click.get_current_context().meta[NOTHING].shape[1]
    return width


def _header(shape: Sequence[int]) -> bytes:
    """The header of an array in NumPy's format 1.0."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape[0]}, {shape[1]}), }}"
    start = np.lib.format.magic(1, 0)
    length = HEADER - len(start) - 2
    return start + length.to_bytes(2, "little") + text.ljust(length - 1).encode("ascii") + b"\n"
