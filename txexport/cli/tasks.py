"""Commands for what a bundle's task gives: each is the Model's method of the same name."""

import json
from pathlib import Path
from typing import Any

import click

from txexport.cli import options

TOP_K = click.IntRange(min=1)


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option(
    "--pooling",
    help="mean, cls, max, lasttoken, weightedmean, mean_sqrt_len_tokens. Default: the checkpoint's.",
)
@click.option("--normalize/--no-normalize", default=None, help="Vectors of length 1. Default: as above.")
@options.long_texts
@options.answers
def embed(out: Path, texts: tuple[str, ...], file: Path | None, as_json: bool, **chosen: Any) -> None:
    """Sentence vectors of TEXTS.

    A table of how alike the texts are; the vectors themselves with --json.
    """
    rows = options.lines(texts, file)
    _show_vectors("text", rows, options.run(out, "embed", rows, **chosen), as_json)


def _show_vectors(kind: str, rows: list[str], vectors: Any, as_json: bool) -> None:
    """A line of JSON for each, or a table of how alike they are."""
    if as_json:
        for row, vector in zip(rows, vectors.tolist(), strict=True):
            click.echo(json.dumps({kind: row, "embedding": vector}))
        return
    from txexport.cli.console import Console
    from txexport.cli.similarity_table import similarity_table

    Console().print(similarity_table(rows, vectors, kind))


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option("--pairs", is_flag=True, help="Take texts two by two; in lines, with a tab between them.")
@click.option("--top-k", type=TOP_K, help="How many labels of each (default: all).")
@options.long_texts
@options.answers
def classify(
    out: Path, texts: tuple[str, ...], file: Path | None, pairs: bool, as_json: bool, **chosen: Any
) -> None:
    """Labels of TEXTS, and how likely they are."""
    if pairs:
        asked: list[Any] = options.pairs(texts, file)
        given = [{"first": first, "second": second} for first, second in asked]
    else:
        asked = options.lines(texts, file)
        given = [{"text": text} for text in asked]
    result = options.run(out, "classify", asked, **chosen)
    records = [one | {"labels": labels} for one, labels in zip(given, result, strict=True)]
    options.show(as_json, records, ["first", "second"] if pairs else ["text"], ["label", "score"])


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option(
    "--aggregation",
    type=click.Choice(["simple", "first", "average", "max", "none"]),
    default="simple",
    show_default=True,
    help="How tokens become entities.",
)
@click.option(
    "--stride", type=click.IntRange(min=0), help="Read long texts in windows that share so many tokens."
)
@options.long_texts
@options.answers
def tag(out: Path, texts: tuple[str, ...], file: Path | None, as_json: bool, **chosen: Any) -> None:
    """Entities in TEXTS: names, places, or whatever the checkpoint labels."""
    rows = options.lines(texts, file)
    result = options.run(out, "tag", rows, **chosen)
    records = [{"text": text, "entities": entities} for text, entities in zip(rows, result, strict=True)]
    options.show(as_json, records, ["text"], ["label", "score", "word", "start", "end"])


