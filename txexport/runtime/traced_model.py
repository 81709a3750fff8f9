"""A traced bundle, loaded: one graph from arrays to arrays."""

from pathlib import Path
from typing import Any

import numpy as np

from txexport import bundle
from txexport.contracts import Port, roles
from txexport.errors import InputError, needed_for
from txexport.support.arguments import checked


@checked
def load_traced(
    folder: str | Path, *, device: str | None = None, threads: int | None = None, check: bool = True
) -> "TracedModel":
    """Load the traced bundle in `folder`, as `txexport export --traced` writes it.

    `device`, `threads` and `check` are those of `load`. Raises BundleError for a folder that is not a
    complete traced bundle, InputError for a device that is not available.
    """
    with needed_for("running a bundle"):
        from txexport.runtime.engines import onnxruntime
    path = Path(folder)
    manifest = bundle.read_traced(path)
    if check:
        bundle.check(path, manifest)
    files = {roles.MODEL: path / manifest.graph.file}
    where, sessions = onnxruntime.open_sessions(files, device, threads, {}, integers=False)
    return TracedModel(path, manifest, where, sessions[roles.MODEL])


class TracedModel:
    """A traced graph in ONNX Runtime; made by `load_traced`. Calls need neither PyTorch nor transformers."""

    def __init__(self, folder: Path, manifest: bundle.TracedManifest, device: str, session: Any):
        self.folder, self.manifest, self.device, self.session = folder, manifest, device, session

    def __repr__(self) -> str:
        return f"<traced {self.manifest.architecture} on {self.device}, from {self.folder}>"

    @property
    def inputs(self) -> list[Port]:
        """The graph's inputs. A number in `shape` is the only size that the graph takes there."""
        return self.manifest.graph.inputs

    @property
    def outputs(self) -> list[Port]:
        """The graph's outputs."""
        return self.manifest.graph.outputs

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Every output by name, for arrays by the names of `inputs`.

        Inputs that the original takes and its graph does not read are ignored. Raises InputError for an input
        that is unknown, missing, or of another type or shape; a fixed size is explained.
        """
        ignored = self.manifest.layout.keys() - {port.name for port in self.inputs}
        used = {name: value for name, value in inputs.items() if name not in ignored}
        self._check_sizes(used)
        return self.session.run(used)

    def _check_sizes(self, inputs: dict[str, Any]) -> None:
        """Raise InputError for an axis that cannot have its size, with the reason."""
        for name, value in inputs.items():
            for axis, size in zip(self.manifest.layout.get(name, []), np.shape(value), strict=False):
                bounded = axis in self.manifest.limits or axis in self.manifest.most
                if bounded and not self.manifest.takes({axis: size}):
                    reason = self.manifest.reason(axis, size)
                    raise InputError(f"input '{name}' has {axis} {size}, but {reason}")
