"""Commands for what a bundle's task gives: each is the Model's method of the same name."""

from pathlib import Path
from typing import Any

import click

from txexport.cli import inputs, options
from txexport.cli.answers import Answers
from txexport.cli.inputs import Inputs
from txexport.cli.vectors import show_vectors


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option("--prompt-name", help="Which of the checkpoint's prompts goes before TEXTS, as query.")
@click.option("--prompt", help="Another text to go before TEXTS.")
@click.option(
    "--pooling",
    show_default="the checkpoint's",
    help="How tokens become a vector: mean, cls, max, lasttoken, weightedmean or mean_sqrt_len_tokens.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write them here, as they come: a NumPy array of float32 (.npy), a row each.",
)
@click.option(
    "--normalize/--no-normalize",
    default=None,
    show_default="the checkpoint's",
    help="Vectors of length 1.",
)
@click.option(
    "--truncate-dim",
    type=click.IntRange(min=1),
    show_default="all",
    help="How many numbers of each, from the first.",
)
@options.long_texts
@options.answers(options.TEXTS)
def embed(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Sentence vectors of TEXTS.

    A table of how alike the texts are; the vectors themselves with --json or --output.
    """
    asked = answers.ask(inputs.lines(texts, file), "embed", **chosen)
    show_vectors("text", asked, answers, output)


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option("--pairs", is_flag=True, help="Take texts two by two; in lines, with a tab between them.")
@click.option("--top-k", type=options.TOP_K, show_default="all", help="How many labels of each.")
@options.long_texts
@options.answers(options.TEXTS)
def classify(answers: Answers, texts: tuple[str, ...], file: Path | None, pairs: bool, **chosen: Any) -> None:
    """Labels of TEXTS, and how likely they are."""
    asked = (inputs.pairs if pairs else inputs.lines)(texts, file)
    names = ["first", "second"] if pairs else ["text"]

    def record(given: Any, labels: Any) -> dict[str, Any]:
        return dict(zip(names, given if pairs else [given], strict=True)) | {"labels": labels}

    answers.show(answers.ask(asked, "classify", **chosen), record, names, ["label", "score"])


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
@options.answers(options.TEXTS)
def tag(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Entities in TEXTS: names, places, or whatever the checkpoint labels."""
    asked = answers.ask(inputs.lines(texts, file), "tag", **chosen)
    answers.show(
        asked,
        lambda text, given: {"text": text, "entities": given},
        ["text"],
        ["label", "score", "word", "start", "end"],
    )


@click.command()
@options.bundle
@options.texts("QUESTIONS")
@click.option("--context", help="What to look for answers in.")
@click.option(
    "--context-file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The same, from a file; - is standard input.",
)
@click.option(
    "--top-k", type=options.TOP_K, default=1, show_default=True, help="How many answers to each question."
)
@click.option(
    "--max-answer-len",
    type=click.IntRange(min=1),
    default=15,
    show_default=True,
    help="Most tokens of an answer.",
)
@click.option(
    "--max-seq-len", type=click.IntRange(min=1), show_default="384, or the limit", help="Tokens of a window."
)
@click.option(
    "--doc-stride",
    type=click.IntRange(min=0),
    show_default="half, up to 128",
    help="Tokens that windows share.",
)
@click.option(
    "--align-to-words/--no-align-to-words",
    default=True,
    show_default=True,
    help="Widen answers to whole words.",
)
@click.option("--handle-impossible-answer", is_flag=True, help='Let "" say that there is none.')
@options.batch_tokens(2048)
@options.answers(options.TEXTS)
def answer(
    answers: Answers,
    texts: tuple[str, ...],
    file: Path | None,
    context: str | None,
    context_file: Path | None,
    **chosen: Any,
) -> None:
    """Answers to QUESTIONS, found in a context.

    Without --context or --context-file, give each question and its context: two by two, or in lines with a
    tab between them.
    """
    if context is not None and context_file is not None:
        raise click.UsageError("give --context or --context-file, not both")
    if context_file is not None:
        context = inputs.text_of(context_file)
    if context is None:
        asked = answers.ask(inputs.pairs(texts, file), "answer", **chosen)
    else:
        questions = inputs.lines(texts, file, beside=context)
        asked = answers.ask(questions, "answer", **chosen)
    answers.show(
        asked,
        lambda given, found: {"question": given[0], "answers": found},
        ["question"],
        ["answer", "score", "start", "end"],
    )


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option("--top-k", type=options.TOP_K, default=5, show_default=True, help="How many words for a mask.")
@options.long_texts
@options.answers(options.TEXTS)
def fill_mask(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Words for the masks in TEXTS, written as the tokenizer does: [MASK], <mask>."""
    asked = answers.ask(inputs.lines(texts, file), "fill_mask", **chosen)
    answers.show(
        asked,
        lambda text, given: {"text": text, "words": given},
        ["text"],
        ["token_str", "score", "sequence"],
    )


@click.command()
@options.bundle
@options.texts("TEXTS")
@options.long_texts
@options.answers(options.TEXTS)
def next_sentence(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """How likely the second of two TEXTS goes on where the first ends.

    Give them two by two, or in lines with a tab between them.
    """
    asked = answers.ask(inputs.pairs(texts, file), "next_sentence", **chosen)
    names = ["first", "second", "probability"]
    answers.show(asked, lambda given, share: dict(zip(names, [*given, share], strict=True)), names, [])


@click.command()
@options.bundle
@options.texts("QUESTION CHOICES")
@options.long_texts
@options.answers(options.TEXTS)
def choose(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """How likely each of the CHOICES goes with QUESTION.

    Lines hold a question and its choices, with tabs between them.
    """
    asked = inputs.choices(texts, file)

    def record(given: Any, shares: Any) -> dict[str, Any]:
        each = [{"choice": a, "probability": p} for a, p in zip(given[1], shares, strict=True)]
        return {"question": given[0], "choices": each}

    windows = answers.ask(asked, "choose", **chosen)
    answers.show(windows, record, ["question"], ["choice", "probability"])


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
    default="This example is {}.",
    show_default=True,
    help="What a text says that is of a label {}.",
)
@click.option("--multi-label", is_flag=True, help="Each label alone; several may fit, or none.")
@options.long_texts
@options.answers(options.TEXTS)
def zero_shot(
    answers: Answers,
    texts: tuple[str, ...],
    file: Path | None,
    candidate_labels: tuple[str, ...],
    **chosen: Any,
) -> None:
    """How likely each label fits TEXTS, by a model of natural language inference."""
    asked = answers.ask(inputs.lines(texts, file), "zero_shot", list(candidate_labels), **chosen)
    answers.show(asked, lambda text, given: {"text": text, "labels": given}, ["text"], ["label", "score"])


@click.command()
@options.bundle
@click.argument("queries", nargs=-1, required=True)
@click.option("--document", "documents", multiple=True, help="One to rank; give it again for each.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The same, from lines; - is standard input.",
)
@click.option("--top-k", type=options.TOP_K, show_default="all", help="How many documents of each query.")
@options.long_texts
@options.answers(options.TEXTS)
def rerank(
    answers: Answers, queries: tuple[str, ...], documents: tuple[str, ...], file: Path | None, **chosen: Any
) -> None:
    """How well each document answers QUERIES, the best first, by a model that reads both together."""
    if bool(documents) == (file is not None):
        raise click.UsageError("give --document TEXT, once for each, or --file FILE")
    candidates = inputs.listed(inputs.lines(documents, file))
    asked = answers.ask(Inputs(queries, None), "rerank", candidates, return_documents=True, **chosen)
    answers.show(
        asked,
        lambda query, given: {"query": query, "documents": given},
        ["query"],
        ["corpus_id", "score", "text"],
    )
