"""The plan of a verification: checkpoint, references, runtimes and cases, before any of them runs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from txexport import bundle, families
from txexport.bundle.form import ExportOptions
from txexport.bundle.source import ADVICE, changed, source_of
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import roles
from txexport.errors import CheckpointError, InputError
from txexport.formats import DEFAULT, DTYPES, Dtype, NumberFormat
from txexport.parts import parameters
from txexport.runtime.bundle_files import BundleFiles
from txexport.spec import ModelSpec
from txexport.verification import bundle_contents, calibrated, identity, processors, runtimes
from txexport.verification.bounds import tolerance
from txexport.verification.checks import CALIBRATED, HUB, IDENTITY, NATIVE, RUNTIME, TensorCheck, of_dtype
from txexport.verification.losses import budgets_of
from txexport.verification.references.selection import originals_of, reference_kinds
from txexport.verification.runtimes import Runtime
from txexport.verification.verify_arguments import VerifyArguments

if TYPE_CHECKING:
    from txexport.verification.cases.plan import PlannedCase
    from txexport.verification.references.reference import Reference
    from txexport.verification.text_losses import TextLosses

Contents = dict[str, Callable[..., list[TensorCheck]]]  # checks of files, by the names of their cases
Views = dict[str, bundle.Manifest]  # by the kind and dtype of the graphs, as in CaseReport


@dataclass(frozen=True)
class VariantPlan:
    """The plan for one variant of the graphs: those of one kind and dtype, named as in CaseReport.

    `references` compute with the numbers that the dtype keeps. A variant of an inexact dtype also has
    `float32`, references with the checkpoint's own numbers; `budgets` of what it may lose of them, and of
    answers to `texts`; and the number `formats` of its parameters. `runtimes` have the reason why one cannot
    run.
    """

    name: str
    manifest: bundle.Manifest  # of these graphs alone
    references: "dict[str, Reference]"
    cases: "list[PlannedCase]"
    runtimes: dict[Runtime, str | None]
    layers: bool = False
    float32: "dict[str, Reference]" = field(default_factory=dict)
    budgets: dict[str, float] = field(default_factory=dict)
    formats: Mapping[str, NumberFormat] = field(default_factory=dict)
    texts: "TextLosses | None" = None

    @property
    def dtype(self) -> Dtype:
        """The dtype of the graphs."""
        return self.manifest.form.dtype(self.manifest.dtype)


@dataclass(frozen=True)
class VerifyPlan:
    """A bundle, its checkpoint, and all that a verification runs on them.

    `digests` are SHA-256 by file, taken before anything else was read. `references` has a reason in place of
    a reference that is missing. `names` are those of the chosen cases, `contents` included; `bound` is that
    of single components.
    """

    folder: Path
    arguments: VerifyArguments
    digests: dict[str, str]
    manifest: bundle.Manifest
    checkpoint: Checkpoint
    resolved: families.Resolved
    references: "dict[str, Reference | str]"
    contents: Contents
    names: set[str]
    bound: float
    variants: list[VariantPlan] = field(default_factory=list)

    @property
    def spec(self) -> ModelSpec:
        """The model's spec."""
        return self.resolved.spec

    @property
    def present(self) -> "dict[str, Reference]":
        """The references that could be created."""
        return {name: one for name, one in self.references.items() if not isinstance(one, str)}

    @property
    def missing(self) -> dict[str, str]:
        """The reasons why the others could not, by name."""
        return {name: reason for name, reason in self.references.items() if isinstance(reason, str)}


def plan_of(arguments: VerifyArguments) -> VerifyPlan:
    """Read the bundle and its checkpoint, check the arguments, and create the references.

    Raises BundleError, CheckpointError, InputError, UnsupportedError, OSError.
    """
    folder = Path(arguments.out)
    digests = bundle.files_sha256(folder)
    manifest = bundle.read(folder)
    checkpoint = checkpoint_of(arguments, manifest)
    model_type = None if checkpoint.config.get("model_type") else manifest.model_type  # an option of export
    resolved = families.resolve(checkpoint, manifest.task, model_type)
    kinds = reference_kinds(arguments.reference, resolved.model_type, arguments.torch_onnx)
    views = _views(manifest)
    budgets = _budgets(views, arguments)
    chosen = runtimes.choose(arguments.runtime, folder, views, arguments.device)
    if arguments.layers:
        _check_layers(
            manifest.form, kinds, [one for graphs, one in chosen.items() if graphs.startswith(NATIVE)]
        )
    if arguments.client is not None:
        from txexport.verification.clients import judged  # which needs PyTorch

        judged.check(arguments.client, folder, manifest)
    contents = _contents(manifest, arguments)
    cases, names = _cases(folder, views, resolved.spec, arguments, contents)
    runs = any(cases.values())
    references = originals_of(kinds, checkpoint, resolved, manifest.form.outputs) if runs else {}
    plan = VerifyPlan(
        folder,
        arguments,
        digests,
        manifest,
        checkpoint,
        resolved,
        references,
        contents,
        names,
        bound=tolerance(sum(math.prod(shape) for shape in parameters(resolved.spec).values())),
    )
    return replace(plan, variants=_variants(plan, kinds, views, cases, chosen, budgets))


