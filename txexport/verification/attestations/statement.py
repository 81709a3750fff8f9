"""The in-toto statement of an attestation: its values, and reading of a file that anybody may have written.

Statement v1: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md. The envelope is DSSE
(https://github.com/secure-systems-lab/dsse), alone or in a bundle of Sigstore.
"""

import base64
import binascii
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from txexport.errors import InputError, shown
from txexport.support.arguments import check_fields
from txexport.support.paths import stays_inside, writing
from txexport.verification.attestations.hash_tree import root_of
from txexport.verification.attestations.leaves import TensorLeaf, WeightLeaf, by_file

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://pypi.org/project/txexport/attestation/v1"
PAYLOAD = "application/vnd.in-toto+json"
MOST = 256 << 20  # bytes of a file; a statement has some 500 for each tensor
LONGEST = 1 << 62  # bytes of a file of weights
SHA256 = re.compile(r"[0-9a-f]{64}")
STATEMENT = ("_type", "subject", "predicateType", "predicate")
ENVELOPES = ("dsseEnvelope", "messageSignature", "payload", "payloadType", "signatures")
RESERVED = {name.replace("_", "").casefold() for name in (*STATEMENT, *ENVELOPES)}
FACTS = ("model", "verification", "exported_by", "source")  # what the bundle itself says too
T = TypeVar("T", WeightLeaf, TensorLeaf)


