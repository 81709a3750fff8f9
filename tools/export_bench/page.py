"""Writes the page of the recorded outcomes."""

from pathlib import Path


def write(results: Path) -> None:
    raise NotImplementedError
