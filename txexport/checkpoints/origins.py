"""The tensors in a checkpoint's files that each of its tensors is read from, and their bytes."""

from collections.abc import Iterator
from dataclasses import dataclass

from txexport.checkpoints.adapters import PREFIX, Merged
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.gguf.tensors import GgufTensor
from txexport.checkpoints.image_size import Resized
from txexport.checkpoints.language import InLanguage
from txexport.checkpoints.quantised.matrix import Stack
from txexport.checkpoints.quantised.module import by_module
from txexport.checkpoints.stored import CHUNK, Stored, reading
from txexport.errors import CheckpointError


@dataclass(frozen=True)
class Origin:
    """The names of stored tensors, and the steps from them to a tensor of numbers, in order."""

    tensors: tuple[str, ...]
    steps: tuple[str, ...] = ()


class Origins:
    """The stored tensors of a checkpoint by name, and the origin of each tensor that is read.

    Names are those in the files, without the prefixes of training wrappers. Tensors of an adapter are called
    FILE:NAME, since a base may have the same names.
    """

    def __init__(self, checkpoint: Checkpoint):
        self._checkpoint = checkpoint
        self._inner: Origins | None = None
        self._adapters: dict[Stored, str] = {}
        self.stored: dict[str, Stored]
        if isinstance(checkpoint, Resized | InLanguage):
            self._inner = Origins(checkpoint.whole if isinstance(checkpoint, Resized) else checkpoint.base)
            self.stored = dict(self._inner.stored)
        elif checkpoint.gguf is not None:
            tensors = checkpoint.gguf.tensors.values()
            self.stored = {
                one.name: Stored(one.file, one.dtype, one.shape, one.packed.offset, one.nbytes)
                for one in tensors
            }
        else:
            self.stored = dict(checkpoint.stored)
        if isinstance(checkpoint, Merged | InLanguage):
            prefix = PREFIX if isinstance(checkpoint, Merged) else ""
            for name, tensor in checkpoint.in_adapter.items():
                self._adapters[tensor] = f"{tensor.file.name}:{prefix}{name}"
            self.stored |= {name: tensor for tensor, name in self._adapters.items()}
        self._packed: dict[str, list[str]] = {}  # the packed tensors of each module
        if self._inner is None and checkpoint.gguf is None and checkpoint.quantised:
            for module in by_module(checkpoint.stored):
                names = [module.full(leaf) for leaf in module.parts]
                self._packed[module.name] = [one for one in names if self._is_packed(one)]

    def of(self, name: str) -> Origin:
        """The origin of the checkpoint's tensor `name`."""
        checkpoint, tensor = self._checkpoint, self._checkpoint.tensors[name]
        if isinstance(checkpoint, InLanguage) and name in checkpoint.in_adapter:
            return Origin((self._adapters[checkpoint.in_adapter[name]],))
        if self._inner is not None:
            inner = self._inner.of(name)
            if isinstance(checkpoint, Resized) and checkpoint.interpolated and name == checkpoint.table:
                height, width = checkpoint.grid
                return Origin(inner.tensors, (*inner.steps, f"interpolated to {height} x {width} patches"))
            return inner
        if isinstance(tensor, GgufTensor):
            return Origin((tensor.name,), _decoding(tensor))
        if isinstance(tensor, Stored):
            stored = self._adapters.get(tensor, name)
            update = checkpoint.updates.get(name) if isinstance(checkpoint, Merged) else None
            if update is None:
                return Origin((stored,))
            parts = [self._adapters[one] for one in (update.b, update.a) if one is not None]
            return Origin((stored, *parts), (f"plus its low-rank update times {update.scale!r}",))
        return Origin(tuple(self._parts(name)), (f"unpacked from {tensor.dtype}",))

    def _is_packed(self, name: str) -> bool:
        return not isinstance(self._checkpoint.tensors.get(name), Stored)

    def _parts(self, name: str) -> list[str]:
        """The packed tensors of a matrix: those of its module, or of one of the module's stacks."""
        names = self._packed[name.rpartition(".")[0]]
        stacked = isinstance(self._checkpoint.tensors[name], Stack)
        return [one for one in names if one.startswith(f"{name}_")] if stacked else names


def _decoding(tensor: GgufTensor) -> tuple[str, ...]:
    """The steps from the bytes of a GGUF file to the numbers of transformers."""
    steps = [f"decoded from {tensor.dtype}"]
    steps += ["rows in the order of transformers"] if tensor.order is not None else []
    steps += [f"plus {tensor.plus!r}"] if tensor.plus else []
    return tuple(steps)


def stored_bytes(stored: Stored, name: str) -> Iterator[bytes]:
    """A stored tensor's bytes as a safetensors file has them: row by row, little-endian.

    A few megabytes at a time where the file has the same. Raises CheckpointError.
    """
    if stored.strides is not None or stored.big_endian:
        yield stored.unwidened(name).tobytes()
        return
    left = stored.nbytes
    with reading(stored.file), stored.file.open("rb") as file:
        file.seek(stored.offset)
        while left:
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                raise CheckpointError(f"{stored.file.name} ends within tensor '{name}'; copy it again")
            left -= len(chunk)
            yield chunk
