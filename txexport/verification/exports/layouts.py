"""The files of another tool's export: the graphs of a folder, and their use."""

import json
from dataclasses import replace
from pathlib import Path

from txexport.contracts import roles
from txexport.contracts.names import ENCODER_HIDDEN_STATES, LOGITS
from txexport.errors import InputError
from txexport.verification.exports.graphs import DecoderGraphs, Piece

PREFILL, DECODE = "prefill.onnx", "decode.onnx"  # of transformers' exporters
GENAI = "genai_config.json"
EXPORT = "export.json"  # of transformers' exporters
MODEL = roles.file(roles.MODEL)
DECODERS = tuple(map(roles.file, (roles.DECODER, roles.DECODER_WITH_PAST, roles.DECODER_MERGED)))


def opened(place: Path, device: str) -> Piece | DecoderGraphs:
    """The graphs of an export in sessions: one pass, or a decoder. Raises InputError for other files."""
    if place.is_file():
        return _single(place, "one file", device)
    folder = place if any(place.glob(f"*{roles.SUFFIX}")) else place / roles.FOLDER
    if not any(folder.glob(f"*{roles.SUFFIX}")):
        return _in_folders(place, device)
    files = {path.name for path in folder.glob(f"*{roles.SUFFIX}")}
    if {PREFILL, DECODE} <= files:
        first, later = (Piece(folder / name, device, of_decoder=True) for name in (PREFILL, DECODE))
        over_source = ENCODER_HIDDEN_STATES in first.inputs
        return DecoderGraphs("transformers.exporters", first, later, None, over_source)
    encoder = roles.file(roles.ENCODER)
    plain, with_past, merged = DECODERS
    pair = (plain, with_past) if {plain, with_past} <= files else (merged, merged)
    if pair[0] not in files:
        pair = (plain, plain)
    if pair[0] in files:
        pieces = {name: Piece(folder / name, device, of_decoder=True) for name in pair}
        source = Piece(folder / encoder, device) if encoder in files else None
        return DecoderGraphs("optimum's layout", pieces[pair[0]], pieces[pair[1]], source, source is not None)
    name = _named_by_genai(folder) or (MODEL if MODEL in files else None)
    if name is None and len(files) == 1:
        [name] = files
    if name is None or name not in files:
        raise InputError(
            f"{place} has {', '.join(sorted(files)[:4])}, which are not a known layout; name a file"
        )
    return _single(folder / name, _writer(folder), device)


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


def _named_by_genai(folder: Path) -> str | None:
    """The decoder's file that genai_config.json names."""
    if not (folder / GENAI).is_file():
        return None
    try:
        name = json.loads((folder / GENAI).read_text(encoding="utf-8"))["model"]["decoder"]["filename"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{folder / GENAI} names no decoder") from None
    return str(name)


def _writer(folder: Path) -> str:
    if (folder / GENAI).is_file():
        return "onnxruntime-genai's layout"
    return "transformers.exporters" if (folder / EXPORT).is_file() else "optimum's layout"


def _in_folders(place: Path, device: str) -> DecoderGraphs:
    """An encoder and a decoder in folders of their names, as mobius writes them."""
    encoder, decoder = (place / name / MODEL for name in ("encoder", "decoder"))
    if not (encoder.is_file() and decoder.is_file()):
        raise InputError(f"{place} has no graphs of a known layout; name a file")
    piece = Piece(decoder, device, of_decoder=True)
    return DecoderGraphs("mobius' layout", piece, piece, Piece(encoder, device), True)


def _single(path: Path, writer: str, device: str) -> Piece | DecoderGraphs:
    """One graph: a decoder if it takes keys and values, otherwise one pass."""
    piece = Piece(path, device)
    if piece.past and LOGITS in piece.outputs:
        return DecoderGraphs(writer, piece, piece)
    return piece
