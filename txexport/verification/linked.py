"""Graphs whose weights are links, as a model hub's cache has them, for readers that take no links.

Which links may be followed is `bundle.read`'s to say; who calls these has called that.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx.external_data_helper import ExternalDataInfo

from txexport.inspection.graph_stats import initializers
from txexport.support.paths import stays_inside


def weight_files(model: onnx.ModelProto) -> set[str]:
    """The files of weights that a graph points to, beside its own."""
    held = (one for one in initializers(model.graph) if one.data_location == onnx.TensorProto.EXTERNAL)
    return {ExternalDataInfo(one).location for one in held}


@contextmanager
def for_checker(file: Path) -> Iterator[Path]:
    """The graph at `file`, or where its weights are links a copy of it, beside empty files of their sizes.

    onnx's checker looks whether weights are there, and not into them.
    """
    names = {name for name in weight_files(onnx.load(file, load_external_data=False)) if stays_inside(name)}
    if not any((file.parent / name).is_symlink() for name in names):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="txexport-") as folder:
        copy = Path(folder) / file.name
        shutil.copyfile(file, copy)
        for name in names:
            if (file.parent / name).is_file():
                (copy.parent / name).parent.mkdir(parents=True, exist_ok=True)
                with (copy.parent / name).open("wb") as weights:
                    weights.truncate((file.parent / name).stat().st_size)  # takes no room on a disk
        yield copy


def loaded(file: Path) -> onnx.ModelProto:
    """The graph at `file` with its weights within. Raises ValueError for weights that lie elsewhere."""
    model = onnx.load(file, load_external_data=False)
    for tensor in initializers(model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        place = ExternalDataInfo(tensor)
        if not stays_inside(place.location):
            raise ValueError(f"weights lie in {place.location!r}, expected a file beside the graph")
        with (file.parent / place.location).open("rb") as weights:
            weights.seek(place.offset or 0)
            tensor.raw_data = weights.read(-1 if place.length is None else place.length)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return model
