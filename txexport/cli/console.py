"""The terminal, and what becomes of a command whose output nobody reads any more."""

import os
import sys
from typing import Any

from rich import console

ENDLESS = 1_000_000  # columns of a pipe, in which nothing is cut or broken


class Console(console.Console):
    """Rich's, which leaves a closed pipe to the command: its own ends the program with 1, "not equal".

    A pipe or a file is as wide as what is written, unless COLUMNS says otherwise.
    """

    def __init__(self, **options: Any):
        super().__init__(**options)
        if not self.file.isatty() and not os.environ.get("COLUMNS", "").isdigit():
            self.width = ENDLESS

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError again, from within whose handler this is called."""
        raise


def discard_output() -> None:
    """Have standard output lead nowhere, so that what is still to be written to it raises no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
