"""`verify` of another tool's export: every case that its graphs take, beside the class of transformers."""

from collections.abc import Iterator
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
from txexport.verification.checks import CHECKPOINT, IDENTITY, RUNTIME, CaseReport
from txexport.verification.exports.decoding import Decoding
from txexport.verification.exports.graphs import DecoderGraphs, Piece
from txexport.verification.exports.layouts import merged_beside, opened
from txexport.verification.exports.one_pass import OnePass
from txexport.verification.result import Report
from txexport.verification.traced.named_checks import REFERENCE, NamedCheck, check_arguments, chosen
from txexport.verification.traced.originals import Original, original
from txexport.verification.verify_arguments import VerifyArguments

BY_CASES = "another tool's export: its graphs are judged by cases alone"
MERGED = "merged decoder"
GENERIC = "AutoModel"  # the class without a head, whose outputs some exports of a checkpoint give


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
    check_arguments(arguments, "another tool's export")
    checkpoint = opened_checkpoint(arguments.source)
    if checkpoint.gguf is not None:
        raise UnsupportedError(f"{checkpoint.folder} is a GGUF file; give the checkpoint of transformers")
    device = arguments.device or "cpu"
    graphs = opened(place, device)
    judged = _judged(checkpoint, graphs)
    merged = merged_beside(graphs, device)
    reports = list(_reports(_checks(judged, merged), arguments, tell))
    return Report(
        bundle=str(place),
        model_type=judged.judge.config.model_type,
        task=judged.judge.architecture,
        runtime=f"{RUNTIME} {device}",
        versions=environment.versions(),
        cases=[CaseReport(IDENTITY, CHECKPOINT, skipped=BY_CASES), *reports],
        environment=environment.environment(),
        checkpoint_sha256=checkpoint.hashes(),
        bundle_sha256=_files_sha256(place),
        selection=arguments.cases if isinstance(arguments.cases, str) else list(arguments.cases),
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
        _check_kind(judge, graphs)
        decoding = Decoding(judge, graphs)
        decoding.check_inputs()
        return decoding
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


def _check_kind(judge: Original, graphs: DecoderGraphs) -> None:
    """Raise InputError if the class is not a decoder of the same kind."""
    kinds = {True: "a decoder over an encoder", False: "a decoder alone"}
    if not judge.model.can_generate():
        raise InputError(f"{graphs.first.path} is a decoder with a cache, which {judge.architecture} is not")
    if bool(judge.config.is_encoder_decoder) != graphs.reads_source:
        raise InputError(
            f"{graphs.first.path} is {kinds[graphs.reads_source]}, and {judge.architecture} "
            f"{kinds[not graphs.reads_source]}"
        )


def _checks(judged: OnePass | Decoding, merged: DecoderGraphs | None) -> dict[str, NamedCheck]:
    """The cases of the graphs, and of a merged decoder beside them those of its own."""
    checks = judged.checks()
    if merged is not None:
        of_merged = Decoding(judged.judge, merged).decoder_checks()
        checks |= {f"{MERGED}: {name}": check for name, check in of_merged.items()}
    return checks


def _reports(checks: dict[str, NamedCheck], arguments: VerifyArguments, tell: Naming) -> Iterator[CaseReport]:
    for name, check in chosen(checks, arguments):
        tell(name)
        yield attempt(name, REFERENCE, check.run, RUNTIME)


def _files_sha256(place: Path) -> dict[str, str]:
    """SHA-256 of the graphs and the files of their weights, by name."""
    if place.is_file():
        files, folder = [place, *place.parent.glob(f"{place.name}{roles.DATA[:1]}*")], place.parent
    else:
        files, folder = [path for path in sorted(place.rglob("*")) if path.is_file()], place
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}
