"""Graphs whose weights are symbolic links, as in a model hub's cache, for readers that refuse links.

`bundle.read` decides which links may be followed; callers call it first.
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
    """The names of the weights files that a graph points to, relative to it."""
    tensors = initializers(model.graph)
    external = (tensor for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL)
    return {ExternalDataInfo(tensor).location for tensor in external}


@contextmanager
def for_checker(file: Path) -> Iterator[Path]:
    """The graph at `file` for onnx's checker; if its weights are links, a copy beside empty files.

    The checker only tests that files of the right size exist.
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
                    weights.truncate((file.parent / name).stat().st_size)  # sparse: takes no disk space
        yield copy


def loaded(file: Path) -> onnx.ModelProto:
    """The graph at `file` with its weights inside. Raises ValueError for weights in another folder."""
    model = onnx.load(file, load_external_data=False)
    for tensor in initializers(model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        pointer = ExternalDataInfo(tensor)
        if not stays_inside(pointer.location):
            raise ValueError(f"weights lie in {pointer.location!r}, expected a file beside the graph")
        with (file.parent / pointer.location).open("rb") as weights:
            weights.seek(pointer.offset or 0)
            tensor.raw_data = weights.read(-1 if pointer.length is None else pointer.length)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return model
