"""What a case came to: its checks, of which a report is made."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from txexport.formats import DEFAULT
from txexport.verification.agreement import Behaviour
from txexport.verification.bounds import largest_error

CHECKPOINT = "checkpoint"  # what a bundle's contents are held against, beside the references
RUNTIME = "onnxruntime"  # what runs the graphs unless another one is asked for
IDENTITY = "exported graphs"  # the check that graphs are those that export writes
EVERY_WEIGHT, COPIED_FILES = "every weight", "manifest and copied files"  # the other checks of contents
CALIBRATED = "calibrated matrices"  # the check of integers on the texts that they came of
CONTENTS = {IDENTITY: "graphs", EVERY_WEIGHT: "weights", COPIED_FILES: "files"}  # what each is about
TIED = "choices of routers"  # the check that counts those of experts, and ties among them
TOKENIZER, CHAT_TEMPLATE = "tokenizer", "chat template"  # the checks of what stands before and behind graphs
IMAGE_PROCESSOR, SOUND_PROCESSOR = "image processor", "sound processor"  # likewise
PROCESSORS = (TOKENIZER, CHAT_TEMPLATE, IMAGE_PROCESSOR, SOUND_PROCESSOR)
BY_STRUCTURE = ", compared by structure"  # of a graph that other versions wrote
NATIVE, HUB = "native", "hub"  # the graphs that our runtime runs, and those for other clients
CLIENT = "client "  # before the name of other software, in a runtime's place
INPUTS_AND_OUTPUTS = "inputs and outputs"  # the case of a comparison that computes nothing
EVERY = "all cases"  # in place of a case's name, where none could be tried


# What a number format loses: the case, and of what its shares are that are judged unless told.
LOST = "lost by the number format"  # the case's name
LOST_ON_TEXTS = "lost on texts"  # another's, of real ones
LOSSES = (LOST, LOST_ON_TEXTS)
DIRECTION = "direction"  # 1 - cosine of vectors, on average
PROBABILITY = "probability"  # what goes to other classes of that of all, of scores


def of_dtype(kind: str, dtype: str) -> str:
    """What graphs of a kind are called that are of a dtype: "hub int8"; of float32, the kind."""
    return kind if dtype == DEFAULT else f"{kind} {dtype}"


def aside(graphs: str) -> str:
    """What is told of graphs beside what they were held against: "hub, int8"; nothing of our own."""
    return ", ".join(word for word in graphs.split() if word != NATIVE)


class SkipError(Exception):
    """A check that is not to be made after all; its text says why."""


@dataclass(frozen=True)
class TensorCheck:
    """One output over one case: the largest error of `elements` numbers, all those that are not padding.

    `error` and `tolerance` are in the tensor's own size (see `bounds`), and so is `rounding`: what
    float32 alone is off by in the reference, None where that was not measured.
    `behaviour` is what the output says beside its numbers: labels, ranks, directions, tokens. `graph` is the
    bundle's file that gave it, None where one of the case's graphs alone ran, or all together did.
    """

    output: str
    elements: int
    error: float
    tolerance: float
    rounding: float | None = None
    behaviour: Behaviour | None = None
    graph: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every number is within tolerance, and every choice equal or a tie; none compared is not."""
        return (
            self.elements > 0
            and self.error <= self.tolerance
            and (self.behaviour is None or self.behaviour.ok)
        )


@dataclass(frozen=True)
class CaseReport:
    """One case against one reference: its checks, or the exception that ended it, or why it was not tried.

    An exception is a failure. The contents of a bundle are held against the checkpoint itself. `runtime` is
    what ran the graphs, None where nothing did; `graphs` are which of the bundle's: "native", or "hub" for
    those of other clients, with the dtype where that is not float32, as "native int8". `graph` is the file of
    the graph that raised, where one did. `seconds` is how long it took.
    """

    name: str
    reference: str
    checks: list[TensorCheck] = field(default_factory=list)
    exception: str | None = None
    skipped: str | None = None
    runtime: str | None = None
    graphs: str = NATIVE
    graph: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def ok(self) -> bool:
        """Whether every check passed; a case without checks passes only if it says why."""
        if self.skipped is not None:
            return True
        return self.exception is None and bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def is_loss(self) -> bool:
        """Tell whether this measures what a number format loses, of numbers that other cases prove."""
        return self.name in LOSSES and bool(self.checks)

    def of_graph(self, file: str) -> "CaseReport":
        """The case as if it had checked but what the graph in `file` gave, alone or with others."""
        return replace(self, checks=[check for check in self.checks if check.graph in (None, file)])

    def tries(self, file: str) -> bool:
        """Whether the case ran that graph, one of its kind, or raised: in it, or nobody knows where."""
        if self.runtime is None or self.skipped is not None:
            return False
        return bool(self.of_graph(file).checks) or (not self.checks and self.graph in (None, file))

    @property
    def worst(self) -> TensorCheck | None:
        """The check with the largest error, of those that failed where any did."""
        return max(self.checks, key=lambda check: (not check.ok, check.error), default=None)

    @property
    def summary(self) -> str:
        """What came out, in a line."""
        if self.skipped is not None:
            return self.skipped
        if self.exception is not None or self.worst is None:
            return " ".join((self.exception or "nothing was compared").split())
        if self.is_loss:
            over = self.worst.error > self.worst.tolerance
            most = f", more than the budget of {self.worst.tolerance:.2%}" if over else ""
            return f"loses {self.worst.error:.2%} of {self.worst.output}{most}"
        choices = self.worst.behaviour
        if choices is not None and not choices.ok and self.worst.error <= self.worst.tolerance:
            return f"{self.worst.output}: {choices.summary}"
        return f"{self.worst.output} is off by {self.worst.error:.0e}"


def check_of(output: str, pairs: Iterable[tuple[np.ndarray, np.ndarray]], bound: float) -> TensorCheck:
    """One check over pairs of (found, expected), padding left out; errors as `bounds` measures them."""
    elements, worst = 0, 0.0
    for found, expected in pairs:
        elements += expected.size
        worst = max(worst, largest_error(found, expected))
    return TensorCheck(output, elements, worst, bound)
