"""The command line as Markdown, from click."""

import inspect

import click

from documentation.escaping import escaped
from documentation.meanings import of_command
from documentation.sources import DocumentError
from txexport.cli.main import main


def section(name: str) -> str:
    """{{ command NAME }}: a command's help, its usage and its options."""
    if name not in main.commands:
        raise DocumentError(f"there is no command {name}")
    command, parent = main.commands[name], click.Context(main, info_name="txexport")
    return "\n".join(_section(command, click.Context(command, info_name=name, parent=parent)))


def _section(command: click.Command, context: click.Context) -> list[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f"### `{context.info_name}` {{ #{context.info_name} }}",
        "",
        escaped(inspect.cleandoc(command.help or "")),
        "",
    ]
    rows: list[str] = []
    lines += ["```text", f"txexport {context.info_name} {usage}", "```", ""]
    for argument in command.params:
        if isinstance(argument, click.Argument):
            metavar = argument.make_metavar(context)
            rows.append(
                f"| `{metavar.strip('[]').removesuffix('...').strip('[]')}` | {of_command(metavar)} |"
            )
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    rows += [_row(option, context) for option in options]
    if rows:
        lines += ["| argument or option | meaning |", "|---|---|", *rows, ""]
    return lines


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    names, text = record  # a | within code does not end a cell
    return f"| `{names}` | {escaped(text)} |"
