"""The fonts that drawn pages are set in."""

from pathlib import Path

import _pages
import _typesetting
import click
import pytest


def fonts() -> Path:
    """The folder that has them all; skips the test where one is not installed."""
    try:
        _pages.files((*_typesetting.SEEN, *_typesetting.UNSEEN), _pages.FONTS)
    except click.ClickException as error:
        pytest.skip(error.message)
    return _pages.FONTS
