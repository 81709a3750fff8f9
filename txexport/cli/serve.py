"""The command that serves bundles over HTTP."""

import os
import signal
import sys
from typing import Any

import click

from txexport.cli.options import device, dtype
from txexport.errors import InputError

KEY = "TXEXPORT_API_KEY"


@click.command()
@click.argument("bundles", metavar="BUNDLE...", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Port to listen on."
)
@click.option(
    "--api-key",
    "api_keys",
    multiple=True,
    envvar=KEY,
    help="Key that requests must have; repeatable, or in TXEXPORT_API_KEY, separated by spaces.",
)
@click.option(
    "--cors",
    multiple=True,
    metavar="ORIGIN",
    help="Origin whose pages may send requests from a browser, such as https://example.com, or * for all; "
    "repeatable.",
)
@click.option(
    "--cache-tokens",
    type=click.IntRange(min=1),
    default=8192,
    show_default=True,
    help="Maximum number of tokens of a bundle's concurrent texts.",
)
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Maximum number of generated tokens.",
)
@click.option(
    "--max-waiting",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Maximum number of waiting requests of a bundle; more are refused with status 429.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    default=2**25,
    show_default=True,
    help="Maximum number of bytes of a request.",
)
@click.option(
    "--max-text",
    type=click.IntRange(min=1),
    default=2**22,
    show_default=True,
    help="Maximum bytes of a request without images and audio; tokenizing needs up to 450 times the memory.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Maximum number of connections; above it, a new one closes the one that has been idle longest.",
)
@click.option(
    "--timeout", type=float, default=600.0, show_default=True, help="Maximum number of seconds of an answer."
)
@click.option(
    "--verify",
    is_flag=True,
    help="Before serving, compare every bundle with the answers that txexport verify recorded in it; exit "
    "with code 1 if one is not equal.",
)
@device
@dtype
def serve(bundles: tuple[str, ...], **options: Any) -> None:
    """Serve each BUNDLE over HTTP with OpenAI's endpoints.

    A BUNDLE is FOLDER, served under the folder's name, or NAME=FOLDER. GET /docs describes the endpoints.
    SIGTERM stops the server after the running requests.
    """
    from txexport.server import serve as run

    if not options["api_keys"] and KEY in os.environ:  # a missing secret must not open the server
        raise InputError(f"{KEY} is blank; set a key, or unset it to serve without keys")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # after the server has stopped
    run(list(bundles), **options)
