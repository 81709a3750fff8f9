"""`verify` of another tool's export: every case that its graphs take, beside the class of transformers."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from txexport.bundle.source import name_of
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.hub import opened as opened_checkpoint
from txexport.contracts import roles
from txexport.errors import InputError, TxexportError, UnsupportedError
from txexport.support.paths import sha256
from txexport.support.progress import Naming
from txexport.verification import environment
from txexport.verification.attempt import attempt
from txexport.verification.checks import CHECKPOINT, IDENTITY, RUNTIME, CaseReport, TensorCheck
from txexport.verification.exports.decoding import Decoding
from txexport.verification.exports.graphs import DecoderGraphs, Piece
from txexport.verification.exports.layouts import merged_beside, opened
from txexport.verification.exports.one_pass import OnePass
from txexport.verification.result import Report
from txexport.verification.traced.originals import original
from txexport.verification.verify_arguments import VerifyArguments

REFERENCE = "transformers"
NOT_TAKEN = ("adapter", "layers", "texts", "torch_onnx", "allow_edited", "client", "budget")
BY_CASES = "another tool's export: its graphs are judged by cases alone"
MERGED = "merged decoder"
GENERIC = "AutoModel"  # the class without a head, whose outputs some exports of a checkpoint give

Check = tuple[str, Callable[[], list[TensorCheck]], bool]


def verify_export(arguments: VerifyArguments, tell: Naming) -> Report:
    """The report of `verify` for another tool's export: one pass, or a decoder's steps.

    The judge is the class of transformers that the checkpoint names, or the one without a head. A size that
    the graphs declare is a note; whatever they declare free must be right. Raises as `verify`.
    """
    place = Path(arguments.out)
    if arguments.source is None:
        raise InputError(
            f"{place} is not a bundle of txexport; to judge another tool's export, give its checkpoint with "
            "--source"
        )
    refused = [name for name in NOT_TAKEN if getattr(arguments, name)]
    if arguments.reference not in (None, REFERENCE):
        refused.append("reference")
    if arguments.runtime not in (RUNTIME, [RUNTIME], (RUNTIME,)):
        refused.append("runtime")
    if refused:
        raise InputError(
            f"{', '.join(refused)} cannot be given for another tool's export, which is compared with "
            "transformers in ONNX Runtime"
        )
    checkpoint = opened_checkpoint(arguments.source)
    if checkpoint.gguf is not None:
        raise UnsupportedError(f"{checkpoint.folder} is a GGUF file; give the checkpoint of transformers")
    device = arguments.device or "cpu"
    graphs = opened(place, device)
    judged = _judged(checkpoint, graphs)
    merged = merged_beside(graphs, device)
    selection = arguments.cases if isinstance(arguments.cases, str) else list(arguments.cases)
    reports = list(_reports(_checks(judged, merged), selection, tell))
    if not reports:
        raise InputError(f"no case is named {', '.join(selection)}")
    digests = checkpoint.hashes()
    return Report(
        bundle=str(place),
        model_type=judged.judge.config.model_type,
        task=judged.judge.architecture,
        runtime=f"{RUNTIME} {device}",
        versions=environment.versions(),
        cases=[CaseReport(IDENTITY, CHECKPOINT, skipped=BY_CASES), *reports],
        environment=environment.environment(),
        checkpoint_sha256=digests,
        bundle_sha256=_files_sha256(place),
        selection=selection,
        source=str(arguments.source),
        device=device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=list(judged.notes()),
        checkpoint=name_of(checkpoint),
        reach=judged.reach(),
    )


def _judged(checkpoint: Checkpoint, graphs: Piece | DecoderGraphs) -> OnePass | Decoding:
    """The graphs beside the class that gives the most of their outputs."""
    judge = original(checkpoint.folder)
    if isinstance(graphs, DecoderGraphs):
        return Decoding(judge, graphs)
    reasons: list[TxexportError] = []
    best: OnePass | None = None
    for name in (None, GENERIC):
        try:
            one = OnePass(judge if name is None else original(checkpoint.folder, name), graphs)
        except TxexportError as error:
            reasons.append(error)
            continue
        if best is None or len(one.common) > len(best.common):
            best = one
        if not one.others:
            break
    if best is None:
        raise reasons[0]
    if not best.common:
        also = "".join(f"; {error}" for error in reasons)
        raise InputError(
            f"{graphs.path} gives {', '.join(graphs.outputs)}, none of which {judge.architecture} gives{also}"
        )
    return best


def _checks(judged: OnePass | Decoding, merged: DecoderGraphs | None) -> Iterator[Check]:
    """The cases of the graphs, and of a merged decoder beside them those of its own."""
    yield from judged.checks()
    if merged is not None:
        for name, run, is_quick in Decoding(judged.judge, merged).decoder_checks():
            yield f"{MERGED}: {name}", run, is_quick


def _reports(checks: Iterator[Check], selection: str | list[str], tell: Naming) -> Iterator[CaseReport]:
    for name, run, is_quick in checks:
        if selection == "full" or (selection == "quick" and is_quick) or name in selection:
            tell(name)
            yield attempt(name, REFERENCE, run, RUNTIME)


def _files_sha256(place: Path) -> dict[str, str]:
    """SHA-256 of the graphs and the files of their weights, by name."""
    if place.is_file():
        files, folder = [place, *place.parent.glob(f"{place.name}{roles.DATA[:1]}*")], place.parent
    else:
        files, folder = [path for path in sorted(place.rglob("*")) if path.is_file()], place
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}
