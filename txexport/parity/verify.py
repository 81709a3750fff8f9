"""Run every case that applies to a bundle, and report."""

import math
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from txexport import bundle, families, parameters
from txexport.checkpoint import Checkpoint
from txexport.errors import CheckpointError, InputError, UnsupportedError
from txexport.parity import cases
from txexport.parity.report import CaseReport, Report, TensorCheck, tolerance
from txexport.runtime import Model, load
from txexport.spec import ModelSpec

Run = Callable[[], list[TensorCheck]]
Progress = Callable[[str], None]


def verify(
    bundle_folder: str | Path,
    *,
    source: str | Path | None = None,
    reference: str = "twin",
    device: str | None = "cpu",
    progress: Progress | None = None,
) -> Report:
    """Compare the bundle in `bundle_folder` with its original on every case that applies.

    `source` is the checkpoint, by default the folder that it was exported from; it must still hold the files
    that were exported. `reference` is "twin", our PyTorch components, or "transformers". `progress` is told
    each case's name before it runs. A case that raises is a failure in the report; what keeps the
    comparison from being tried at all raises BundleError, CheckpointError, UnsupportedError or InputError.
    """
    manifest = bundle.read(bundle_folder)
    checkpoint = Checkpoint(source or manifest.source.path)
    changed = [
        name for name, digest in checkpoint.hashes().items() if manifest.source.sha256.get(name) != digest
    ]
    if changed:
        raise CheckpointError(f"{checkpoint.folder} is not what was exported: {', '.join(changed)} differs")
    resolved = families.understand(checkpoint, manifest.task)
    original = _reference(reference)(checkpoint, resolved)
    model = load(bundle_folder, device=device)
    bound = tolerance(sum(math.prod(shape) for shape in parameters.model(resolved.spec).values()))
    found = []
    for name, run in _runs(model, original, resolved.spec, bound):
        if isinstance(run, str):
            found.append(CaseReport(name, skipped=run))
            continue
        if progress is not None:
            progress(name)
        try:
            found.append(CaseReport(name, run()))
        except Exception as error:  # whatever stops a case is a failure of the bundle, and is reported
            found.append(CaseReport(name, exception=f"{type(error).__name__}: {error}"))
    return Report(
        bundle=str(bundle_folder),
        model_type=manifest.model_type,
        task=manifest.task,
        reference=original.name,
        runtime=f"onnxruntime {model.device}",
        versions=_versions(),
        cases=found,
    )


def _reference(name: str):
    try:
        from txexport.parity.references import REFERENCES
    except ImportError:
        raise UnsupportedError("verify needs PyTorch; pip install 'txexport[torch]'") from None
    if name not in REFERENCES:
        raise InputError(f"reference '{name}' is not known; expected one of {', '.join(REFERENCES)}")
    return REFERENCES[name]


def _runs(model: Model, original, spec: ModelSpec, bound: float) -> Iterator[tuple[str, Run | str]]:
    """Each case's name, and how to run it or why it does not apply."""
    from txexport.parity import runs

    def bind(run: Callable, case) -> tuple[str, Run]:
        return case.name, lambda: run(model, original, case, bound)

    manifest, words = model.manifest, spec.stack.embedding.vocab_size
    if spec.decoder is None:
        assert spec.encoder is not None
        segments, limit = spec.encoder.embedding.segments, manifest.limits["encoder"]
        for batch in cases.encoder_cases(words, segments, limit):
            yield bind(runs.run_encoder, batch)
        return
    static, crossed = manifest.cache == "static", spec.encoder is not None
    limit = manifest.limits["decoder"]
    for rows in cases.decoder_cases(
        words,
        limit,
        ragged=static or not crossed,
        left=not static and not crossed,
        sources=crossed,
        source_limit=manifest.limits.get("encoder"),
    ):
        yield bind(runs.run_decoder, rows)
    for prompts in cases.greedy_cases(words, limit):
        yield bind(runs.run_greedy, prompts)
    if static:
        yield "left padding", "a static cache pads on the right"
    elif crossed:
        yield "ragged decoder rows", "the dynamic encoder-decoder contract has no decoder mask"


def _versions() -> dict[str, str]:
    found = {}
    for name in ("txexport", "onnxruntime-gpu", "onnxruntime", "torch", "transformers", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