def _variants(
    plan: VerifyPlan,
    kinds: dict,
    views: Views,
    cases: "dict[str, list[PlannedCase]]",
    chosen: dict[str, dict[Runtime, str | None]],
    budgets: dict[str, dict[str, float]],
) -> list[VariantPlan]:
    """The plans of all variants. Those of one dtype share its references."""
    from txexport.verification.references.dequantised import dequantised_checkpoint  # which needs PyTorch
    from txexport.verification.text_losses import TextLosses

    manifest, present, resolved = plan.manifest, plan.present, plan.resolved
    checkpoints = {
        dtype: dequantised_checkpoint(plan.folder, plan.checkpoint, resolved, manifest.form, dtype)
        for dtype in {views[name].dtype: None for name in budgets}
    }
    references = {DEFAULT: present}
    for dtype, checkpoint in checkpoints.items() if present else ():
        of_present = {name: kinds[name] for name in present}
        references[dtype] = originals_of(of_present, checkpoint, resolved, manifest.form.outputs)
    texts = None
    if plan.arguments.texts is not None and budgets:
        texts = TextLosses(plan.folder, manifest, plan.checkpoint, Path(plan.arguments.texts))
    variants = []
    for name, view in views.items():
        native, inexact = name.startswith(NATIVE), name in budgets
        of_dtype = references.get(view.dtype, {})
        variant = VariantPlan(
            name,
            view,
            dict(of_dtype) if native else independent(of_dtype),
            cases[name],
            chosen[name],
            layers=plan.arguments.layers and native,
            float32=independent(present) if inexact else {},
            budgets=budgets.get(name, {}),
            formats=checkpoints[view.dtype].formats if inexact else {},
            texts=texts if native or manifest.form.only == "hub" else None,
        )
        variants.append(variant)
    return variants


def checkpoint_of(arguments: VerifyArguments, manifest: bundle.Manifest) -> Checkpoint:
    """The checkpoint. Raises CheckpointError unless its files are those that were exported."""
    checkpoint = source_of(Path(arguments.out), manifest, arguments.source, arguments.adapter)
    if files := changed(checkpoint, manifest.source):
        raise CheckpointError(
            f"{checkpoint.folder} is not what was exported: {', '.join(files)} differs; {ADVICE}"
        )
    return checkpoint


def independent(references: "dict[str, Reference]") -> "dict[str, Reference]":
    """The references without the twin, unless it is the only one: native graphs are compared with it."""
    return {name: one for name, one in references.items() if name != "twin"} or references


def _views(manifest: bundle.Manifest) -> Views:
    """The manifest of each variant alone."""
    views = {}
    for dtype in manifest.form.dtypes:
        of_one = manifest.of_dtype(dtype)
        if of_one.native:
            views[of_dtype(NATIVE, dtype)] = of_one
        if of_one.hub:
            views[of_dtype(HUB, dtype)] = of_one.for_others
    return views


def _budgets(views: Views, arguments: VerifyArguments) -> dict[str, dict[str, float]]:
    """The budgets of each variant of an inexact dtype. Raises InputError for one that applies to none."""
    own, texts = arguments.budget or {}, arguments.texts is not None
    inexact = {name: DTYPES[view.dtype] for name, view in views.items() if not DTYPES[view.dtype].exact}
    budgets = {name: budgets_of(dtype.name, own, texts) for name, dtype in inexact.items()}
    if own and not budgets:
        raise InputError(f"budget is for number formats, but the bundle has only {DEFAULT}")
    return budgets


def _check_layers(form: ExportOptions, kinds: dict, chosen: Sequence[Iterable[Runtime]]) -> None:
    """Raise InputError if layers have no twin to be compared with, or no runtime that runs them."""
    computed = next((name for name in form.dtypes if not form.dtype(name).single), None)
    if computed is not None:
        raise InputError(f"layers are compared in float32, and graphs of {computed} compute in it")
    if not chosen:
        raise InputError("layers are those of our runtime's graphs, which the bundle lacks; leave out --only")
    if "twin" not in kinds:
        raise InputError(
            f"layers are compared with the twin, not {', '.join(kinds)}; leave out the reference, or name it"
        )
    if not any(RUNTIME in {runtime.name for runtime in one} for one in chosen):
        raise InputError(f"layers are compared in {RUNTIME}; name it among the runtimes")


def _contents(manifest: bundle.Manifest, arguments: VerifyArguments) -> Contents:
    """The checks of the bundle's files and of its processors."""
    contents: Contents = dict(bundle_contents.CHECKS)
    contents[IDENTITY] = partial(identity.check_graphs, allow_edited=arguments.allow_edited)
    if manifest.form.calibrated:
        texts = None if arguments.texts is None else Path(arguments.texts)
        contents[CALIBRATED] = partial(calibrated.check_texts, texts=texts)
    return contents | processors.checks(manifest, quick=arguments.cases == "quick")


def _cases(
    folder: Path, views: Views, spec: ModelSpec, arguments: VerifyArguments, contents: Contents
) -> "tuple[dict[str, list[PlannedCase]], set[str]]":
    """The chosen cases of each variant, and the names of all chosen cases, those of contents included."""
    from txexport.verification.cases.plan import computed, plan, select  # which needs PyTorch
    from txexport.verification.cases.texts import plan_texts

    seeded, of_texts = {}, {}
    native = any(name.startswith(NATIVE) for name in views)
    for name, view in views.items():
        hub = name.startswith(HUB)
        seeded[name] = plan(spec, static=view.cache == "static", outputs=view.form.outputs, hub=hub)
        of_texts[name] = plan_texts(BundleFiles(folder), view, spec, arguments.texts)
        if hub and (native or roles.ENCODER in view.graphs):
            seeded[name], of_texts[name] = computed(seeded[name]), computed(of_texts[name])
    cases = {name: [*seeded[name], *of_texts[name]] for name in views}
    names = select([case for of_view in cases.values() for case in of_view], arguments.cases, contents)
    if isinstance(arguments.cases, str):
        names |= {CALIBRATED} & contents.keys()
    if arguments.texts is not None and isinstance(arguments.cases, str):
        names |= {case.name for of_view in of_texts.values() for case in of_view} | contents.keys()
    return {name: [case for case in of_view if case.name in names] for name, of_view in cases.items()}, names
