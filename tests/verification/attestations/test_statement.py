"""Reading of statements: envelopes of other software, and files that anybody may have written."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.attested import statement_of

import txexport
from txexport.errors import InputError
from txexport.verification.attestations import statement as reading
from txexport.verification.attestations.statement import PAYLOAD, PREDICATE, read


@pytest.fixture(scope="module")
def written(tmp_path_factory, bundle_of, checkpoint_of):
    """A statement in a file, which no test may change."""
    folder = tmp_path_factory.mktemp("statement")
    shutil.copytree(bundle_of("bert"), folder / "out")
    statement_of(folder / "out", folder / "out.json", source=checkpoint_of("bert"))
    return folder / "out.json"


def envelope(content: bytes, encode: Callable = base64.b64encode, **changes: Any) -> dict[str, Any]:
    """A DSSE envelope."""
    signatures = [{"keyid": "", "sig": "AA=="}]
    values = {"payloadType": PAYLOAD, "payload": encode(content).decode(), "signatures": signatures}
    return values | changes


def test_what_is_written_is_read(written):
    statement = read(written)
    assert statement.to_bytes() == written.read_bytes()
    assert statement.signatures == 0


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_envelopes_are_opened(encode, written, tmp_path):
    """DSSE's, in one of two alphabets, and Sigstore's around it."""
    enveloped = envelope(written.read_bytes(), encode)
    for values in (
        enveloped,
        {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "dsseEnvelope": enveloped},
    ):
        (tmp_path / "a.json").write_text(json.dumps(values))
        statement = read(tmp_path / "a.json")
        assert statement.signatures == 1
        assert statement.to_bytes() == written.read_bytes()


def test_a_file_that_other_readers_take_for_another_statement_is_refused(written, tmp_path):
    """Readers that ignore case or unknown names would check the signature of what is not used here."""
    forged, signed = json.loads(written.read_text()), envelope(written.read_bytes(), base64.b64encode)
    for values in (
        signed | {"dsseEnvelope": forged},
        signed | {"Payload": signed["payload"]},
        signed | {"_type": "other"},
        forged | {"dsse_envelope": signed},
        {"dsseEnvelope": signed, "DSSE_Envelope": signed},
        {"dsseEnvelope": signed, "messageSignature": {}},
    ):
        (tmp_path / "a.json").write_text(json.dumps(values))
        with pytest.raises(InputError, match=r"it has '.*' beside '.*'"):
            read(tmp_path / "a.json")


def test_unknown_fields_are_ignored(written, tmp_path):
    """As the specification demands."""
    values = json.loads(written.read_text())
    values["later"] = values["predicate"]["later"] = values["predicate"]["weights"]["leaves"][0]["later"] = 1
    values["subject"][0]["uri"] = "https://example.org"
    (tmp_path / "a.json").write_text(json.dumps(values))
    assert read(tmp_path / "a.json").contradictions == []
    assert read(tmp_path / "a.json").to_bytes() == written.read_bytes()


def at(*path: Any, value: Any) -> Callable[[Any], None]:
    """A change of a value."""

    def change(values: Any) -> None:
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = value

    return change


LEAF = ("predicate", "weights", "leaves", 0)
HOSTILE = {
    "type": (
        at("_type", value="https://in-toto.io/Statement/v0.1"),
        "its _type is 'https://in-toto.io/Statem",
    ),
    "predicate type": (at("predicateType", value="https://slsa.dev/provenance/v1"), f"expected {PREDICATE}"),
    "outside": (at("subject", 0, "name", value="../config.json"), "'../config.json' is no path below"),
    "absolute": (at("subject", 0, "name", value="/etc/passwd"), "'/etc/passwd' is no path below"),
    "drive": (at("subject", 0, "name", value="C:/a"), "'C:/a' is no path below"),
    "leaf outside": (at(*LEAF, "file", value="../../a"), "'../../a' is no path below"),
    "no digest": (at("subject", 0, "digest", value={}), "'sha256' is missing"),
    "short digest": (at("subject", 0, "digest", "sha256", value="00"), "'00' is no SHA-256"),
    "large digits": (at(*LEAF, "sha256", value="A" * 64), "is no SHA-256"),
    "subjects": (at("subject", value={"a": 1}), "subject is {'a': 1}, expected a list"),
    "a subject": (at("subject", 0, value=3), "a subject is 3, expected an object"),
    "negative": (at(*LEAF, "offset", value=-1), "bytes from -1"),
    "enormous": (at(*LEAF, "length", value=10**30), "has 1000000000000000000000000000000 bytes from"),
    "fraction": (at(*LEAF, "length", value=1.5), "length is 1.5, expected a whole number"),
    "tensors": (at(*LEAF, "tensors", value=["a"]), "tensors is ['a'], expected a text by name"),
    "rule": (at(*LEAF, "rule", value="copied"), "rule is 'copied', expected a list of texts"),
    "true": (at(*LEAF, "recomputed", value=1), "recomputed is 1, expected true or false"),
    "verdict": (at("predicate", "verification", "verdict", value=0), "verdict is 0, expected a text"),
    "scope": (at("predicate", "verification", "scope", value=None), "scope is None, expected a text"),
    "root": (at("predicate", "checkpoint", "root", value=None), "None is no SHA-256"),
    "not tried": (at("predicate", "not_tried", value="nothing"), "not_tried is 'nothing'"),
    "section": (at("predicate", "source", value=[]), "source is [], expected an object"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_wrong_values_are_refused_in_one_line(name, written, tmp_path):
    change, message = HOSTILE[name]
    values = json.loads(written.read_text())
    change(values)
    (tmp_path / "a.json").write_text(json.dumps(values))
    with pytest.raises(InputError) as error:
        read(tmp_path / "a.json")
    assert str(error.value).startswith(f"{tmp_path / 'a.json'} is no attestation of a bundle: ")
    assert message in str(error.value)


CONTENTS = {
    "empty": (b"", "it is not JSON in UTF-8"),
    "list": (b"[]", "the file is [], expected an object"),
    "deep": (b"[" * 200_000, "nested too deeply"),
    "no number": (b'{"_type": NaN}', "NaN is no number of JSON"),
    "digits": (b'{"_type": ' + b"1" * 5000 + b"}", "4300 digits"),
    "twice": (b'{"_type": 1, "_type": 2}', "'_type' appears twice"),
    "bytes": (b"\xff\xfe", "it is not JSON in UTF-8"),
    "payload type": (
        json.dumps(envelope(b"{}", payloadType="text/plain")).encode(),
        "its payloadType is 'text",
    ),
    "no base64": (json.dumps(envelope(b"", payload="@")).encode(), "its payload is not base64"),
    "number": (json.dumps(envelope(b"", payload=7)).encode(), "payload is 7, expected a text"),
    "signatures": (json.dumps(envelope(b"{}", signatures=1)).encode(), "signatures is 1, expected a list"),
    "envelope": (b'{"dsseEnvelope": 1}', "dsseEnvelope is 1, expected an object"),
    "within": (json.dumps(envelope(b"[" * 200_000)).encode(), "nested too deeply"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_other_files_are_refused_in_one_line(name, tmp_path):
    content, message = CONTENTS[name]
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError) as error:
        read(tmp_path / "a.json")
    assert message in str(error.value)


def test_a_subject_twice_is_refused(written, tmp_path):
    values = json.loads(written.read_text())
    values["subject"].append(values["subject"][0])
    (tmp_path / "a.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"subject 'config\.json' appears twice"):
        read(tmp_path / "a.json")


def test_a_large_file_is_not_read(written, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MOST", 1000)
    with pytest.raises(InputError, match="it has more than 1,000 bytes"):
        read(written)
    with pytest.raises(InputError, match=r"gone.json cannot be read: No such file"):
        txexport.verify_attestation(Path(written).parent / "out", tmp_path / "gone.json")
