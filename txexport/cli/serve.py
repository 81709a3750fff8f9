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
@click.option("--host", default="127.0.0.1", show_default=True, help="Where it listens; all: 0.0.0.0.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Where requests come."
)
@click.option(
    "--api-key",
    "api_keys",
    multiple=True,
    envvar=KEY,
    help="Requests need it; again for more, or in TXEXPORT_API_KEY with spaces between.",
)
@click.option(
    "--cache-tokens",
    type=click.IntRange(min=1),
    default=8192,
    show_default=True,
    help="Tokens that the texts of a bundle which run together may come to.",
)
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Most tokens of an answer.",
)
@click.option(
    "--max-waiting",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Requests of a bundle that may wait; others are told to come again.",
)
@click.option(
    "--max-body", type=click.IntRange(min=1), default=2**25, show_default=True, help="Bytes of a request."
)
@click.option(
    "--max-text",
    type=click.IntRange(min=1),
    default=2**22,
    show_default=True,
    help="Bytes of a request without images and sounds: tokenizing takes 200 to 450 times as many.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Connections at once; for a new one more, the one that has waited longest for its client goes.",
)
@click.option("--timeout", type=float, default=600.0, show_default=True, help="Seconds of an answer.")
@device
@dtype
def serve(bundles: tuple[str, ...], **options: Any) -> None:
    """Serve each BUNDLE over HTTP by the endpoints that OpenAI's client calls.

    A BUNDLE is a folder, which gives it its name, or NAME=FOLDER. GET /docs shows what is served. SIGTERM
    ends it when what has begun is done.
    """
    from txexport.server import serve as run

    if not options["api_keys"] and KEY in os.environ:  # a secret that did not arrive opens no server
        raise InputError(f"{KEY} is blank; give it a key, or unset it to answer everybody")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # when the server has stopped
    run(list(bundles), **options)
