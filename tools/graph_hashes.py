"""Print the SHA-256 of every graph that the rows of tests export to; a pure refactoring changes none.

PYTHONPATH=tools:tests python tools/graph_hashes.py --checkpoints FOLDER > before.txt

Checkpoints are stored in FOLDER and reused. A line has a graph's hash, its row and cache, and its file.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

import click
import tiny_checkpoint
from helpers import published
from helpers.encoder_rows import WITHOUT_LIBRARY
from helpers.row import Row
from helpers.rows import ROWS

from txexport.errors import TxexportError
from txexport.exporter import export


def checkpoint(row: Row, folder: Path) -> Path:
    """The row's checkpoint, written if it does not exist."""
    path = folder / row.id.replace("/", "_").replace(" ", "_")
    if not (path / "config.json").exists():
        path.mkdir(parents=True, exist_ok=True)
        if (write := published.WITHOUT_LIBRARY.get(row.model_type)) is not None:
            write(path, row.architecture, **row.config)
        else:
            tiny_checkpoint.save(path, row.model_type, row.architecture, **row.config)
    return path


def hashes(row: Row, cache: str | None, source: Path) -> list[str]:
    """A line for each graph of the row's bundle, or one with the error."""
    label = f"{row.id} [{cache or 'none'}]"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        only = "native" if cache == "dynamic" else None
        try:
            export(source, out, task=row.task, cache=cache, only=only)
        except TxexportError as error:
            return [f"{'-' * 64}  {label}  {error}"]
        lines = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {label}  {path.relative_to(out)}"
            for path in sorted(out.rglob("*.onnx"))
        ]
        shutil.rmtree(out)
    return lines


@click.command(help=__doc__)
@click.option("--checkpoints", type=click.Path(path_type=Path), required=True, help="Folder of checkpoints.")
@click.option("--rows", default="", help="Only rows whose name contains this.")
@click.option("--part", default="1/1", help="K/N: the K-th of N parts, for several processes.")
def main(checkpoints: Path, rows: str, part: str) -> None:
    index, count = map(int, part.split("/"))
    chosen = [row for row in (*ROWS, *WITHOUT_LIBRARY) if rows in row.id]
    for row in chosen[index - 1 :: count]:
        source = checkpoint(row, checkpoints)
        for cache in row.caches:
            print("\n".join(hashes(row, cache, source)), flush=True)


if __name__ == "__main__":
    main()
