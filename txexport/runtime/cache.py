"""The two kinds of key/value cache, behind one step. Shape letters are those of txmodels.

A batch is padded on the right. `counts` says how many of a row's new tokens are real; the next write of a
row overwrites its padding.
"""

from collections.abc import Mapping

import numpy as np
import onnxruntime as ort

from txexport.runtime.session import Session

CROSS = ".encoder."


def open_cache(
    session: Session, kind: str, cross: Mapping[str, ort.OrtValue], batch: int, capacity: int
) -> "StaticCache | DynamicCache":
    """An empty cache of `kind` for `batch` rows; `cross` are the inputs that no step changes."""
    if kind == "static":
        return StaticCache(session, cross, batch, capacity)
    return DynamicCache(session, cross, batch)


def _own_inputs(session: Session) -> list[str]:
    return [name for name in session.inputs if name.startswith("past_key_values.") and CROSS not in name]


def _present(name: str) -> str:
    return name.replace("past_key_values", "present", 1)


class StaticCache:
    """Buffers (B,K,C,H) bound as past and present at once, so that a step writes in place."""

    def __init__(self, session: Session, cross: Mapping[str, ort.OrtValue], batch: int, capacity: int):
        self.session, self.cross, self.batch, self.capacity = session, cross, batch, capacity
        self.lengths = np.zeros(batch, np.int64)
        self.buffers = {
            name: session.value(np.zeros(self._shape(name, capacity), np.float32))
            for name in _own_inputs(session)
        }

    def _shape(self, name: str, capacity: int) -> tuple[int, ...]:
        _, heads, _, size = self.session.inputs[name].shape
        return self.batch, heads, capacity, size

    def step(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """input_ids (B,S), counts (B) -> logits (B,V) of each row's last real token."""
        self._reserve(int(self.lengths.max()) + input_ids.shape[1])
        binding = self.session.session.io_binding()
        last = np.maximum(counts - 1, 0)[:, None]
        feeds = {"input_ids": input_ids, "cache_lengths": self.lengths, "logits_indices": last}
        for name, array in feeds.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(array))
        for name, value in self.cross.items():
            binding.bind_ortvalue_input(name, value)
        for name, buffer in self.buffers.items():
            binding.bind_ortvalue_input(name, buffer)
            binding.bind_ortvalue_output(_present(name), buffer)
        binding.bind_output("logits", "cpu")
        self.session.run_bound(binding)
        self.lengths = self.lengths + counts
        logits = binding.get_outputs()[-1].numpy()  # (B, 1, V), bound last
        return logits[:, 0]

    def _reserve(self, needed: int) -> None:
        """Grow the buffers to at least `needed` slots, doubling so that growth costs little in all."""
        if needed <= self.capacity:
            return
        capacity = max(needed, 2 * self.capacity)
        for name, buffer in self.buffers.items():
            wider = np.zeros(self._shape(name, capacity), np.float32)
            wider[:, :, : self.capacity] = buffer.numpy()
            self.buffers[name] = self.session.value(wider)
        self.capacity = capacity


class DynamicCache:
    """Keys and values (B,K,P,H) that each step returns longer, padding included and masked."""

    def __init__(self, session: Session, cross: Mapping[str, ort.OrtValue], batch: int):
        self.session, self.cross = session, cross
        self.lengths = np.zeros(batch, np.int64)
        self.mask = np.zeros((batch, 0), np.int64)
        self.past = {}
        for name in _own_inputs(session):
            _, heads, _, size = session.inputs[name].shape
            self.past[name] = session.value(np.zeros((batch, heads, 0, size), np.float32))

    def step(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """input_ids (B,S), counts (B) -> logits (B,V) of each row's last real token."""
        steps = np.arange(input_ids.shape[1])
        real = (steps < counts[:, None]).astype(np.int64)  # (B, S)
        self.mask = np.concatenate([self.mask, real], axis=1)  # (B, P+S)
        feeds = {"input_ids": input_ids}
        if "attention_mask" in self.session.inputs:
            feeds["attention_mask"] = self.mask
            feeds["position_ids"] = (self.lengths[:, None] + steps) * real
        values = {name: self.session.value(np.ascontiguousarray(array)) for name, array in feeds.items()}
        wanted = ["logits", *map(_present, self.past)]
        outputs = self.session.run_values({**values, **self.cross, **self.past}, wanted)
        self.past = {name: outputs[_present(name)] for name in self.past}
        self.lengths = self.lengths + counts
        logits = outputs["logits"].numpy()  # (B, S, V)
        return logits[np.arange(len(logits)), np.maximum(counts - 1, 0)]
