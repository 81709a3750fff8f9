"""The command that holds a conversation in the terminal."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from txexport.bundle import check_output
from txexport.cli import inputs, options
from txexport.cli.generate import search_options
from txexport.errors import InputError, TxexportError
from txexport.support.printable import line
from txexport.support.replaced import write_text

if TYPE_CHECKING:
    from txexport.runtime import Model

NEW_TOKENS = 1024  # of an answer, where neither the caller nor the checkpoint says
PROMPT = "> "


@dataclass
class Chat:
    """A conversation with a model: the messages so far, and the images or sounds of the next one.

    `options` are those of Model.chat. If `as_json`, each turn is a line of JSON, and else the answer is
    streamed. If `interactive`, Ctrl-C ends an answer, which stays in the conversation as far as it went.
    """

    model: "Model"
    options: dict[str, Any]
    as_json: bool = False
    interactive: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    media: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def answers(self) -> Callable[..., Iterator[str]]:
        """The model's stream_chat, over the keys and values of the earlier turns."""
        return self.model.session().stream_chat

    @property
    def reads_media(self) -> bool:
        """Tell whether the model reads images or sounds in a conversation."""
        return self.model.bundle.reads_media

    def read(self, text: str) -> None:
        """Obey a command, or answer a message. Raises TxexportError, and OSError for a file."""
        if not text.startswith("/"):
            if text.strip():
                self.answer(text)
            return
        name, _, argument = text[1:].partition(" ")
        if name not in COMMANDS:
            raise InputError(f"there is no command {line(text)[:40]}; /help lists them")
        COMMANDS[name].run(self, argument.strip())

    def answer(self, text: str) -> None:
        """Print the answer to a message, and add both to the conversation."""
        messages = [*self.messages, self._message("user", text, self.media)]
        pieces: list[str] = []
        try:
            for piece in self.answers(messages, **self.options):
                if not self.as_json:
                    click.echo(piece, nl=False)
                pieces.append(piece)  # after it is shown: an interruption keeps nothing that was not
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            if not pieces:  # no answer yet
                return
        finally:
            if not self.as_json and pieces:
                click.echo()
        written = "".join(pieces)
        if self.as_json:
            click.echo(json.dumps({"message": text, "answer": written}))
        self.messages, self.media = [*messages, self._message("assistant", written)], []

    def _message(self, role: str, text: str, media: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """A message; for a model that reads images or sounds, with parts as their templates expect."""
        if not self.reads_media:
            return {"role": role, "content": text}
        return {"role": role, "content": [*(media or []), {"type": "text", "text": text}]}

    def attach(self, path: str) -> None:
        """Add an image to the next message. Raises InputError if it cannot be read."""
        from txexport.runtime.preprocessing.opened_images import opened

        if not self.model.bundle.reads_images:
            raise InputError(f"{_named(self.model)} reads no images")
        if not path:
            raise InputError("/image needs the path of an image file")
        file = str(Path(path).expanduser())
        opened(file)
        self.media.append({"type": "image", "image": file})

    def attach_sound(self, path: str) -> None:
        """Add a sound to the next message. Raises InputError for one that the model cannot read."""
        from txexport.runtime.generation.pictures import prompts_of

        if not self.model.bundle.reads_sounds:
            raise InputError(f"{_named(self.model)} reads no sounds")
        if not path:
            raise InputError("/audio needs the path of a sound file")
        file = str(Path(path).expanduser())
        prompts_of(self.model.bundle).tiles([file])
        self.media.append({"type": "audio", "audio": file})

    def clear(self, _: str) -> None:
        """Forget all messages but the system's."""
        self.messages = [one for one in self.messages if one["role"] == "system"]
        self.media = []

    def system(self, text: str) -> None:
        """Set the system message; remove it if `text` is empty."""
        others = [one for one in self.messages if one["role"] != "system"]
        self.messages = [self._message("system", text), *others] if text else others

    def save(self, path: str) -> None:
        """Write the conversation to a file, as JSON, in place of an earlier one.

        Raises InputError without a path, and for any other file.
        """
        if not path:
            raise InputError("/save needs the path of a file")
        file = Path(path).expanduser()
        check_output(file)
        if file.is_file() and file.stat().st_size and not _is_conversation(file):
            raise InputError(f"{file} exists and holds no conversation; /save to another file")
        text = json.dumps({"messages": self.messages}, ensure_ascii=False, indent=2)
        write_text(file, text + "\n")

    def help(self, _: str) -> None:
        """List the commands."""
        for name, command in COMMANDS.items():
            usage = f"/{name} {command.argument}".strip()
            click.echo(f"{usage:14} {command.meaning}", err=True)


def _named(model: "Model") -> str:
    """The model's folder and type, for messages."""
    return f"{model.folder} ({model.manifest.model_type})"


def _is_conversation(file: Path) -> bool:
    """Return whether a file is one that /save wrote."""
    try:
        value = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.keys() == {"messages"}


@dataclass(frozen=True)
class Command:
    """A command within a conversation: its function, and its argument and meaning for /help."""

    run: Callable[[Chat, str], None]
    argument: str
    meaning: str


COMMANDS = {
    "image": Command(Chat.attach, "PATH", "Add an image to the next message."),
    "audio": Command(Chat.attach_sound, "PATH", "Add a sound to the next message."),
    "system": Command(Chat.system, "TEXT", "Set the system message; without TEXT, remove it."),
    "clear": Command(Chat.clear, "", "Forget all messages but the system message."),
    "save": Command(Chat.save, "FILE", "Write the conversation to FILE, as JSON."),
    "help": Command(Chat.help, "", "List the commands."),
}


@click.command()
@options.bundle
@click.option("--system", help="System message of the conversation.")
@click.option(
    "--max-new-tokens",
    type=int,
    show_default=f"the checkpoint's, or else up to {NEW_TOKENS}",
    help="Maximum number of generated tokens of an answer.",
)
@search_options
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each message.")
@options.device
@options.dtype
def chat(
    out: Path,
    system: str | None,
    max_new_tokens: int | None,
    as_json: bool,
    others: dict[str, Any],
    device: str | None,
    threads: int | None,
    dtype: str | None,
    engine: str,
    precision: str,
    **chosen: Any,
) -> None:
    """Hold a conversation with BUNDLE.

    At the prompt, write a message, or a command: /image PATH, /audio PATH, /system TEXT, /clear,
    /save FILE or /help.
    Ctrl-C stops an answer, Ctrl-D ends the conversation. Without a terminal, each line of standard input is
    a message or a command.
    """
    from txexport.runtime import load

    model = load(out, device=device, threads=threads, dtype=dtype, engine=engine, precision=precision)
    _prepare(model, max_new_tokens)
    interactive = sys.stdin.isatty()
    settings = {name: value for name, value in chosen.items() if value is not None} | others
    conversation = Chat(model, settings, as_json, interactive)
    if system is not None:
        conversation.system(system)
    if not interactive:
        for text in _piped():
            conversation.read(text)
        return
    click.echo(f"{_named(model)}: /help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.", err=True)
    for text in _typed():
        try:
            conversation.read(text)
        except TxexportError as error:  # the conversation goes on
            click.echo(f"error: {error}", err=True)
        except OSError as error:
            click.echo(line(f"error: {error.filename}: {error.strerror}"), err=True)


def _prepare(model: "Model", max_new_tokens: int | None) -> None:
    """Set the longest answer, within the room that is left. Raises TxexportError for a model without chat."""
    from txexport.runtime.loaded_bundle import check_task
    from txexport.runtime.preprocessing.chat import check_template

    check_task(model.bundle, "generate", "chat")
    if not model.bundle.reads_sounds:  # which has a template of its own
        check_template(model.folder)
    if model.bundle.is_encoder_decoder:
        raise InputError(f"{_named(model)} does not converse: it has an encoder; use generate")
    config = model.generation_config
    if max_new_tokens is None and (config.max_new_tokens, config.max_length) == (None, None):
        max_new_tokens = NEW_TOKENS
    if max_new_tokens is not None:  # as a setting of the checkpoint: as an option, it would need all its room
        config = config.updated(max_new_tokens=max_new_tokens, max_length=None)
        model.bundle.files.generation_config = config


def _piped() -> Iterator[str]:
    """The lines of standard input. Raises InputError for one that is not UTF-8."""
    for entry in inputs.lines((), Path("-")):
        if isinstance(entry.value, Exception):
            raise entry.value
        yield entry.value


def _typed() -> Iterator[str]:
    """The lines that are typed; Ctrl-C discards one, Ctrl-D ends them."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - input() then edits lines and remembers them
    while True:
        try:
            yield input(PROMPT)
        except KeyboardInterrupt:
            click.echo(err=True)
        except EOFError:
            click.echo(err=True)
            return
