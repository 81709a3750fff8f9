"""Run every case that applies to a bundle, and report."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from txexport import bundle, families, parameters
from txexport.checkpoint import Checkpoint
from txexport.errors import CheckpointError, InputError, TxexportError, UnsupportedError
from txexport.parity import contents, environment
from txexport.parity.report import CHECKPOINT, CaseReport, Report, TensorCheck, tolerance
from txexport.runtime import Model, load

if TYPE_CHECKING:
    from txexport.parity.plan import Planned
    from txexport.parity.references import Reference

Run = Callable[[], list[TensorCheck]]
Progress = Callable[[str], None]


def verify(
    out: str | Path,
    *,
    source: str | Path | None = None,
    reference: str | None = None,
    device: str | None = "cpu",
    cases: str | Sequence[str] = "full",
    layers: bool = False,
    texts: str | Path | None = None,
    third: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Compare the bundle `out` with its original: its contents, and every case that applies.

    `source` is the checkpoint, by default the folder that it was exported from; it must still hold the files
    that were exported. `reference` is "twin", our PyTorch components, or "transformers", the original; by
    default both, the latter where it is installed. "float64" is the twin in float64: each check then says
    what it is off by in float32, too, which is rounding. `cases` are "full", "quick" for a handful, or names
    that a report gave, whose cases are repeated as they were. `layers` compares every component beside its
    PyTorch module too, on the inputs of each case: the report's `layers` say which one is wrong. `texts` is a
    file of real inputs, one a line, that the bundle's tokenizer reads: cases of their own; where a task takes
    pairs, or a translation has a target, two with a tab between them. What is too long is cut. `third` holds
    the bundle against "torch.onnx" too: the twin as PyTorch's own exporter writes it, or in the report why it
    cannot. `progress` is told each case's name before it runs. A case that raises is a failure in the report;
    what keeps the comparison from being tried at all raises OSError for a file that cannot be read, or
    BundleError, CheckpointError, UnsupportedError or InputError.
    """
    manifest = bundle.read(out)
    checkpoint = Checkpoint(source or manifest.source.path)
    changed = [
        name for name, digest in checkpoint.hashes().items() if manifest.source.sha256.get(name) != digest
    ]
    if changed:
        raise CheckpointError(f"{checkpoint.folder} is not what was exported: {', '.join(changed)} differs")
    resolved = families.understand(checkpoint, manifest.task)
    kinds = _kinds(reference, third)
    if layers and "twin" not in kinds:
        raise InputError("layers are held against the twin; leave out the reference, or name that")
    from txexport.parity.plan import plan, select  # which needs PyTorch
    from txexport.parity.texts import plan_texts

    model = load(out, device=device, check=False)  # what is altered must show in the numbers
    planned = plan(resolved.spec, static=manifest.cache == "static")
    written = plan_texts(model, resolved.spec, texts)
    names = select([*planned, *written], cases)
    if texts is not None and isinstance(cases, str):
        names |= {case.name for case in written}
    planned += written
    planned = [case for case in planned if case.name in names]
    originals = _originals(kinds, checkpoint, resolved) if planned else {}
    found = [
        _try(name, CHECKPOINT, partial(run, model, checkpoint, resolved))
        for name, run in contents.CHECKS.items()
        if name in names
    ]
    bound = tolerance(sum(math.prod(shape) for shape in parameters.model(resolved.spec).values()))
    probe = None
    if layers and planned:
        from txexport.parity.layers.probe import Probe

        probe = Probe(model, originals["twin"], resolved.spec, bound)
    for name, original in originals.items():
        tried = planned
        if name == "twin" and probe is not None:
            tried = probe.through(planned)
        elif name == "float64":
            tried = original.through(planned)
        found += _against(name, original, tried, model, bound, progress)
    return Report(
        bundle=str(out),
        model_type=resolved.model_type,
        task=resolved.task,
        runtime=f"onnxruntime {model.device}",
        versions=environment.versions(),
        cases=found,
        environment=environment.environment(),
        checkpoint_sha256=manifest.source.sha256,
        bundle_sha256=manifest.files_sha256,
        selection=cases if isinstance(cases, str) else list(cases),
        source=None if source is None else str(source),
        device=model.device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        layers=None if probe is None else probe.report(),
        texts=None if texts is None else str(texts),
    )


def _kinds(reference: str | None, third: bool) -> dict:
    """The classes of references by name; in place of one that is not needed and not there, why."""
    try:
        from txexport.parity.double import Double
        from txexport.parity.references import REFERENCES
        from txexport.parity.third import Third
    except ImportError:
        raise UnsupportedError("verify needs PyTorch, which is not installed") from None
    known = {**REFERENCES, "float64": Double, "torch.onnx": Third}
    if reference is not None and reference not in known:
        raise InputError(f"reference '{reference}' is not known; expected one of {', '.join(known)}")
    kinds: dict = dict(REFERENCES) if reference is None else {reference: known[reference]}
    if third:
        kinds["torch.onnx"] = Third
    if reference is None and find_spec("transformers") is None:
        kinds["transformers"] = "transformers is not installed"
    return kinds


def _originals(kinds: dict, checkpoint: Checkpoint, resolved: families.Resolved) -> dict:
    """The references by name, made of the checkpoint."""
    originals: dict = {}
    for name, kind in kinds.items():
        if isinstance(kind, str):
            originals[name] = kind
            continue
        try:
            originals[name] = kind(checkpoint, resolved)
        except TxexportError as error:
            if name != "torch.onnx" or len(kinds) == 1:
                raise
            originals[name] = str(error)  # beside others, what it cannot do is no failure
        except Exception as error:  # a library's refusal of the checkpoint, in whatever form
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnsupportedError(
                f"reference '{name}' could not be made of {checkpoint.folder}: {said}"
            ) from error
    return originals


def _against(
    name: str,
    original: "Reference | str",
    planned: "list[Planned]",
    model: Model,
    bound: float,
    progress: Progress | None,
) -> Iterator[CaseReport]:
    """The planned cases against one reference, or why it is not there."""
    if isinstance(original, str):
        yield CaseReport("all cases", name, skipped=original)
        return
    for case in planned:
        if case.run is None:
            yield CaseReport(case.name, name, skipped=case.skipped)
            continue
        if progress is not None:
            progress(f"{case.name} ({name})")
        yield _try(case.name, name, partial(case.run, model, original, case.case, bound))


def _try(name: str, reference: str, run: Run) -> CaseReport:
    start = time.perf_counter()

    def report(checks: list[TensorCheck], exception: str | None = None) -> CaseReport:
        seconds = round(time.perf_counter() - start, 3)
        return CaseReport(name, reference, checks, exception, seconds=seconds)

    try:
        return report(run())
    except MemoryError:
        raise UnsupportedError(f"case '{name}' does not fit into this machine's memory") from None
    except Exception as error:  # whatever stops a case is a failure of the bundle, and is reported
        return report([], f"{type(error).__name__}: {error}")
