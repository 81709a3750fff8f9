"""The command line."""

from txexport.errors import needed_for

with needed_for("the command txexport"):
    import click  # noqa: F401
    import rich  # noqa: F401
