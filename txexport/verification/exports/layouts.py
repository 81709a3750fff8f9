"""The files of another tool's export: the graphs of a folder, and their use."""

import json
from dataclasses import replace
from pathlib import Path

from txexport.contracts import roles
from txexport.contracts.names import LOGITS
from txexport.errors import InputError
from txexport.verification.exports.graphs import DecoderGraphs, Piece

PREFILL, DECODE = "prefill.onnx", "decode.onnx"  # of transformers' exporters
GENAI = "genai_config.json"
MODEL = roles.file(roles.MODEL)
DECODERS = tuple(map(roles.file, (roles.DECODER, roles.DECODER_WITH_PAST, roles.DECODER_MERGED)))


def opened(place: Path, device: str) -> Piece | DecoderGraphs:
    """The graphs of an export in sessions: one pass, or a decoder. Raises InputError for other files."""
    if place.is_file():
        return _single(place, device)
    folder = place if any(place.glob(f"*{roles.SUFFIX}")) else place / roles.FOLDER
    files = {path.name for path in folder.glob(f"*{roles.SUFFIX}")}
    if not files:  # an encoder and a decoder in folders of their names, as mobius writes them
        return _decoder(place, f"decoder/{MODEL}", f"decoder/{MODEL}", f"encoder/{MODEL}", device)
    plain, with_past, merged = DECODERS
    encoder = roles.file(roles.ENCODER) if roles.file(roles.ENCODER) in files else None
    if {PREFILL, DECODE} <= files:
        return _decoder(folder, PREFILL, DECODE, None, device)
    if {plain, with_past} <= files:
        return _decoder(folder, plain, with_past, encoder, device)
    for name in (merged, plain):
        if name in files:
            return _decoder(folder, name, name, encoder, device)
    source, decoder = _named_by_genai(folder)
    if source is not None and decoder is not None:
        return _decoder(folder, decoder, decoder, source, device)
    name = decoder or (next(iter(files)) if len(files) == 1 else MODEL)
    if name not in files:
        raise InputError(
            f"{place} has {', '.join(sorted(files)[:4])}, which are not a known layout; name a file"
        )
    return _single(folder / name, device)


def merged_beside(graphs: Piece | DecoderGraphs, device: str) -> DecoderGraphs | None:
    """The merged decoder in the folder of two separate ones, which clients open in their place; else None."""
    plain, _, merged = DECODERS
    if not isinstance(graphs, DecoderGraphs) or graphs.first.path.name != plain:
        return None
    path = graphs.first.path.with_name(merged)
    if not path.is_file():
        return None
    piece = Piece(path, device, of_decoder=True)
    return replace(graphs, first=piece, later=piece)


def _named_by_genai(folder: Path) -> tuple[str | None, str | None]:
    """The files of the encoder and the decoder that genai_config.json names, if there is one."""
    if not (folder / GENAI).is_file():
        return None, None
    try:
        model = json.loads((folder / GENAI).read_text(encoding="utf-8"))["model"]
        encoder, decoder = model.get("encoder", {}).get("filename"), model["decoder"]["filename"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{folder / GENAI} names no decoder") from None
    return encoder, decoder


def _decoder(folder: Path, first: str, later: str, encoder: str | None, device: str) -> DecoderGraphs:
    """A decoder of one graph or two, and its encoder. Raises InputError for a file that is not there."""
    if missing := [name for name in (encoder, first, later) if name and not (folder / name).is_file()]:
        raise InputError(f"{folder} has no {missing[0]}, nor other graphs of a known layout; name a file")
    pieces = {name: Piece(folder / name, device, of_decoder=True) for name in (first, later)}
    source = None if encoder is None else Piece(folder / encoder, device)
    return DecoderGraphs(pieces[first], pieces[later], source)


def _single(path: Path, device: str) -> Piece | DecoderGraphs:
    """One graph: a decoder if it takes keys and values, otherwise one pass."""
    piece = Piece(path, device)
    return DecoderGraphs(piece, piece) if piece.past and LOGITS in piece.outputs else piece
