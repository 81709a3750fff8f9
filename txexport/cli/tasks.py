"""Commands for tasks on texts. Each calls the Model's method of the same name."""

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
@click.option("--prompt-name", help="Name of the checkpoint's prompt to put before TEXTS, such as query.")
@click.option("--prompt", help="Prompt to put before TEXTS.")
@click.option(
    "--pooling",
    show_default="the checkpoint's",
    help="Pooling of the tokens: mean, cls, max, lasttoken, weightedmean or mean_sqrt_len_tokens.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the vectors to this file: a float32 NumPy array (.npy), a row for each text.",
)
@click.option(
    "--normalize/--no-normalize",
    default=None,
    show_default="the checkpoint's",
    help="L2-normalise the vectors.",
)
@click.option(
    "--truncate-dim",
    type=click.IntRange(min=1),
    show_default="all",
    help="Keep this number of dimensions, from the first.",
)
@options.long_texts
@options.answers(options.TEXTS)
def embed(
    answers: Answers, texts: tuple[str, ...], file: Path | None, output: Path | None, **chosen: Any
) -> None:
    """Embed TEXTS.

    Prints a table of cosine similarities. --json or --output give the vectors.
    """
    windows = answers.ask(inputs.lines(texts, file), "embed", **chosen)
    show_vectors("text", windows, answers, output)


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option(
    "--pairs",
    is_flag=True,
    help="Classify pairs: consecutive arguments, or lines with a tab between the texts.",
)
@click.option("--top-k", type=options.TOP_K, show_default="all", help="Number of labels for each.")
@options.long_texts
@options.answers(options.TEXTS)
def classify(answers: Answers, texts: tuple[str, ...], file: Path | None, pairs: bool, **chosen: Any) -> None:
    """Classify TEXTS: labels with their probabilities."""
    entries = (inputs.pairs if pairs else inputs.lines)(texts, file)
    names = ["first", "second"] if pairs else ["text"]

    def record(value: Any, labels: Any) -> dict[str, Any]:
        return dict(zip(names, value if pairs else [value], strict=True)) | {"labels": labels}

    answers.show(answers.ask(entries, "classify", **chosen), record, names, ["label", "score"])


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option(
    "--aggregation",
    type=click.Choice(["simple", "first", "average", "max", "none"]),
    default="simple",
    show_default=True,
    help="Merging of tokens into entities, as in transformers.",
)
@click.option(
    "--stride",
    type=click.IntRange(min=0),
    help="Split long texts into windows that overlap by this number of tokens.",
)
@options.long_texts
@options.answers(options.TEXTS)
def tag(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Find the entities in TEXTS."""
    windows = answers.ask(inputs.lines(texts, file), "tag", **chosen)
    answers.show(
        windows,
        lambda text, entities: {"text": text, "entities": entities},
        ["text"],
        ["label", "score", "word", "start", "end"],
    )


@click.command()
@options.bundle
@options.texts("QUESTIONS")
@click.option("--context", help="Text that contains the answers.")
@click.option(
    "--context-file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File with the context; - for standard input.",
)
@options.spans("to each question", "384, or the limit", 128)
@click.option(
    "--align-to-words/--no-align-to-words",
    default=True,
    show_default=True,
    help="Extend answers to word boundaries.",
)
@click.option(
    "--handle-impossible-answer", is_flag=True, help='Allow the answer "" for a question without an answer.'
)
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
    """Extract answers to QUESTIONS from a context.

    Without --context or --context-file, give pairs of a question and its context: consecutive arguments, or
    lines with a tab between them.
    """
    if context is not None and context_file is not None:
        raise click.UsageError("give --context or --context-file, not both")
    if context_file is not None:
        context = inputs.text_of(context_file)
    if context is None:
        windows = answers.ask(inputs.pairs(texts, file), "answer", **chosen)
    else:
        questions = inputs.lines(texts, file, second=context)
        windows = answers.ask(questions, "answer", **chosen)
    answers.show(
        windows,
        lambda pair, spans: {"question": pair[0], "answers": spans},
        ["question"],
        ["answer", "score", "start", "end"],
    )


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option(
    "--top-k", type=options.TOP_K, default=5, show_default=True, help="Number of tokens for each mask."
)
@options.long_texts
@options.answers(options.TEXTS)
def fill_mask(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Predict the masked tokens in TEXTS. A mask is the tokenizer's: [MASK] or <mask>."""
    windows = answers.ask(inputs.lines(texts, file), "fill_mask", **chosen)
    answers.show(
        windows,
        lambda text, tokens: {"text": text, "words": tokens},
        ["text"],
        ["token_str", "score", "sequence"],
    )


@click.command()
@options.bundle
@options.texts("TEXTS")
@options.long_texts
@options.answers(options.TEXTS)
def next_sentence(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Score whether the second text of each pair follows the first: a probability.

    Pairs are consecutive arguments, or lines with a tab between the texts.
    """
    windows = answers.ask(inputs.pairs(texts, file), "next_sentence", **chosen)
    names = ["first", "second", "probability"]
    answers.show(windows, lambda pair, share: dict(zip(names, [*pair, share], strict=True)), names, [])


@click.command()
@options.bundle
@options.texts("QUESTION CHOICES")
@options.long_texts
@options.answers(options.TEXTS)
def choose(answers: Answers, texts: tuple[str, ...], file: Path | None, **chosen: Any) -> None:
    """Score each of the CHOICES for QUESTION: their probabilities.

    A line has a question and its choices, separated by tabs.
    """
    questions = inputs.choices(texts, file)

    def record(value: Any, shares: Any) -> dict[str, Any]:
        question, choices = value
        each = [{"choice": a, "probability": p} for a, p in zip(choices, shares, strict=True)]
        return {"question": question, "choices": each}

    windows = answers.ask(questions, "choose", **chosen)
    answers.show(windows, record, ["question"], ["choice", "probability"])


@click.command()
@options.bundle
@options.texts("TEXTS")
@click.option(
    "--label",
    "candidate_labels",
    multiple=True,
    required=True,
    help="Candidate label; repeatable.",
)
@click.option(
    "--template",
    "hypothesis_template",
    default="This example is {}.",
    show_default=True,
    help="Hypothesis about a text; {} is the label.",
)
@click.option(
    "--multi-label", is_flag=True, help="Score each label independently: several may apply, or none."
)
@options.long_texts
@options.answers(options.TEXTS)
def zero_shot(
    answers: Answers,
    texts: tuple[str, ...],
    file: Path | None,
    candidate_labels: tuple[str, ...],
    **chosen: Any,
) -> None:
    """Classify TEXTS by any labels, with a model of natural language inference."""
    windows = answers.ask(inputs.lines(texts, file), "zero_shot", list(candidate_labels), **chosen)
    answers.show(windows, lambda text, labels: {"text": text, "labels": labels}, ["text"], ["label", "score"])


@click.command()
@options.bundle
@click.argument("queries", nargs=-1, required=True)
@click.option("--document", "documents", multiple=True, help="Document to rank; repeatable.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File with one document per line; - for standard input.",
)
@click.option("--top-k", type=options.TOP_K, show_default="all", help="Number of documents for each query.")
@options.long_texts
@options.answers(options.TEXTS)
def rerank(
    answers: Answers, queries: tuple[str, ...], documents: tuple[str, ...], file: Path | None, **chosen: Any
) -> None:
    """Rank documents by relevance to QUERIES, with a cross-encoder."""
    if bool(documents) == (file is not None):
        raise click.UsageError("give --document TEXT for each document, or --file FILE")
    candidates = inputs.listed(inputs.lines(documents, file))
    windows = answers.ask(Inputs(queries, None), "rerank", candidates, return_documents=True, **chosen)
    answers.show(
        windows,
        lambda query, ranked: {"query": query, "documents": ranked},
        ["query"],
        ["corpus_id", "score", "text"],
    )
