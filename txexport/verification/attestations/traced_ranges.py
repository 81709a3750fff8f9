"""The ranges of weights files that a traced bundle's graphs point to."""

from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import ExternalDataInfo

from txexport.bundle import Manifest, TracedManifest
from txexport.errors import BundleError
from txexport.inspection.graph_stats import initializers


def ranges_of_graphs(
    folder: Path, manifest: Manifest | TracedManifest
) -> dict[str, dict[tuple[int, int], str]]:
    """The initializer of each offset and length, by file; the first of several. Raises BundleError."""
    result: dict[str, dict[tuple[int, int], str]] = {}
    for graph in manifest.every_graph:
        try:
            tensors = list(initializers(onnx.load(folder / graph.file, load_external_data=False).graph))
            pointers = [(one.name, ExternalDataInfo(one)) for one in tensors if one.data_location]
        except (DecodeError, ValueError) as error:
            raise BundleError(f"{folder / graph.file} cannot be read as ONNX: {error}") from None
        for name, pointer in pointers:
            path = (PurePosixPath(graph.file).parent / pointer.location).as_posix()
            place = (pointer.offset or 0, pointer.length or 0)
            result.setdefault(path, {}).setdefault(place, name)
    return result
