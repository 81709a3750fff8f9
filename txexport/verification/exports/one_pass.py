"""The cases of another tool's graph of one pass, beside the class of transformers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from txexport.contracts import names
from txexport.errors import InputError, first_line
from txexport.verification.checks import Reach, TensorCheck
from txexport.verification.exports.graphs import Piece
from txexport.verification.traced import cases, inputs
from txexport.verification.traced.cases import TracedCase
from txexport.verification.traced.free_axes import accepts, values_of
from txexport.verification.traced.inputs import Layout, Sizes
from txexport.verification.traced.judging import compared, unpadded
from txexport.verification.traced.named_checks import NamedCheck
from txexport.verification.traced.originals import Original
from txexport.verification.traced.placeholders import filled, lengthened


@dataclass
class OnePass:
    """A graph and the class beside it.

    `layout` has the axes of each input, `sizes` their sizes in most cases, `fixed` those that the graph
    declares. `common` are the outputs that both give.
    """

    judge: Original
    graph: Piece
    layout: Layout = field(init=False)
    sizes: Sizes = field(init=False)
    fixed: Sizes = field(init=False)
    common: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.layout, self.sizes, self.fixed = self._read()
        expected = self.judge.run(self.values(TracedCase("", {}, False, 0)))
        self.common = [name for name in self.graph.outputs if name in expected]

    @property
    def others(self) -> list[str]:
        """The outputs that the class does not give."""
        return [name for name in self.graph.outputs if name not in self.common]

    def _read(self) -> tuple[Layout, Sizes, Sizes]:
        """The axes of the inputs, and their sizes. Raises InputError for inputs that are not known."""
        chosen = [name for name in self.graph.inputs if name != names.POSITION_IDS]
        unknown = [name for name in chosen if name not in inputs.AXES or name not in self.judge.arguments]
        if unknown:
            raise InputError(
                f"{self.graph.path} takes {', '.join(unknown[:4])}, which cannot be filled for "
                f"{self.judge.architecture}"
            )
        reason = "its inputs have other dimensions than those of the class"
        for layout in inputs.layouts(chosen):
            fixed: Sizes = {}
            for name, axes in layout.items():
                sizes = [self.graph.size(name, place) for place in range(len(axes))]
                fixed |= {axis: size for axis, size in zip(axes, sizes, strict=True) if size is not None}
            if any(len(self.graph.inputs[name].shape) != len(axes) for name, axes in layout.items()):
                continue
            base = cases.base_sizes(self.judge) | fixed
            try:
                base = lengthened(self.judge, layout, base) | fixed
                self.judge.run(filled(self.judge, layout, base, 0, False))
            except Exception as error:  # whatever the class raises for a wrong shape
                reason = first_line(error)
                continue
            return layout, base, fixed
        raise InputError(f"{self.graph.path} cannot be compared with {self.judge.architecture}: {reason}")

    def values(self, case: TracedCase) -> dict[str, np.ndarray]:
        """The inputs of a case."""
        values = values_of(self.judge, self.layout, self.sizes, case)
        if names.POSITION_IDS in self.graph.inputs:
            mask = values.get(names.ATTENTION_MASK, np.ones_like(values[names.INPUT_IDS]))
            values[names.POSITION_IDS] = np.maximum(mask.cumsum(1) - 1, 0)
        return values

    @cached_property
    def plan(self) -> list[TracedCase]:
        """All cases at sizes that the class takes and the graph does not declare otherwise."""
        tried = cases.trials(self.judge, self.layout, self.sizes)
        free = [case for case in tried if case.axis not in self.fixed]
        accepted = [case for case in free if accepts(self.judge, self.layout, self.sizes, case)]
        return cases.plan(self.judge, self.layout, self.sizes, accepted)

    def check(self, case: TracedCase) -> list[TensorCheck]:
        """One check of each output that both give."""
        values = self.values(case)
        outputs = {name: array for name, array in self.graph.run(values).items() if name in self.common}

        def compute() -> dict[str, np.ndarray]:
            expected = self.judge.run(values)
            return {name: expected[name] for name in outputs}

        mask = values.get(names.ATTENTION_MASK)
        return compared(self.judge, compute, outputs, partial(unpadded, mask))

    def checks(self) -> dict[str, NamedCheck]:
        """The cases by name."""
        return {case.name: NamedCheck(partial(self.check, case), case.axis is None) for case in self.plan}

    def reach(self) -> Reach:
        """The largest batch and sequence of the cases."""
        of_reach = {"rows": inputs.BATCH, "tokens": inputs.SEQUENCE}
        return {
            name: (max(case.changed.get(axis, self.sizes[axis]) for case in self.plan), self.fixed.get(axis))
            for name, axis in of_reach.items()
            if any(axis in axes for axes in self.layout.values())
        }

    def notes(self) -> Iterator[str]:
        """Limits of the graph, and outputs beyond those of the class."""
        for axis, size in self.fixed.items():
            if axis not in inputs.FIXED:
                yield f"the graph takes {axis} {size} only"
        if names.INPUT_IDS in self.layout and names.ATTENTION_MASK not in self.layout:
            yield "the graph has no attention_mask: rows of several lengths were not tried"
        if self.others:
            yield f"not compared: {', '.join(self.others)}, which {self.judge.architecture} does not give"
