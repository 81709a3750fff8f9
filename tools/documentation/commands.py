"""The command line as Markdown, from click."""

import inspect

import click

from txexport.cli.main import main


def reference() -> str:
    """A section per command: its help, its usage, its options."""
    context = click.Context(main, info_name="txexport")
    lines: list[str] = []
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        lines += _section(command, click.Context(command, info_name=name, parent=context))
    return "\n".join(lines)


def _section(command: click.Command, context: click.Context) -> list[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f"## `{context.info_name}` {{ #{context.info_name} }}",
        "",
        inspect.cleandoc(command.help or ""),
        "",
    ]
    lines += ["```text", f"txexport {context.info_name} {usage}", "```", ""]
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if options:
        lines += ["| option | |", "|---|---|", *(_row(option, context) for option in options), ""]
    return lines


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    names, text = (part.replace("|", "\\|") for part in record)
    return f"| `{names}` | {text} |"
