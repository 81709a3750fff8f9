"""A graph that equals its original at every size that it takes, with as many free dimensions as possible.

An axis that the library itself refuses at another size is fixed from the start. One that the exporter fixes,
or at which the graph differs from the original, is fixed in a second trace. A graph that differs at the sizes
of its own trace is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from txexport.errors import BundleError, EngineError, InputError, UnsupportedError, first_line
from txexport.runtime.engines.onnxruntime import open_session
from txexport.verification.checks import TensorCheck
from txexport.verification.traced import cases, inputs
from txexport.verification.traced.cases import TracedCase
from txexport.verification.traced.inputs import Layout, Sizes
from txexport.verification.traced.judging import judged
from txexport.verification.traced.originals import UNLIMITED, Original
from txexport.verification.traced.placeholders import filled, lengthened, resized
from txexport.verification.traced.reasons import lacking, plain, reason_of
from txexport.verification.traced.tracing import GRAPH, dims, input_name, save, traced

Tell = Callable[[str], None]
ONE_SIZE = "the model takes no other size"
IMAGE = {inputs.HEIGHT, inputs.WIDTH}
HEAVIEST = (inputs.HEIGHT, inputs.WIDTH, inputs.FRAMES, inputs.SAMPLES, inputs.CONTEXT)  # first to be fixed


@dataclass
class TracedGraph:
    """A traced graph and its axes.

    `sizes` are those of the trace, `varied` the free axes. `least` are the smallest right sizes of axes whose
    smaller sizes differ, `most` the numbers of positions that the model has. `limits` has the reason for each
    axis that is fixed or has a least size.
    """

    model: Any
    layout: Layout
    sizes: Sizes
    varied: list[str]
    limits: dict[str, str] = field(default_factory=dict)
    least: Sizes = field(default_factory=dict)
    most: Sizes = field(default_factory=dict)


def traced_graph(original: Original, opset: int, tell: Tell) -> TracedGraph:
    """The graph of a model with as many free axes as come out right.

    Raises UnsupportedError if the original takes none of the known inputs, gives random answers, or cannot be
    traced, or if the graph differs from it.
    """
    layout, sizes = accepted_layout(original)
    _refuse_random(original, layout, sizes)
    accepted = [
        case for case in cases.trials(original, layout, sizes) if accepts(original, layout, sizes, case)
    ]
    varied = [axis for axis in inputs.axes_of(layout) if any(case.axis == axis for case in accepted)]
    limits = {axis: ONE_SIZE for axis in inputs.axes_of(layout) if axis not in varied}
    while True:
        if inputs.BATCH not in varied:
            sizes[inputs.BATCH] = 1
        tell(f"trace with {', '.join(varied) or 'no axis'} free")
        values = filled(original, layout, sizes, 0, False)
        try:
            model = traced(original, layout, values, varied, opset)
        except UnsupportedError as error:
            held = next((axis for axis in (*HEAVIEST, *reversed(varied)) if axis in varied), None)
            if held is None:
                raise
            wrong = {axis: first_line(error) for axis in varied if axis == held or {axis, held} <= IMAGE}
        else:
            fixed = {
                axis
                for value in model.graph.inputs
                for axis, size in zip(layout[input_name(value)], dims(value), strict=True)
                if isinstance(size, int)
            }
            wrong = {axis: "the exporter fixed it" for axis in varied if axis in fixed}
            if not wrong:
                result = TracedGraph(model, layout, sizes, varied, limits, {}, longest_of(original, varied))
                wrong = _differing(original, result, accepted, tell)
        if not wrong:
            return result
        varied = [axis for axis in varied if axis not in wrong]
        accepted = [case for case in accepted if case.axis in varied]
        limits |= wrong


def longest_of(original: Original, varied: list[str]) -> Sizes:
    """The most tokens of the axes of tokens, where the config names a number."""
    of_tokens = [axis for axis in varied if axis in (inputs.SEQUENCE, inputs.TARGETS)]
    return {} if original.longest == UNLIMITED else dict.fromkeys(of_tokens, original.longest)


def accepted_layout(original: Original) -> tuple[Layout, Sizes]:
    """The first layout of the inputs with which the original runs, and its sizes.

    An input without which it fails is added, if it can be filled. Raises UnsupportedError.
    """
    names, failed = original.inputs, None
    while True:
        for layout in inputs.layouts(names):
            for base in cases.every_base(original):
                try:
                    sizes = lengthened(original, layout, base)
                    original.run(filled(original, layout, sizes, 0, False))
                except UnsupportedError:
                    raise
                except Exception as error:
                    failed = failed or error
                    continue
                return layout, sizes
        needed = None if failed is None else lacking(original, failed)
        if needed not in inputs.AXES or needed in names:
            break
        names, failed = [name for name in original.arguments if name in {*names, needed}], None
    reason = "these have no layout" if failed is None else reason_of(original, failed, names)
    raise UnsupportedError(f"{original.architecture} does not run on {', '.join(names)} alone: {reason}")


def accepts(original: Original, layout: Layout, sizes: Sizes, case: TracedCase) -> bool:
    """Tell whether the original itself takes the sizes of a case."""
    try:
        original.run(values_of(original, layout, sizes, case))
    except UnsupportedError:
        raise
    except Exception:  # whatever its modules raise for a wrong size
        return False
    return True


def values_of(original: Original, layout: Layout, sizes: Sizes, case: TracedCase) -> dict[str, np.ndarray]:
    """The inputs of a case; at the left, padding comes before the tokens."""
    values = filled(original, layout, resized(original, layout, sizes, case.changed), case.seed, case.ragged)
    if case.at_left:
        of_tokens = [name for name, axes in layout.items() if axes[:2] == inputs.TOKENS]
        values |= {name: values[name][:, ::-1].copy() for name in of_tokens}
    return values


def _refuse_random(original: Original, layout: Layout, sizes: Sizes) -> None:
    values = filled(original, layout, sizes, 0, False)
    first, second = original.run(values), original.run(values)
    for name, array in first.items():
        if array.shape != second[name].shape or not np.allclose(
            array, second[name], rtol=1e-4, equal_nan=True
        ):
            raise UnsupportedError(
                f"{original.architecture} gives random answers: {name} differs between two runs"
            )


def _differing(
    original: Original, tried: TracedGraph, accepted: list[TracedCase], tell: Tell
) -> dict[str, str]:
    """The axes at whose cases the graph differs, with the first difference; smallest sizes become `least`.

    Raises UnsupportedError for a difference at the sizes of the trace.
    """
    differences: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / GRAPH
        save(tried.model, path)
        try:
            session = open_session(path, "cpu", None, {})
        except BundleError as error:
            reason = plain(str(error).replace(str(path), "the graph"))
            raise UnsupportedError(f"{original.architecture}, traced: {reason}") from None
        read = session.inputs.keys()

        def run(**values: np.ndarray) -> dict[str, np.ndarray]:
            return session.run({name: value for name, value in values.items() if name in read})

        for case in cases.plan(original, tried.layout, tried.sizes, accepted):
            tell(case.name)
            difference = _difference(original, run, values_of(original, tried.layout, tried.sizes, case))
            if difference is None or (case.axis is None and differences):
                continue
            if case.axis is None:
                raise UnsupportedError(
                    f"{original.architecture}, traced, differs at {case.name}: {difference}"
                )
            differences[case.name] = difference
    return _wrong(tried, accepted, differences)


def _wrong(tried: TracedGraph, accepted: list[TracedCase], differences: dict[str, str]) -> dict[str, str]:
    """The axes that must be fixed, with the reason; those that are right from some size on are given it."""
    wrong: dict[str, str] = {}
    for axis in tried.varied:
        of_axis = [case for case in accepted if case.axis == axis]
        failed = [case for case in of_axis if case.name in differences]
        if not failed:
            continue
        right = [case.changed[axis] for case in of_axis if case.name not in differences]
        reason = f"at {failed[0].name} the graph differs: {differences[failed[0].name]}"
        least = min([*right, tried.sizes[axis]])
        if right and max(case.changed[axis] for case in failed) < least:
            tried.least[axis] = least
            tried.limits[axis] = reason
        else:
            wrong[axis] = reason
    return wrong


def _difference(original: Original, run: Callable, values: dict[str, np.ndarray]) -> str | None:
    try:
        failed = [check for check in judged(original, run, values) if not check.ok]
    except (AssertionError, EngineError, InputError) as error:
        return plain(first_line(error))
    return _worst(failed) if failed else None


def _worst(failed: list[TensorCheck]) -> str:
    check = max(failed, key=lambda one: one.error)
    if not isfinite(check.error):
        return f"{check.output} has another shape, or numbers that are not finite"
    return f"{check.output} is off by {check.error:.0e}"
