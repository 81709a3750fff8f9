"""Run every case that applies to a bundle, and report."""

import math
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from txexport import bundle, families, parameters
from txexport.checkpoint import Checkpoint
from txexport.errors import CheckpointError, InputError, TxexportError, UnsupportedError
from txexport.parity import cases, contents
from txexport.parity.report import CaseReport, Report, TensorCheck, tolerance
from txexport.runtime import Model, load
from txexport.spec import EmbeddingSpec, HeadKind, ModelSpec, StackSpec

Run = Callable[[], list[TensorCheck]]
Progress = Callable[[str], None]
Bind = Callable[[Callable, Any], tuple[str, Run]]


def verify(
    out: str | Path,
    *,
    source: str | Path | None = None,
    reference: str | None = None,
    device: str | None = "cpu",
    progress: Progress | None = None,
) -> Report:
    """Compare the bundle `out` with its original: its contents, and every case that applies.

    `source` is the checkpoint, by default the folder that it was exported from; it must still hold the files
    that were exported. `reference` is "twin", our PyTorch components, or "transformers", the original; by
    default both, the latter where it is installed. `progress` is told each case's name before it runs. A
    case that raises is a failure in the report; what keeps the comparison from being tried at all raises
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
    originals = _originals(reference, checkpoint, resolved)
    model = load(out, device=device, check=False)  # what is altered must show in the numbers
    bound = tolerance(sum(math.prod(shape) for shape in parameters.model(resolved.spec).values()))
    found = [*_contents(model, checkpoint, resolved)]
    for name, original in originals.items():
        if isinstance(original, str):
            found.append(CaseReport("all cases", name, skipped=original))
            continue
        for case, run in _runs(model, original, resolved.spec, bound):
            if isinstance(run, str):
                found.append(CaseReport(case, name, skipped=run))
                continue
            if progress is not None:
                progress(f"{case} ({name})")
            found.append(_try(case, name, run))
    return Report(
        bundle=str(out),
        model_type=resolved.model_type,
        task=resolved.task,
        runtime=f"onnxruntime {model.device}",
        versions=_versions(),
        cases=found,
    )


def _originals(reference: str | None, checkpoint: Checkpoint, resolved: families.Resolved) -> dict:
    """The references by name; in place of one that is not needed and not there, why."""
    try:
        from txexport.parity.references import REFERENCES
    except ImportError:
        raise UnsupportedError("verify needs PyTorch, which is not installed") from None
    if reference is not None and reference not in REFERENCES:
        raise InputError(f"reference '{reference}' is not known; expected one of {', '.join(REFERENCES)}")
    originals: dict = {}
    for name, kind in REFERENCES.items():
        if reference not in (None, name):
            continue
        if reference is None and name == "transformers" and find_spec("transformers") is None:
            originals[name] = "transformers is not installed"
            continue
        try:
            originals[name] = kind(checkpoint, resolved)
        except TxexportError:
            raise
        except Exception as error:  # a library's refusal of the checkpoint, in whatever form
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnsupportedError(
                f"reference '{name}' could not be made of {checkpoint.folder}: {said}"
            ) from error
    return originals


def _contents(model: Model, checkpoint: Checkpoint, resolved: families.Resolved) -> Iterator[CaseReport]:
    def weights() -> list[TensorCheck]:
        return contents.check_weights(model, checkpoint, resolved)

    def manifest() -> list[TensorCheck]:
        contents.check_manifest(model, checkpoint, resolved)
        return [TensorCheck("txexport.json", 1, 0.0, 0.0)]

    yield _try("every weight", "checkpoint", weights)
    yield _try("manifest and copied files", "checkpoint", manifest)


def _try(name: str, reference: str, run: Run) -> CaseReport:
    try:
        return CaseReport(name, reference, run())
    except MemoryError:
        raise UnsupportedError(f"case '{name}' does not fit into this machine's memory") from None
    except Exception as error:  # whatever stops a case is a failure of the bundle, and is reported
        return CaseReport(name, reference, exception=f"{type(error).__name__}: {error}")


def _runs(model: Model, original, spec: ModelSpec, bound: float) -> Iterator[tuple[str, Run | str]]:
    """Each case's name, and how to run it or why it does not apply."""
    from txexport.parity import runs

    def bind(run: Callable, case: Any) -> tuple[str, Run]:
        return case.name, lambda: run(model, original, case, bound)

    if spec.towers is not None:
        for pair in cases.tower_cases(spec.towers):
            yield bind(runs.run_towers, pair)
    elif spec.decoder is None:
        assert spec.encoder is not None
        yield from _encoder_runs(spec, spec.encoder, bind)
    else:
        yield from _decoder_runs(model.manifest.cache == "static", spec, spec.decoder, bind)


def _encoder_runs(spec: ModelSpec, encoder: StackSpec, bind: Bind) -> Iterator[tuple[str, Run | str]]:
    from txexport.parity import runs

    if not isinstance(encoder.embedding, EmbeddingSpec):
        for signals in cases.signal_cases(encoder.embedding.input[1]):
            yield bind(runs.run_signals, signals)
        return
    words, run = encoder.words, runs.run_encoder
    if spec.head.kind == HeadKind.CHOICES:
        run = runs.run_choices
    padding, window = spec.head.padding, _widest(encoder)
    for batch in cases.encoder_cases(words.vocab_size, words.segments, encoder.limit, window, padding):
        yield bind(run, batch)


def _decoder_runs(
    static: bool, spec: ModelSpec, decoder: StackSpec, bind: Bind
) -> Iterator[tuple[str, Run | str]]:
    from txexport.parity import runs

    words, crossed = decoder.words.vocab_size, spec.encoder is not None
    for rows in cases.decoder_cases(
        words,
        decoder.limit,
        ragged=static or not crossed,
        left=not static and not crossed,
        window=_widest(decoder),
        source=spec.encoder,
    ):
        yield bind(runs.run_decoder, rows)
    for prompts in cases.greedy_cases(words, decoder.limit, spec.encoder):
        yield bind(runs.run_greedy, prompts)
    if static:
        yield "left padding", "a static cache pads on the right"
    elif crossed:
        yield "ragged decoder rows", "the dynamic encoder-decoder contract has no decoder mask"


def _widest(stack: StackSpec) -> int | None:
    """The widest window of a stack's layers."""
    windows = [block.attention.window for block in stack.blocks if block.attention.window is not None]
    return max(windows, default=None)


def _versions() -> dict[str, str]:
    found = {}
    for name in ("txexport", "onnxruntime-gpu", "onnxruntime", "torch", "transformers", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