@click.command()
@options.bundle
@options.texts("QUESTIONS")
@click.option("--context", help="What to look for answers in.")
@click.option(
    "--context-file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The same, from a file; - is standard input.",
)
@click.option("--top-k", type=TOP_K, help="How many answers to each question (default: 1).")
@click.option("--max-answer-len", type=click.IntRange(min=1), help="Most tokens of an answer (default: 15).")
@click.option(
    "--max-seq-len", type=click.IntRange(min=1), help="Tokens of a window (default: 384, or the limit)."
)
@click.option(
    "--doc-stride", type=click.IntRange(min=0), help="Tokens that windows share (default: half, up to 128)."
)
@click.option("--align-to-words/--no-align-to-words", default=True, help="Widen answers to whole words.")
@click.option("--handle-impossible-answer", is_flag=True, help='Let "" say that there is none.')
@options.batch_tokens(2048)
@options.answers
def answer(
    out: Path,
    texts: tuple[str, ...],
    file: Path | None,
    context: str | None,
    context_file: Path | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Answers to QUESTIONS, found in a context.

    Without --context or --context-file, give each question and its context: two by two, or in lines with a
    tab between them.
    """
    if context is not None and context_file is not None:
        raise click.UsageError("give --context or --context-file, not both")
    if context_file is not None:
        context = options.read(context_file)
    if context is not None:
        asked = [(question, context) for question in options.lines(texts, file)]
    else:
        asked = options.pairs(texts, file)
    result = options.run(out, "answer", [one for one, _ in asked], [one for _, one in asked], **chosen)
    records = [{"question": one, "answers": answers} for (one, _), answers in zip(asked, result, strict=True)]
    options.show(as_json, records, ["question"], ["answer", "score", "start", "end"])


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option("--top-k", type=TOP_K, help="How many words for a mask (default: 5).")
@options.long_texts
@options.answers
def fill_mask(out: Path, texts: tuple[str, ...], file: Path | None, as_json: bool, **chosen: Any) -> None:
    """Words for the masks in TEXTS, written as the tokenizer does: [MASK], <mask>."""
    rows = options.lines(texts, file)
    result = options.run(out, "fill_mask", rows, **chosen)
    records = [{"text": text, "words": words} for text, words in zip(rows, result, strict=True)]
    options.show(as_json, records, ["text"], ["token_str", "score", "sequence"])


@click.command()
@options.bundle
@options.texts("TEXTS")
@options.long_texts
@options.answers
def next_sentence(out: Path, texts: tuple[str, ...], file: Path | None, as_json: bool, **chosen: Any) -> None:
    """How likely the second of two TEXTS goes on where the first ends.

    Give them two by two, or in lines with a tab between them.
    """
    asked = options.pairs(texts, file)
    result = options.run(out, "next_sentence", [one for one, _ in asked], [one for _, one in asked], **chosen)
    records = [
        {"first": first, "second": second, "probability": probability}
        for (first, second), probability in zip(asked, result, strict=True)
    ]
    options.show(as_json, records, ["first", "second", "probability"], [])


@click.command()
@options.bundle
@options.texts("QUESTION CHOICES")
@options.long_texts
@options.answers
def choose(out: Path, texts: tuple[str, ...], file: Path | None, as_json: bool, **chosen: Any) -> None:
    """How likely each of the CHOICES goes with QUESTION.

    Lines hold a question and its choices, with tabs between them.
    """
    rows = options.rows(texts, file)
    questions, sets = [row[0] for row in rows], [row[1:] for row in rows]
    result = options.run(out, "choose", questions, sets, **chosen)
    records = []
    for question, choices, probabilities in zip(questions, sets, result, strict=True):
        each = [{"choice": a, "probability": p} for a, p in zip(choices, probabilities, strict=True)]
        records.append({"question": question, "choices": each})
    options.show(as_json, records, ["question"], ["choice", "probability"])


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option("--top-k", type=TOP_K, help="How many labels of each (default: 5).")
@options.batch_size
@options.answers
def classify_image(
    out: Path, texts: tuple[str, ...], file: Path | None, as_json: bool, **chosen: Any
) -> None:
    """Labels of the image files IMAGES, and how likely they are."""
    images = options.lines(texts, file)
    result = options.run(out, "classify_image", images, **chosen)
    records = [{"image": image, "labels": labels} for image, labels in zip(images, result, strict=True)]
    options.show(as_json, records, ["image"], ["label", "score"])


@click.command()
@options.bundle
@options.texts("IMAGES")
@click.option("--pooling", help="cls (default), mean of patches, or pooler; none for CLIP.")
@click.option("--normalize", is_flag=True, help="Vectors of length 1, as CLIP's are.")
@options.batch_size
@options.answers
def embed_image(out: Path, texts: tuple[str, ...], file: Path | None, as_json: bool, **chosen: Any) -> None:
    """Vectors of the image files IMAGES.

    A table of how alike they are; the vectors themselves with --json.
    """
    images = options.lines(texts, file)
    _show_vectors("image", images, options.run(out, "embed_image", images, **chosen), as_json)


@click.command()
@options.bundle
@click.argument("images", nargs=-1, required=True)
@click.option("--text", "texts", multiple=True, help="What may fit; give it again for each text.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The same, from lines; - is standard input.",
)
@click.option(
    "--template", help='What the model reads, with {} for a text, as "a photo of {}." (default: the text).'
)
@options.long_texts
@options.batch_size
@options.answers
def match(
    out: Path,
    images: tuple[str, ...],
    texts: tuple[str, ...],
    file: Path | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """How likely each text is the one that fits, for the image files IMAGES."""
    if bool(texts) == (file is not None):
        raise click.UsageError("give --text TEXT, once for each, or --file FILE")
    result = options.run(out, "match", list(images), options.lines(texts, file), **chosen)
    records = [{"image": image, "labels": labels} for image, labels in zip(images, result, strict=True)]
    options.show(as_json, records, ["image"], ["label", "score"])


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option(
    "--label",
    "candidate_labels",
    multiple=True,
    required=True,
    help="What a text may be of; give it again for each label.",
)
@click.option(
    "--template",
    "hypothesis_template",
    help='What a text says that is of a label {} (default: "This example is {}.").',
)
@click.option("--multi-label", is_flag=True, help="Each label alone; several may fit, or none.")
@options.long_texts
@options.answers
def zero_shot(
    out: Path,
    texts: tuple[str, ...],
    file: Path | None,
    candidate_labels: tuple[str, ...],
    as_json: bool,
    **chosen: Any,
) -> None:
    """How likely each label fits TEXTS, by a model of natural language inference."""
    rows = options.lines(texts, file)
    result = options.run(out, "zero_shot", rows, list(candidate_labels), **chosen)
    records = [{"text": text, "labels": labels} for text, labels in zip(rows, result, strict=True)]
    options.show(as_json, records, ["text"], ["label", "score"])


COMMANDS = (
    embed,
    classify,
    tag,
    answer,
    fill_mask,
    next_sentence,
    choose,
    classify_image,
    embed_image,
    match,
    zero_shot,
)
