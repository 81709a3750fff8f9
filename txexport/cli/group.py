"""The group of all commands: its help in sections, and errors in one line."""

import contextlib
import signal
import sys
import traceback
import warnings
from typing import Any, NoReturn

import click

from txexport.cli.answers import SKIPPED
from txexport.errors import TxexportError, crashes, reason
from txexport.support.near_names import did_you_mean
from txexport.support.printable import line
from txexport.tasks import METHODS

SENTENCE = 200  # characters of a first sentence, which is not cut
TEXTS = "Run on texts"
RUNS = {"image": "Run on images", "sound": "Run on sound"}  # sections by the first input of a method
OTHER_NAMES = {  # what users call it -> the command
    **dict.fromkeys(("complete", "prompt", "summarize", "translate", "translation"), "generate"),
    **dict.fromkeys(("asr", "speech", "listen"), "transcribe"),
    **dict.fromkeys(("caption", "ocr"), "image-to-text"),
    **dict.fromkeys(("convert", "onnx"), "export"),
    **dict.fromkeys(("encode", "embeddings"), "embed"),
    **dict.fromkeys(("check", "test", "validate"), "verify"),
    "ner": "tag",
    "qa": "answer",
    "list": "families",
    "benchmark": "bench",
    "quantise": "quantize",
    "openvino": "to-openvino",
}
SECTIONS: dict[str, tuple[str, ...]] = {
    "Make": ("export", "quantize", "to-openvino"),
    "Prove": ("verify", "attest", "compare", "compare-dtypes"),
    "Look and measure": ("families", "inspect", "attention", "bench"),
    TEXTS: ("chat",),
    **dict.fromkeys(RUNS.values(), ()),
    "Serve": ("serve",),
}


class Commands(click.Group):
    """A group that prints an error of txexport or the system in one line, and exits with code 2."""

    @property
    def sections(self) -> dict[str, list[str]]:
        """The commands of each section of the help, in order."""
        result = {name: list(commands) for name, commands in SECTIONS.items()}
        for method in METHODS.values():
            result[RUNS.get(method.inputs[0], TEXTS)].append(method.command)
        return result

    def list_commands(self, context: click.Context) -> list[str]:
        """The names of all commands, section by section."""
        return [name for names in self.sections.values() for name in names]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, each with its commands and their first sentences."""
        width = max(map(len, self.commands))
        for title, names in self.sections.items():
            with formatter.section(title):
                rows = [(name, self.commands[name].get_short_help_str(SENTENCE)) for name in names]
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command `name`; underscores may replace hyphens, as in the method's name."""
        return super().get_command(context, name.replace("_", "-"))

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the commands that another name may stand for. Raises UsageError."""
        name = arguments[0]
        known = self.get_command(context, name) is not None
        if not known and not name.startswith("-") and not context.resilient_parsing:
            raise click.UsageError(f"No such command '{name}'{self._near(name)}", context)
        return super().resolve_command(context, arguments)

    def _near(self, name: str) -> str:
        """A question with the commands that begin with `name`, do what it says, or are spelled alike."""
        begin = [one for one in self.list_commands(click.Context(self)) if one.startswith(name)]
        if begin and len(name) > 1:
            return f"; did you mean {' or '.join(begin[:3])}?"
        if name.lower() in OTHER_NAMES:
            return f"; did you mean {OTHER_NAMES[name.lower()]}?"
        return did_you_mean(name, self.commands)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """The context of the options before a command."""
        try:
            return super().make_context(*arguments, **options)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.ClickException as error:
            _refuse(error)

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        warnings.showwarning = _show_warning
        try:
            with crashes():
                result = super().invoke(context)
            if context.meta.get(SKIPPED):
                sys.exit(1)
            return result
        except click.exceptions.Exit:
            raise
        except click.ClickException as error:
            _refuse(error)
        except TxexportError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)
        except BrokenPipeError:  # the reader has closed the pipe: not an error
            from txexport.cli.console import discard_output

            discard_output()
            sys.exit(0)
        except OSError as error:
            click.echo(line(f"error: {error.filename or 'output'}: {reason(error)}"), err=True)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)
        except Exception:  # a defect of txexport; 1 would mean "not equal"
            traceback.print_exc()
        sys.exit(2)


def _message(error: click.ClickException) -> str:
    """Click's message; of options that it suggests for one, those whose names without hyphens are alike."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message().rstrip(".")
    name = error.option_name.lstrip("-")
    near = [one for one in error.possibilities or () if did_you_mean(name, [one.lstrip("-")])]
    question = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"No such option '{error.option_name}'{question}"


def _refuse(error: click.ClickException) -> NoReturn:
    """Print the usage error with a reference to --help, and exit with code 2."""
    context = getattr(error, "ctx", None)
    advice = f"; see {context.command_path} --help" if context is not None else ""
    click.echo(line(f"error: {_message(error)}{advice}"), err=True)
    sys.exit(2)


def _show_warning(message: Warning | str, *_args: Any, **_more: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # a warning that cannot be printed must not stop the command
        click.echo(line(f"warning: {message}"), err=True)
