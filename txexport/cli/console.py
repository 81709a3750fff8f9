"""The terminal, and closed pipes."""

import os
import sys
from typing import Any

from rich import console

ENDLESS = 1_000_000  # columns of a pipe or a file: no line is cut or wrapped


class Console(console.Console):
    """Rich's Console that raises BrokenPipeError, where Rich's exits with 1, which means "not equal".

    Lines in a pipe or a file are not wrapped, unless COLUMNS sets a width.
    """

    def __init__(self, **options: Any):
        super().__init__(**options)
        if not self.file.isatty() and not os.environ.get("COLUMNS", "").isdigit():
            self.width = ENDLESS

    def on_broken_pipe(self) -> None:
        """Re-raise the BrokenPipeError that is being handled."""
        raise


def discard_output() -> None:
    """Redirect standard output to the null device, so that later writes raise no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