@dataclass(frozen=True)
class Statement:
    """An attestation of a bundle.

    `subjects` are the SHA-256 of its files by name. `facts` are the sections of the predicate named in FACTS;
    `weights` and `tensors` the leaves of the hash trees, whose roots are `weights_root` and `tensors_root`.
    `not_tried` lists what the verdict does not cover. `attested_by` are the versions of the software that
    wrote the statement. `signatures` is the number of signatures of the envelope that it was read from.
    """

    subjects: dict[str, str]
    facts: dict[str, Any]
    weights: list[WeightLeaf]
    tensors: list[TensorLeaf]
    weights_root: str
    tensors_root: str
    not_tried: list[str]
    attested_by: dict[str, str]
    signatures: int = 0

    @property
    def verdict(self) -> str:
        """The verdict of the verification."""
        return str(self.facts["verification"]["verdict"])

    @property
    def scope(self) -> str:
        """The scope of the verdict: references, runtime, cases, checkpoint."""
        return str(self.facts["verification"]["scope"])

    def to_bytes(self) -> bytes:
        """The statement as JSON: the same bytes for the same bundle, checkpoint and txexport."""
        predicate = self.facts | {
            "weights": {"root": self.weights_root, "leaves": [asdict(one) for one in self.weights]},
            "checkpoint": {"root": self.tensors_root, "leaves": [asdict(one) for one in self.tensors]},
            "not_tried": self.not_tried,
            "attested_by": self.attested_by,
        }
        values = {
            "_type": TYPE,
            "subject": [{"name": name, "digest": {"sha256": self.subjects[name]}} for name in self.subjects],
            "predicateType": PREDICATE,
            "predicate": predicate,
        }
        return (json.dumps(values, indent=1) + "\n").encode()

    def write(self, path: str | Path) -> None:
        """Write the statement to a file, in a folder that is made if missing.

        Raises OSError, or InputError if readers would refuse the statement's size.
        """
        content = self.to_bytes()
        if len(content) > MOST:
            raise InputError(f"the statement has {len(content):,} bytes, and readers take {MOST:,} at most")
        with writing(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(content)

    @property
    def contradictions(self) -> list[str]:
        """The sentences by which the statement contradicts itself; none in one that `attest` wrote."""
        result = []
        for label, stated, leaves in (
            ("weights", self.weights_root, self.weights),
            ("the checkpoint", self.tensors_root, self.tensors),
        ):
            if stated != root_of(leaves):
                result.append(f"the root of {label} is not that of the leaves")
        names = [leaf.name for leaf in self.tensors]
        parts = [f"{leaf.name} of {leaf.file}" for leaf in self.weights]
        result += [f"{name} is listed twice" for some in (names, parts) for name in _repeated(some)]
        known = {leaf.name: leaf.sha256 for leaf in self.tensors}
        for leaf in self.weights:
            result += [
                f"{leaf.name} is made of another {name} than that of the checkpoint"
                for name, digest in leaf.tensors.items()
                if known.get(name) != digest
            ]
        for of_file in by_file(self.weights).values():  # which is read once, from its start to its end
            result += [
                f"the ranges of {one.name} and {other.name} in {one.file} overlap, or are not in order"
                for one, other in pairwise(of_file)
                if other.offset < one.offset + one.length
            ]
        return result


def _repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def read(path: str | Path) -> Statement:
    """The statement in a file: as `attest` writes it, in a DSSE envelope, or in a bundle of Sigstore.

    Signatures are not checked. Raises InputError for anything else.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST + 1)
        if len(content) > MOST:
            raise ValueError(f"it has more than {MOST:,} bytes")
        values, signatures = _unpacked(_parsed(content))
        return _statement(values, signatures)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise InputError(f"{path} is no attestation: it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError(f"{path} is no attestation of a bundle: it is not JSON in UTF-8") from None
    except (ValueError, KeyError, TypeError) as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} is no attestation of a bundle: {missing}") from None


def _parsed(content: bytes) -> dict[str, Any]:
    """A JSON object without repeated names, which readers would understand differently."""
    value = json.loads(content.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refused)
    return _object(value, "the file")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"{shown(name)} appears twice")
        result[name] = value
    return result


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _unpacked(values: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The values of a statement, and the number of signatures of its envelope."""
    if "dsseEnvelope" in values:
        _check_names(values, "dsseEnvelope", "mediaType", "verificationMaterial")
        values = _object(values["dsseEnvelope"], "dsseEnvelope")
    if "payload" not in values:
        _check_names(values, *STATEMENT)
        return values, 0
    _check_names(values, "payload", "payloadType", "signatures")
    if values["payloadType"] != PAYLOAD:
        raise ValueError(f"its payloadType is {shown(values['payloadType'])}, expected {PAYLOAD}")
    try:
        payload = _text(values["payload"], "payload").translate(str.maketrans("-_", "+/"))
        content = base64.b64decode(payload, validate=True)
    except binascii.Error:
        raise ValueError("its payload is not base64") from None
    return _parsed(content), len(_list(values["signatures"], "signatures"))


def _check_names(values: dict[str, Any], *known: str) -> None:
    """Raise ValueError for a name that another reader may take for one of those that say what is signed.

    Some readers ignore case, or read a name with underscores too, and so see another statement in the file.
    """
    for name in values.keys() - set(known):
        if name.replace("_", "").casefold() in RESERVED:
            raise ValueError(f"it has {shown(name)} beside {shown(known[0])}")


def _statement(values: dict[str, Any], signatures: int) -> Statement:
    for name, expected in (("_type", TYPE), ("predicateType", PREDICATE)):
        if values[name] != expected:
            raise ValueError(f"its {name} is {shown(values[name])}, expected {expected}")
    subjects: dict[str, str] = {}
    for one in _list(values["subject"], "subject"):
        entry = _object(one, "a subject")
        name = _path(entry["name"])
        if name in subjects:
            raise ValueError(f"subject {shown(name)} appears twice")
        subjects[name] = _digest(_object(entry["digest"], "digest")["sha256"])
    predicate = _object(values["predicate"], "predicate")
    facts = {name: _object(predicate[name], name) for name in FACTS}
    for name in ("verdict", "scope"):
        _text(facts["verification"][name], name)
    weights, tensors = (_object(predicate[name], name) for name in ("weights", "checkpoint"))
    result = Statement(
        subjects,
        facts,
        [_leaf(WeightLeaf, one) for one in _list(weights["leaves"], "leaves")],
        [_leaf(TensorLeaf, one) for one in _list(tensors["leaves"], "leaves")],
        _digest(weights["root"]),
        _digest(tensors["root"]),
        predicate["not_tried"],
        predicate["attested_by"],
        signatures,
    )
    check_fields(result)
    return result


def _leaf(kind: type[T], value: Any) -> T:
    """A leaf, without fields that later versions may add."""
    entry = _object(value, "a leaf")
    leaf = kind(**{field.name: entry[field.name] for field in fields(kind)})
    check_fields(leaf)
    _digest(leaf.sha256)
    if isinstance(leaf, WeightLeaf):
        _path(leaf.file)
        for digest in leaf.tensors.values():
            _digest(digest)
        if not (0 <= leaf.offset <= LONGEST and 0 <= leaf.length <= LONGEST):
            raise ValueError(f"{shown(leaf.name)} has {leaf.length} bytes from {leaf.offset}")
    return leaf


def _path(value: Any) -> str:
    """A path below the bundle's folder."""
    if not stays_inside(value):
        raise ValueError(f"{shown(value)} is no path below the folder of a bundle")
    return str(value)


def _digest(value: Any) -> str:
    if not (isinstance(value, str) and SHA256.fullmatch(value)):
        raise ValueError(f"{shown(value)} is no SHA-256")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}, expected a text")
    return value


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is {shown(value)}, expected an object")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{name} is {shown(value)}, expected a list")
    return value
