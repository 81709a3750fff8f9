"""Runs of a session that CUDA captures once and replays (CUDA graphs).

The processor then starts one operation on the device in place of one for each kernel.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort

from txexport.contracts.names import INPUT_IDS
from txexport.errors import first_line, warn
from txexport.runtime.session import Bound

REPEATED = 3  # runs of the same shapes, after which the next one is captured
MOST = 64  # captures of a session, each of which holds memory of the device for as long as the session lives
SHORT = 16  # most new tokens of a row in a captured run: speculation reads several at once
CLOSE = 1e-3  # of the largest output, between the first replay and a run without capture
NAME = "gpu_graph_id"  # ONNX Runtime's run option: the number of a capture
NEVER = "-1"  # its value for a run that is not captured

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
Values = Mapping[str, ort.OrtValue]


class Captures:
    """The captures of one session, whose provider was opened with `enable_cuda_graph`.

    Captured runs have their inputs and outputs in `memory`. The first replay is compared with a run without
    capture: where they differ, a warning says so, and the session captures nothing more.
    """

    def __init__(self, session: ort.InferenceSession, memory: str = "cuda"):
        self.session, self.memory = session, memory
        self.count = 0  # of captures so far
        self.lock = threading.Lock()  # runs of a session with CUDA graphs cannot overlap
        self.plain = _numbered(NEVER)

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """As InferenceSession.run, which is not captured."""
        with self.lock:
            outputs: list[np.ndarray] = self.session.run(names, feeds, self.plain)
        return outputs

    def bind(
        self,
        inputs: Mapping[str, ort.OrtValue],
        outputs: Mapping[str, ort.OrtValue],
        wanted: Sequence[str],
        memory: str,
        runs: dict[Any, Any] | None = None,
    ) -> Bound:
        """See Engine. A short run is captured when its inputs' shapes have come REPEATED times."""
        binding = self.session.io_binding()
        _bind(binding, inputs, outputs)
        repeated = Repeated() if runs is None else runs.setdefault(self, Repeated())
        seen, captured = repeated.seen, repeated.captured

        def plain(feeds: Mapping[str, np.ndarray]) -> dict[str, ort.OrtValue]:
            for name, array in feeds.items():
                binding.bind_cpu_input(name, array)
            for name in wanted:
                binding.bind_output(name, memory)
            self.session.run_with_iobinding(binding, self.plain)
            return dict(zip(wanted, binding.get_outputs()[len(outputs) :], strict=True))

        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, ort.OrtValue]:
            shapes = tuple((name, array.shape) for name, array in sorted(feeds.items()))
            with self.lock:
                capture = captured.get(shapes)
                if capture is not None and capture.compared:
                    return capture.run(feeds)
                result = plain(feeds)
                if not _short(feeds):
                    return result
                seen[shapes] += 1
                if capture is not None:
                    capture.compared = self.agrees(capture, feeds, result)
                    if not capture.compared:
                        del captured[shapes]
                elif seen[shapes] >= REPEATED and self.count < MOST:
                    seen[shapes] = 0
                    self.capture(captured, shapes, (inputs, outputs, feeds, result))
                return result

        return run

    def capture(
        self,
        captured: dict[Shapes, "Capture"],
        shapes: Shapes,
        values: tuple[Values, Values, Mapping[str, np.ndarray], Values],
    ) -> None:
        """Capture a run of these inputs, outputs, feeds and results; a refusal is a warning."""
        try:
            captured[shapes] = Capture(self, *values)
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            warn(f"a step runs without a CUDA graph: {first_line(error)}")

    def agrees(
        self, capture: "Capture", feeds: Mapping[str, np.ndarray], expected: Mapping[str, ort.OrtValue]
    ) -> bool:
        """Return whether a replay gives the outputs of the run without capture; warn where it does not."""
        replayed = capture.run(feeds)
        for name, value in expected.items():
            array = value.numpy().astype(np.float64)
            error = np.abs(replayed[name].numpy() - array).max(initial=0)
            if not error <= CLOSE * np.abs(array).max(initial=0):
                warn(f"a CUDA graph gives other values of {name}; this session makes no more of them")
                self.count = MOST
                return False
        return True


@dataclass
class Repeated:
    """The runs that are bound to the same values, by the shapes of their other inputs."""

    seen: Counter[Shapes] = field(default_factory=Counter)
    captured: dict[Shapes, "Capture"] = field(default_factory=dict)


class Capture:
    """One captured run: the values it reads and writes, at addresses that stay. It is captured when made."""

    compared = False  # with a run without capture

    def __init__(
        self,
        captures: Captures,
        inputs: Mapping[str, ort.OrtValue],
        outputs: Mapping[str, ort.OrtValue],
        feeds: Mapping[str, np.ndarray],
        result: Mapping[str, ort.OrtValue],
    ):
        memory, self.session = captures.memory, captures.session
        self.feeds = {name: ort.OrtValue.ortvalue_from_numpy(a, memory, 0) for name, a in feeds.items()}
        self.results = {
            name: ort.OrtValue.ortvalue_from_numpy(np.zeros_like(value.numpy()), memory, 0)
            for name, value in result.items()
        }
        self.binding = self.session.io_binding()
        _bind(self.binding, {**inputs, **self.feeds}, {**outputs, **self.results})
        self.options = _numbered(str(captures.count))
        captures.count += 1
        self.run(feeds)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, ort.OrtValue]:
        """Capture the run, or replay it with other inputs."""
        for name, array in feeds.items():
            self.feeds[name].update_inplace(np.ascontiguousarray(array))
        self.session.run_with_iobinding(self.binding, self.options)
        return dict(self.results)


def _short(feeds: Mapping[str, np.ndarray]) -> bool:
    """Return whether a run reads few tokens: prompts have too many lengths to capture each."""
    tokens = feeds.get(INPUT_IDS)
    return tokens is None or tokens.shape[1] <= SHORT


def _numbered(number: str) -> ort.RunOptions:
    options = ort.RunOptions()
    options.add_run_config_entry(NAME, number)
    return options


def _bind(
    binding: ort.IOBinding, inputs: Mapping[str, ort.OrtValue], outputs: Mapping[str, ort.OrtValue]
) -> None:
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value)
