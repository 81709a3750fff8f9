"""The command `transcribe`: transcripts of recordings, as text, subtitles or JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from txexport.cli import inputs, options, sounds
from txexport.cli.answers import Answered, Answers, skipped
from txexport.cli.generate import max_new_tokens, num_beams, set_option
from txexport.cli.inputs import Inputs
from txexport.cli.sounds import Sound
from txexport.support.printable import line
from txexport.support.replaced import replaced

if TYPE_CHECKING:
    from txexport.runtime.tasks.transcript import Timestamps, Transcript

ENDINGS = {"text": ".txt", "srt": ".srt", "vtt": ".vtt", "json": ".json"}
SUBTITLES = ("srt", "vtt")
WINDOW = 8  # recordings whose results are written together


@dataclass(frozen=True)
class Style:
    """The format of transcripts, and the times that they have."""

    form: str
    timestamps: "Timestamps | None"

    @staticmethod
    def of(
        answers: Answers, form: str | None, timestamps: "Timestamps | None", output: Path | None
    ) -> "Style":
        """The style of options; `output` is the file of a single sound."""
        if answers.as_json and form not in (None, "json"):
            raise click.UsageError(f"give --json or --format {form}, not both")
        timed = form in (*SUBTITLES, "json")
        if form is None:
            endings = {ending: name for name, ending in ENDINGS.items()}
            ending = output.suffix.lower() if output and not answers.as_json else ""
            if ending and ending not in endings:
                expected = ", ".join(endings)
                raise click.UsageError(
                    f"--output {output} ends in '{ending}', expected one of {expected}; or give --format"
                )
            form = "json" if answers.as_json else endings.get(ending, "text")
            timed = form != "text" and not answers.as_json
        return Style(form, timestamps or ("segment" if timed else None))

    def text(self, answer: "str | Transcript") -> str:
        """A transcript as a file."""
        from txexport.runtime.tasks.transcript import Transcript, to_json, to_srt, to_text, to_vtt

        transcript = Transcript(answer) if isinstance(answer, str) else answer
        by: Timestamps = "word" if self.timestamps == "word" else "segment"
        if self.form == "srt":
            return to_srt(transcript, by)
        if self.form == "vtt":
            return to_vtt(transcript, by)
        if self.form == "json":
            return f"{to_json(transcript)}\n"
        return to_text(transcript, self.timestamps)


@click.command()
@options.bundle
@options.texts("SOUNDS")
@click.option(
    "--timestamps",
    type=click.Choice(["segment", "word"]),
    show_default="segment for subtitles and JSON, else none",
    help="Times of segments, or of words too.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([*ENDINGS]),
    show_default="by the ending of --output, else text",
    help="Format of the transcripts: text, subtitles, or JSON.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write to this file, which must not exist; for several sounds, to files in this folder, where a "
    "sound whose file exists is skipped.",
)
@click.option("--overwrite", is_flag=True, help="Replace existing transcripts.")
@click.option(
    "--raw",
    type=click.IntRange(1),
    metavar="RATE",
    help="Standard input is 16-bit little-endian mono samples at this rate in Hz, without a header.",
)
@click.option("--language", show_default="detected by the model", help="Language of the speech, such as fr.")
@click.option(
    "--task",
    type=click.Choice(["transcribe", "translate"]),
    show_default="the checkpoint's, or else transcribe",
    help="Transcribe the speech, or translate it into English.",
)
@click.option("--prompt", help="Text before the transcript, such as names to expect (Whisper).")
@click.option(
    "--chunk-length-s",
    type=float,
    show_default="30 for CTC models",
    help="Seconds that are read at a time; 0 reads a sound whole.",
)
@click.option(
    "--stride-length-s",
    type=float,
    show_default="a sixth of the chunk",
    help="Seconds of context on each side of a chunk.",
)
@num_beams
@max_new_tokens
@set_option
@options.batch_tokens(8192)
@options.answers(WINDOW)
def transcribe(
    answers: Answers,
    texts: tuple[str, ...],
    file: Path | None,
    timestamps: "Timestamps | None",
    form: str | None,
    output: Path | None,
    overwrite: bool,
    raw: int | None,
    others: dict[str, Any],
    **chosen: Any,
) -> None:
    """Transcribe the sound files SOUNDS, or translate them into English.

    A folder stands for all sound files below it. - is a sound on standard input: with a CTC model, its text
    is printed while it is read. Transcripts of several sounds are printed in order, each below its file's
    name.
    """
    chosen = {name: value for name, value in chosen.items() if value is not None} | others
    if file is None and list(texts) == ["-"]:
        _check_new(output, overwrite)
        _stream(answers, Style.of(answers, form, timestamps, output), output, raw, chosen)
        return
    if raw is not None:
        raise click.UsageError("--raw is for standard input; give - in place of SOUNDS")
    listed = sounds.listed(inputs.lines(texts, file))
    folders = any(Path(text).is_dir() for text in texts)
    to_file = len(listed) == 1 and not folders and _is_file(output)
    if to_file:
        options.refuse_input("--output", output, [listed[0].path])
        _check_new(output, overwrite)
    style = Style.of(answers, form, timestamps, output if to_file else None)
    if output is None:
        several = folders or len(listed) > 1
        if several and style.form in SUBTITLES:
            raise click.UsageError("subtitles of several sounds are several files; give --output FOLDER")
        _show(_answered(answers, listed, style, chosen, folders), answers, style, several)
    elif to_file:
        _write(_answered(answers, listed, style, chosen), style, {listed[0]: output})
    else:
        paths = sounds.targets(listed, output, ENDINGS[style.form])
        waiting = [one for one in listed if overwrite or one.error or not paths[one].exists()]
        if left := len(listed) - len(waiting):
            click.echo(
                f"{left:,} of {len(listed):,} have a transcript already; --overwrite replaces them", err=True
            )
        _write(_answered(answers, waiting, style, chosen, goes_on=True), style, paths)


def _is_file(output: Path | None) -> bool:
    """Return whether the result of a single sound is a file, rather than a folder of files."""
    return output is not None and output.suffix != "" and not output.is_dir()


def _check_new(output: Path | None, overwrite: bool) -> None:
    """Raise UsageError for a file with content, which the transcript would replace."""
    if output is not None and not overwrite and output.is_file() and output.stat().st_size:
        raise click.UsageError(f"--output {output} exists; --overwrite replaces it")


def _is_left(name: str) -> bool:
    """Return whether an option of the command was not given."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.DEFAULT


