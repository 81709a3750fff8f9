"""Commands that rank pages for queries. They call the Model's methods of the same names."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from txexport.cli import inputs, options
from txexport.cli.answers import Answered, Answers
from txexport.cli.inputs import Inputs
from txexport.errors import InputError
from txexport.support.replaced import replaced

output = click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write the vectors to this .npz file: an array (tokens, numbers) of each input, by its number.",
)


@click.command()
@options.bundle
@options.texts("IMAGES")
@output
@options.batch_size
@options.batch_tokens(2048)
@options.answers(options.IMAGES)
def embed_pages(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Compute a vector for each token of pages, the image files IMAGES, for late interaction.

    Prints the numbers of vectors; --json gives them, --output writes them to a file.
    """
    show_arrays("image", answers.ask(inputs.lines(texts, file), "embed_pages", **chosen), answers, output)


@click.command()
@options.bundle
@options.texts("QUERIES")
@output
@options.batch_tokens(2048)
@options.answers(options.TEXTS)
def embed_queries(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Compute a vector for each token of QUERIES, for late interaction with pages.

    Prints the numbers of vectors; --json gives them, --output writes them to a file.
    """
    show_arrays("query", answers.ask(inputs.lines(texts, file), "embed_queries", **chosen), answers, output)


@click.command()
@options.bundle
@click.argument("queries", nargs=-1, required=True)
@click.option("--image", "images", multiple=True, help="Image file of a page; repeatable.")
@click.option(
    "--vectors",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that embed-pages --output wrote, in place of images.",
)
@click.option("--top-k", type=options.TOP_K, show_default="all", help="Number of pages for each query.")
@options.batch_size
@options.batch_tokens(2048)
@options.answers(options.TEXTS)
def rank_pages(
    answers: Answers, queries: tuple[str, ...], images: tuple[str, ...], vectors: Path | None, **chosen: Any
) -> None:
    """Rank pages by relevance to QUERIES, by late interaction with their images."""
    if bool(images) == (vectors is not None):
        raise click.UsageError("give --image FILE for each page, or --vectors FILE")
    pages: Sequence[Any]
    top_k, sizes = chosen.pop("top_k"), {name: one for name, one in chosen.items() if one is not None}
    model = answers.load()
    model.rank_pages([], [], top_k=top_k, **sizes)  # checks the task and options before pages are read
    if vectors is None:  # each page is read once, for all queries
        pages, names = [*model.embed_pages([*images], **sizes)], [*images]
    else:
        pages, names = _read(vectors)

    def ask(values: Sequence, _first: int = 0, **progress: Any) -> Sequence:
        return model.rank_pages([*values], pages, top_k=top_k, **sizes, **progress)

    inputs = Inputs(queries, None)
    windows = answers.windows(inputs, iter(inputs), ask)

    def record(query: Any, ranked: Any) -> dict[str, Any]:
        return {"query": query, "pages": [one | {"page": names[one["corpus_id"]]} for one in ranked]}

    answers.show(windows, record, ["query"], ["corpus_id", "score", "page"])


def show_arrays(kind: str, windows: Iterator[list[Answered]], answers: Answers, file: Path | None) -> None:
    """Write vectors to `file`, print them as JSON, or print how many each input has."""
    if file is not None:
        if answers.as_json:
            raise click.UsageError("give --json or --output, not both")
        _write(windows, file)
        return

    def record(value: Any, vectors: Any) -> dict[str, Any]:
        if answers.as_json:
            return {kind: value, "embeddings": vectors.tolist()}
        return {kind: value, "vectors": [{"tokens": len(vectors), "numbers": vectors.shape[1]}]}

    answers.show(windows, record, [kind], ["tokens", "numbers"])


def _write(windows: Iterator[list[Answered]], file: Path) -> None:
    """Write an array for each input, by its number; inputs that were skipped have none."""
    with replaced(file) as stream, zipfile.ZipFile(stream, "w") as archive:
        for window in windows:
            for one, vectors in window:
                if not isinstance(vectors, Exception):
                    with archive.open(f"{one.number}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, np.asarray(vectors, "<f4"), allow_pickle=False)


def _read(file: Path) -> tuple[list[np.ndarray], list[str]]:
    """The vectors of pages, and their numbers. Raises InputError for another kind of file."""
    from txexport.runtime.arrays import read_npz

    arrays = read_npz(file, InputError)
    others = [name for name, one in arrays.items() if one.dtype.kind != "f" or one.ndim != 2]
    if others or not arrays:
        content = f"{others[0]} of another kind" if others else "nothing"
        raise InputError(
            f"{file} has {content}, expected vectors (T, V) of each page, as embed-pages writes them"
        )
    return list(arrays.values()), list(arrays)
