"""`compare`: two models over the same inputs, whichever tools made them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from txexport import bundle
from txexport.contracts import roles
from txexport.errors import InputError
from txexport.support.arguments import arguments_from
from txexport.support.progress import naming
from txexport.verification import environment
from txexport.verification.attempt import CaseProgress, attempt
from txexport.verification.bounds import tolerance
from txexport.verification.checks import Reach, TensorCheck
from txexport.verification.comparison import pairs
from txexport.verification.comparison.inputs import Choices
from txexport.verification.comparison.models import Graph, Module, Renamed, Side, module_of, one_sided
from txexport.verification.comparison.options import CompareOptions
from txexport.verification.process_state import undisturbed
from txexport.verification.result import COMPARISON, Report

ModelOrPath = Any  # a path, "package.module:function", or a torch.nn.Module
Run = Callable[[], list[TensorCheck]]
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class CompareArguments:
    """The arguments of `compare`, whose docstring describes them."""

    a: ModelOrPath
    b: ModelOrPath
    _: KW_ONLY
    inputs: Sequence[str | Path | Mapping[str, Any]] = ()
    match: Mapping[str, str] | None = None
    outputs: Sequence[str] = ()
    ranges: Mapping[str, tuple[int, int]] | None = None
    dims: Mapping[str, int] | None = None
    lengths: Sequence[int] = ()
    tolerance: float | None = None
    cases: str | Sequence[str] = "full"
    device: str = "cpu"
    progress: CaseProgress | bool | None = None

    @property
    def options(self) -> CompareOptions:
        """The options without None."""
        return CompareOptions(
            inputs=self.inputs,
            match=self.match or {},
            outputs=self.outputs,
            choices=Choices(self.ranges or {}, self.dims or {}, self.lengths),
            tolerance=self.tolerance,
            cases=self.cases,
            device=self.device,
        )


@arguments_from(CompareArguments)
@undisturbed
def compare(arguments: CompareArguments) -> Report:
    """Compare two models by names that both have: whole tensors, every output.

    Each is an ONNX file, a bundle, a folder of another tool's export, "package.module:function" that returns
    a torch.nn.Module, or such a module.

    A bundle is compared by the cases of `verify`, with the other side as the reference, by the names of the
    ecosystem's contract. Otherwise both read the same `inputs`, .npz files or arrays by name; without them,
    seeded inputs for the declared ports: batches of 1, 2, 3 and 9, padding right and left, several lengths of
    the past, rows of 384 tokens or the most that they accept, and further `lengths`.

    `ranges` are those of integers (low, high excluded) that no embedding limits, `dims` are sizes of symbolic
    dimensions. `match` maps names of `a` to those of `b`. An output of one side alone is a failure, unless
    `outputs` are named, which alone are compared then. `tolerance` is the bound, by default float32's for the
    model's size. `progress` is called with each case's name; True prints it.

    Raises InputError, BundleError, UnsupportedError if the two cannot be compared.
    """
    a, b, options = arguments.a, arguments.b, arguments.options
    kinds = [_kind(model) for model in (a, b)]
    reach: Reach = {}
    progress = naming(arguments.progress)
    if "bundle" in kinds and "module" not in kinds:
        from txexport.verification.comparison.against_bundle import compare_with_bundle  # which needs PyTorch

        _refuse(options)
        report = compare_with_bundle(Path(a), Path(b), options, progress)
    elif kinds == ["folder", "folder"]:
        report = _report(a, b, _of_folders(Path(a), Path(b), options, reach), options, reach, progress)
    elif "folder" in kinds:
        raise InputError(
            f"{a} and {b}: a folder is compared with a folder or a bundle; name one of its files"
        )
    else:
        sides = [_side(model, kind, options.device) for model, kind in zip((a, b), kinds, strict=True)]
        report = _report(a, b, _of_sides(sides[0], sides[1], options, reach), options, reach, progress)
    return replace(report, command=_command(a, b, options))


def _kind(model: ModelOrPath) -> str:
    """The kind of a side: module, file, folder or bundle."""
    if not isinstance(model, str | Path):
        if not hasattr(model, "forward"):
            raise InputError(
                f"a {type(model).__name__} is not compared; expected a path or a torch.nn.Module"
            )
        return "module"
    path = Path(model)
    if bundle.is_bundle(path):
        return "bundle"
    if path.is_dir():
        return "folder"
    if path.is_file():
        return "file"
    if FUNCTION.fullmatch(str(model)):
        return "module"
    raise InputError(f"{model} is neither a file nor a folder, nor a function as package.module:function")


def _side(model: ModelOrPath, kind: str, device: str) -> Side:
    if kind == "module":
        return module_of(model) if isinstance(model, str) else Module(model, type(model).__name__)
    if kind == "file":
        return Graph(model, device)
    graphs = list(bundle.read(model).graphs.values())
    if len(graphs) > 1:
        files = " or ".join(str(Path(model) / graph.file) for graph in graphs)
        raise InputError(f"{model} has several graphs; name one of them: {files}")
    return Graph(Path(model) / graphs[0].file, device)


def _refuse(options: CompareOptions) -> None:
    """Raise InputError for options that a comparison by a bundle's own cases cannot use."""
    if options.inputs or options.match or options.choices != Choices():
        raise InputError(
            "a bundle has its own cases; name its .onnx file to give inputs, names, ranges, sizes or lengths"
        )


