"""The terminal, and what becomes of a command whose output nobody reads any more."""

import os
import sys

from rich import console


class Console(console.Console):
    """Rich's, which leaves a closed pipe to the command: its own ends the program with 1, "not equal"."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError again, from within whose handler this is called."""
        raise


def discard_output() -> None:
    """Have standard output lead nowhere, so that what is still to be written to it raises no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
