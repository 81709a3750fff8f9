"""The command that writes a bundle in OpenVINO's own format."""

from pathlib import Path

import click

from txexport.cli import options
from txexport.support.printable import line


@click.command()
@options.bundle
@click.argument("folder", metavar="OUT", type=options.Folder())
@options.dtype
def to_openvino(out: Path, folder: Path, dtype: str | None) -> None:
    """Write the decoder in BUNDLE to the new folder OUT in OpenVINO's own format.

    optimum-intel and OpenVINO GenAI open OUT. OpenVINO keeps the caches, which are no inputs and outputs
    then. Needs the package openvino.
    """
    from txexport.exporter import to_openvino as run

    run(out, folder, dtype=dtype)
    click.echo(line(f"{folder}: openvino_model.xml, openvino_model.bin (optimum-intel, OpenVINO GenAI)"))