def _of_sides(a: Side, b: Side, options: CompareOptions, reach: Reach) -> dict[str, Run]:
    """The cases of two sides by name; they fill `reach` as they run."""
    if isinstance(a, Module) and isinstance(b, Module):
        raise InputError("two PyTorch modules declare no inputs; one of the two must be an ONNX file")
    pairs.check_names(a, b, options.match, options.outputs)
    b = Renamed(b, {theirs: ours for ours, theirs in options.match.items()}) if options.match else b
    bound = tolerance(pairs.parameters(a, b)) if options.tolerance is None else options.tolerance
    feeds = pairs.feeds(a, b, options.inputs, options.choices)
    return dict(pairs.Pair(a, b, options.outputs, bound, reach).runs(feeds))


def _of_folders(a: Path, b: Path, options: CompareOptions, reach: Reach) -> dict[str, Run]:
    """The cases of every graph that both folders have, and one for files of one folder alone."""
    ours, theirs = ({file.name for file in folder.glob(f"*{roles.SUFFIX}")} for folder in (a, b))
    if not ours & theirs:
        raise InputError(f"{a} and {b} have no .onnx file of the same name")
    result: dict[str, Run] = {"files": partial(_files, a, b, ours, theirs)}
    for name in sorted(ours & theirs):
        sides = [Graph(folder / name, options.device) for folder in (a, b)]
        runs = _of_sides(sides[0], sides[1], options, reach)
        result |= {f"{name}: {case}": run for case, run in runs.items()}
    return result


def _files(a: Path, b: Path, ours: set[str], theirs: set[str]) -> list[TensorCheck]:
    """Raise AssertionError for a file of one folder alone."""
    message = one_sided(str(a), ours, str(b), theirs)
    if message:
        raise AssertionError(message)
    return [TensorCheck(name, 1, 0.0, 0.0) for name in sorted(ours)]


def _report(
    a: ModelOrPath,
    b: ModelOrPath,
    runs: dict[str, Run],
    options: CompareOptions,
    reach: Reach,
    progress: CaseProgress | None,
) -> Report:
    """The report of the wanted cases."""
    name, other = label(a), label(b)
    cases = []
    for case in _selected(runs, options.cases):
        if progress is not None:
            progress(case)
        cases.append(attempt(case, other, runs[case]))
    return Report(
        bundle=name,
        model_type="onnx",
        task=COMPARISON,
        runtime=f"onnxruntime {options.device}",
        versions=environment.versions(),
        cases=cases,
        environment=environment.environment(),
        selection=options.cases if isinstance(options.cases, str) else list(options.cases),
        device=options.device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        reach=reach,
    )


def _selected(runs: Mapping[str, Run], cases: str | Sequence[str]) -> list[str]:
    if cases in ("full", "quick"):
        return list(runs)
    if isinstance(cases, str) or not cases:
        raise InputError(f"cases are {cases!r}, expected 'quick', 'full' or a list of names")
    unknown = [case for case in cases if case not in runs]
    if unknown:
        known = ", ".join(f"'{case}'" for case in runs)
        raise InputError(f"this comparison has no case '{unknown[0]}'; expected some of {known}")
    return [case for case in runs if case in cases]


def label(model: ModelOrPath) -> str:
    """The name of a side in a report."""
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def _command(a: ModelOrPath, b: ModelOrPath, options: CompareOptions) -> list[str]:
    """The command that repeats the comparison; empty if a shell cannot name the models."""
    if not all(isinstance(model, str | Path) for model in (a, b, *options.inputs)):
        return []
    arguments = ["txexport", "compare", label(a), label(b)]
    for file in options.inputs:
        arguments += ["--inputs", str(file)]
    for option, named in (("--match", options.match), ("--dim", options.choices.dims)):
        for name, value in named.items():
            arguments += [option, f"{name}={value}"]
    for name, (low, high) in options.choices.ranges.items():
        arguments += ["--range", f"{name}={low}:{high}"]
    for option, values in (("--output", options.outputs), ("--length", options.choices.lengths)):
        for value in values:
            arguments += [option, str(value)]
    arguments += ["--tolerance", f"{options.tolerance!r}"] if options.tolerance is not None else []
    return arguments + (["--device", options.device] if options.device != "cpu" else [])