def _answered(
    answers: Answers, listed: Sequence[Sound], style: Style, chosen: dict[str, Any], goes_on: bool = False
) -> Iterator[list[Answered]]:
    """The transcripts of sounds, window by window; with `goes_on`, bad sounds are skipped by default.

    A CTC model reads sounds one by one, so its windows are of one.
    """
    model = answers.load()
    if goes_on and _is_left("on_error"):
        answers = replace(answers, on_error="skip")
    if model.bundle.step is None and _is_left("window"):
        answers = replace(answers, window=1)

    def ask(values: Sequence[Sound], before: int = 0, **progress: Any) -> Any:
        paths = [sound.path for sound in values]
        return model.transcribe(paths, first_place=before, timestamps=style.timestamps, **chosen, **progress)

    return answers.windows(Inputs(listed, None), sounds.entries(listed), ask)


def _show(windows: Iterator[list[Answered]], answers: Answers, style: Style, several: bool) -> None:
    """Print transcripts, each below its sound if there are several; or lines of JSON."""
    for one, answer in (pair for window in windows for pair in window):
        if isinstance(answer, Exception):
            if answers.as_json:
                click.echo(json.dumps(skipped(one, answer)))
        elif style.form == "json":
            click.echo(json.dumps({"sound": str(one.value.path)} | _fields(answer)))
        else:
            if several:
                click.echo(f"==> {line(str(one.value.path))} <==")
            click.echo(style.text(answer), nl=False)


def _fields(answer: "str | Transcript") -> dict[str, Any]:
    from txexport.runtime.tasks.transcript import to_fields

    return {"text": answer} if isinstance(answer, str) else to_fields(answer)


def _write(windows: Iterator[list[Answered]], style: Style, paths: Mapping[Sound, Path]) -> None:
    """Write each transcript into its file when its window is done."""
    for one, answer in (pair for window in windows for pair in window):
        if not isinstance(answer, Exception):
            _save(style.text(answer), paths[one.value])


def _save(text: str, path: Path) -> None:
    """Write a transcript into its file."""
    with replaced(path) as stream:
        stream.write(text.encode())


def _stream(
    answers: Answers, style: Style, output: Path | None, raw: int | None, chosen: dict[str, Any]
) -> None:
    """Transcribe standard input: print text as it is complete, or the whole in another format."""
    from txexport.runtime.tasks.transcript import timed_line

    if output is not None and output.is_dir():
        raise click.UsageError(f"--output {output} is a folder; give a file for standard input")
    model = answers.load()
    source = sounds.standard_input(raw)
    if output is None and style.form == "text":
        streamed = {name: value for name, value in chosen.items() if name != "batch_tokens"}
        begun = False
        for piece in model.stream_transcript(source, timestamps=style.timestamps, **streamed):
            text = piece if isinstance(piece, str) else timed_line(piece)
            click.echo(text if begun else text.lstrip(), nl=False)
            begun = True
        if style.timestamps is None:
            click.echo()
        return
    answer: Any = model.transcribe(source, timestamps=style.timestamps, **chosen)
    if output is None and style.form == "json":
        click.echo(json.dumps({"sound": "-"} | _fields(answer)))
    elif output is None:
        click.echo(style.text(answer), nl=False)
    else:
        _save(style.text(answer), output)
