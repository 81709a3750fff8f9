"""The results of a case: its checks, or the reason why it has none."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from txexport.formats import DEFAULT
from txexport.verification.agreement import Behaviour
from txexport.verification.bounds import largest_error

CHECKPOINT = "checkpoint"  # the reference of a bundle's contents
RUNTIME = "onnxruntime"  # the default
IDENTITY = "exported graphs"  # the check that the graphs equal those that export writes
EVERY_WEIGHT, COPIED_FILES = "every weight", "manifest and copied files"  # the other checks of contents
CALIBRATED = "calibrated matrices"  # the check of calibrated integers on their texts
CONTENTS = {
    IDENTITY: "graphs",
    EVERY_WEIGHT: "weights",
    COPIED_FILES: "files",
}  # descriptions of the checks
RANGE = "range of numbers"  # the case of a type in which graphs compute, narrower than float32
TIED = "choices of routers"  # the check that counts choices of experts, and ties
TOKENIZER, CHAT_TEMPLATE = "tokenizer", "chat template"  # checks of processors
IMAGE_PROCESSOR, SOUND_PROCESSOR, CTC_TOKENIZER = "image processor", "sound processor", "CTC tokenizer"
IMAGE_PROMPTS, SOUND_PROMPTS, PAGES = "prompts with images", "prompts with sounds", "pages and queries"
PROCESSORS = (
    *(TOKENIZER, CTC_TOKENIZER, CHAT_TEMPLATE),
    *(IMAGE_PROCESSOR, IMAGE_PROMPTS, PAGES, SOUND_PROCESSOR, SOUND_PROMPTS),
)
BY_STRUCTURE = ", compared by structure"  # appended for a graph that other versions wrote
NATIVE, HUB = "native", "hub"  # graphs for our runtime, and for other clients
CLIENT = "client "  # prefix of other software in a runtime's place
INPUTS_AND_OUTPUTS = "inputs and outputs"  # the case of a comparison that runs nothing
STORED = "stored answers"  # the reference of a comparison with the answers that a bundle keeps
ALL_CASES = "all cases"  # in place of a case's name if none could run


# Cases of the loss of a number format, and the measures with a budget by default.
FORMAT_LOSS = "lost by the number format"  # on seeded inputs
FORMAT_LOSS_ON_TEXTS = "lost on texts"  # on the user's
FORMAT_LOSS_UNSET = "lost without session options"  # on seeded inputs; ONNX Runtime then rounds activations
LOSSES = (FORMAT_LOSS, FORMAT_LOSS_ON_TEXTS, FORMAT_LOSS_UNSET)
UNSET_OPTIONS = "without session options"  # outputs must be the same as with the manifest's options
DIRECTION = "direction"  # mean of 1 - cosine of vectors
PROBABILITY = "probability"  # share of the probability that moves to other classes


Reach = dict[str, tuple[int, int | None]]  # sizes that the cases reached, with a limit where there is one


def of_dtype(kind: str, dtype: str) -> str:
    """The name of the graphs of a kind and dtype: "hub int8"; for float32 the kind alone."""
    return kind if dtype == DEFAULT else f"{kind} {dtype}"


def graphs_label(graphs: str) -> str:
    """The label of graphs in a report: "hub, int8"; empty for native float32."""
    return ", ".join(word for word in graphs.split() if word != NATIVE)


class SkipError(Exception):
    """Raised by a check that cannot be made; the message is the reason."""


@dataclass(frozen=True)
class TensorCheck:
    """One output over one case: the largest error of all `elements` that are not padding.

    `error`, `tolerance` and `rounding` are relative to the tensor's size (see `bounds`); `rounding` is the
    error of the reference's own float32, None if it was not measured. `behaviour` is the agreement of
    labels, ranks, directions and tokens. `graph` is the file that gave the output, None if only one of the
    case's graphs ran, or all together.
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
        """True if numbers were compared, all are within tolerance, and all choices are equal or ties."""
        return (
            self.elements > 0
            and self.error <= self.tolerance
            and (self.behaviour is None or self.behaviour.ok)
        )


@dataclass(frozen=True)
class CaseReport:
    """One case against one reference: its checks, the exception that ended it, or why it was skipped.

    An exception is a failure. The reference of a bundle's contents is the checkpoint. `runtime` ran the
    graphs, None if nothing did. `graphs` are "native", or "hub" for those of other clients, with the dtype
    unless it is float32, as "native int8". `graph` is the file of the graph that raised. `seconds` is the
    time taken.
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
        """True if every check passed; without checks, if the case was skipped for a reason."""
        if self.skipped is not None:
            return True
        return self.exception is None and bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def is_loss(self) -> bool:
        """True if the case measures the loss of a number format, whose numbers other cases prove."""
        return self.name in LOSSES and bool(self.checks)

    def of_graph(self, file: str) -> "CaseReport":
        """The case with the checks of the graph in `file` alone, and those of all graphs together."""
        return replace(self, checks=[check for check in self.checks if check.graph in (None, file)])

    def tries(self, file: str) -> bool:
        """True if the case ran the graph in `file`, or raised in it or at an unknown place."""
        if self.runtime is None or self.skipped is not None:
            return False
        return bool(self.of_graph(file).checks) or (not self.checks and self.graph in (None, file))

    @property
    def worst(self) -> TensorCheck | None:
        """The check with the largest error, among the failed ones if there are any."""
        return max(self.checks, key=lambda check: (not check.ok, check.error), default=None)

    @property
    def summary(self) -> str:
        """The result in a line."""
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
    """One check over pairs of (found, expected) without padding; errors as `bounds` measures them."""
    elements, worst = 0, 0.0
    for found, expected in pairs:
        elements += expected.size
        worst = max(worst, largest_error(found, expected))
    return TensorCheck(output, elements, worst, bound)
