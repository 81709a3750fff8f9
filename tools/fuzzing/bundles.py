"""Targets: the files of bundles, and what proves them."""

import base64
import gzip
import json
import shutil
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import onnx

import txexport
from fuzzing import containers, json_values, protobuf, raw_bytes, templates
from fuzzing.case import LONGEST, Case, FaultError
from txexport.bundle.proof import ANSWERS
from txexport.checkpoints.checkpoint import sha256
from txexport.verification.attestations.hash_tree import root_of
from txexport.verification.attestations.statement import PAYLOAD
from txexport.verification.attestations.statement import read as read_statement

OF_VERIFY = {"cases": "quick", "reference": "twin"}
HOWS = {
    ".json": json_values.change,
    ".npz": containers.npz,
    ".safetensors": containers.safetensors,
    ".onnx_data": containers.safetensors,
    ".jinja": templates.change,
    ".onnx": partial(protobuf.change, kind=onnx.ModelProto),
    ".txt": raw_bytes.change,
}


def manifest(case: Case) -> None:
    """txexport.json, read by inspect, by load, and by an export that replaces the bundle."""
    name = case.random.choice(("classifier", "decoder", "towers", "translator"))
    folder = case.copy(f"bundles/{name}")
    case.change(folder / "txexport.json", json_values.change)
    case.attempt(txexport.inspect, folder)
    case.try_bundle(folder)
    case.attempt(txexport.export, case.seeds / "checkpoints" / name, folder, force=True)


def companion(case: Case) -> None:
    """A file beside a bundle's graphs, changed after export."""
    name = case.random.choice(
        ("classifier", "decoder", "speech", "noises", "images", "sentences", "translator")
    )
    folder = case.copy(f"bundles/{name}")
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in HOWS]
    file = case.random.choice([file for file in files if file.name != "txexport.json"])
    case.change(file, HOWS[file.suffix])
    case.attempt(txexport.inspect, folder)
    case.try_bundle(folder)


def onnx_file(case: Case) -> None:
    """An ONNX file for `compare`."""
    folder = case.copy(f"bundles/{case.random.choice(('sentences', 'decoder', 'pretrained'))}")
    file = case.change(folder / "onnx/model.onnx", HOWS[".onnx"])
    case.attempt(txexport.compare, case.seeds / f"bundles/{folder.name}/onnx/model.onnx", file)


def onnx_bundle(case: Case) -> None:
    """A graph in a bundle, with its hash in the manifest updated."""
    folder = case.copy(f"bundles/{case.random.choice(('sentences', 'decoder', 'pretrained'))}")
    text = json.loads((folder / "txexport.json").read_bytes())
    graph = text["formats"]["float32"]["native"]["model"]
    file = case.change(folder / graph["file"], HOWS[".onnx"])
    graph["sha256"] = sha256(file)
    (folder / "txexport.json").write_text(json.dumps(text))
    case.attempt(txexport.inspect, folder)
    case.try_bundle(folder)


def verified(case: Case) -> None:
    """Any file of a bundle or of its checkpoint, and texts, as read by verify."""
    name = case.random.choice(("classifier", "images", "decoder", "sentences"))
    bundle, source = case.copy(f"bundles/{name}"), case.work / "source"
    shutil.copytree(case.seeds / "checkpoints" / name, source)
    texts = case.work / "texts.txt"
    texts.write_text("the cat\na dog\tthe rug\n")
    folder = case.random.choice((bundle, bundle, source, texts))
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in HOWS] or [texts]
    file = case.random.choice(files)
    case.change(file, HOWS[file.suffix])
    options = {"texts": texts} if folder == texts else {}
    case.attempt(lambda: txexport.verify(bundle, source=source, **OF_VERIFY, **options) and None)


def answers(case: Case) -> None:
    """The answers that a bundle keeps, with their hash in the manifest updated, as read by verify_here."""
    folder = case.copy(f"proved/{case.random.choice(('classifier', 'decoder'))}")
    before = sha256(folder / ANSWERS)

    def packed(random: Random, data: bytes) -> tuple[bytes, str]:
        content, note = json_values.change(random, gzip.decompress(data))
        return gzip.compress(content), note

    file = case.change(folder / ANSWERS, case.random.choice((packed, packed, raw_bytes.change)))
    manifest = folder / "txexport.json"
    manifest.write_text(manifest.read_text().replace(before, sha256(file)))
    case.attempt(lambda: txexport.verify_here(folder, device="cpu") and None)


def attestation(case: Case) -> None:
    """A statement, alone and in an envelope, whose roots often fit its changed leaves."""
    name = case.random.choice(("classifier", "decoder"))
    folder, file = case.copy(f"proved/{name}"), case.copy(f"statements/{name}.json")
    case.change(file, case.random.choice((json_values.change, _leaf, _leaf, raw_bytes.change)))
    if case.random.random() < 0.3:
        payload = base64.b64encode(file.read_bytes()).decode()
        values = {"payloadType": PAYLOAD, "payload": payload, "signatures": [{"sig": ""}]}
        file.write_text(json.dumps({"dsseEnvelope": values}))
        if case.random.random() < 0.3:
            case.change(file, json_values.change)
    elif (statement := case.attempt(lambda: Hidden(read_statement(file)))) is not None:
        roots = {"weights": root_of(statement.value.weights), "checkpoint": root_of(statement.value.tensors)}
        values = json.loads(file.read_bytes())
        for section, root in roots.items():
            values["predicate"][section]["root"] = root
        file.write_text(json.dumps(values))
    source = case.random.choice((None, None, case.seeds / "checkpoints" / name))
    report = case.attempt(lambda: Hidden(txexport.verify_attestation(folder, file, source=source)))
    for sentence in report.value.differences if report is not None else ():
        if len(sentence.splitlines()) != 1 or len(sentence) > LONGEST:
            raise FaultError(f"a difference not of one line: {sentence[:100]!r}")


def _leaf(random: Random, data: bytes) -> tuple[bytes, str]:
    """Change a leaf of a statement."""
    values = json.loads(data)
    leaves = values["predicate"][random.choice(("weights", "weights", "checkpoint"))]["leaves"]
    number = random.randrange(len(leaves))
    leaves[number], note = json_values.change_value(random, leaves[number])
    return json_values.dumps(values).encode(), f"leaf {number}: {note}"


@dataclass(frozen=True)
class Hidden:
    """A result whose numbers are not examined."""

    value: Any
