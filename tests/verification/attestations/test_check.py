"""A bundle against a statement: whatever differs is named, by file, initializer and tensor."""

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.attested import accepted, edited, statement_of
from helpers.bundle_edits import stored, tamper
from helpers.hub import serve
from huggingface_hub import snapshot_download
from safetensors.numpy import load_file, save_file

import txexport
from txexport import bundle
from txexport.checkpoints.checkpoint import read_header
from txexport.cli.main import main
from txexport.verification.attestations import check
from txexport.verification.attestations.facts import SINGLE_FILE
from txexport.verification.attestations.statement import read

DATA = "onnx/model.onnx_data"
UP, TENSOR = "encoder.layers.1.feed_forward.up.weight", "encoder.layer.1.intermediate.dense.weight"
OTHER = "encoder.layers.0.feed_forward.up.weight"


@pytest.fixture(scope="module")
def attested_once(tmp_path_factory, bundle_of, checkpoint_of):
    """A bundle of BERT in `out`, its checkpoint in `in`, and its statement in `out.json`."""
    folder = tmp_path_factory.mktemp("attested")
    shutil.copytree(bundle_of("bert"), folder / "out")
    shutil.copytree(checkpoint_of("bert"), folder / "in")
    statement_of(folder / "out", folder / "out.json", source=folder / "in")
    return folder


@pytest.fixture
def attested(attested_once, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(attested_once, tmp_path / "attested"))


def differences(folder: Path, source: bool = False) -> list[str]:
    """The differences of the bundle, and of its checkpoint if `source`."""
    options = {"source": folder / "in"} if source else {}
    report = txexport.verify_attestation(folder / "out", folder / "out.json", **options)
    assert report.ok == (report.differences == []) == (report.exit_code == 0)
    return report.differences


def invoke(*arguments) -> tuple[int, list[str]]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output.splitlines()


def test_the_attested_bundle_and_its_checkpoint(attested):
    assert differences(attested) == differences(attested, source=True) == []
    exit_code, lines = invoke("verify", attested / "out", "--attestation", attested / "out.json")
    assert exit_code == 0
    assert (
        lines[0]
        == f"{attested / 'out'}: as attested, equal to twin on onnxruntime cpu, of tiny (0123456789ab)"
    )
    assert lines[1].endswith(check.SIGNATURES)


def test_results_are_read_by_programs(attested):
    out, statement = attested / "out", read(attested / "out.json")
    command = ["attest", out, "--source", attested / "in", "-o", attested / "again.json"]
    command += ["--recorded", "--json"]
    values = json.loads(invoke(*command)[1][0])
    roots = {"weights": statement.weights_root, "checkpoint": statement.tensors_root}
    assert values == {
        "file": str(attested / "again.json"),
        "bundle": str(out),
        "verdict": "equal",
        "scope": statement.scope,
        **roots,
    }
    (out / "config.json").unlink()
    file = attested / "result.json"
    assert invoke("verify", out, "--attestation", attested / "again.json", "--json", file)[0] == 1
    assert json.loads(file.read_text()) == {
        "bundle": str(out),
        "ok": False,
        "verdict": "NOT AS ATTESTED",
        "differences": ["config.json is attested, and missing"],
        "skipped": [],
        "scope": statement.scope,
        "source": None,
        **roots,
    }


def test_a_flipped_bit_of_any_initializer_is_named(attested):
    """Of each one the last byte, in a file of weights."""
    header = read_header(attested / "out" / DATA)
    tensors = {leaf.name: " and ".join(leaf.tensors) for leaf in read(attested / "out.json").weights}
    assert len(header) > 30
    for name, place in header.items():
        with (attested / "out" / DATA).open("r+b") as file:
            file.seek(place.offset + place.nbytes - 1)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
            file.flush()
            assert differences(attested) == [f"{DATA}: {name} differs (made of {tensors[name]})"]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte]))
    assert differences(attested) == []


def test_exchanged_weights_of_one_shape_are_named_with_each_other(attested):
    arrays = stored(attested / "out")
    tamper(attested / "out", UP, lambda _: arrays[OTHER])
    tamper(attested / "out", OTHER, lambda _: arrays[UP])
    first, second = differences(attested)
    assert first == f"{DATA}: {OTHER} differs (made of {TENSOR.replace('1', '0')}); it has the bytes of {UP}"
    assert second == f"{DATA}: {UP} differs (made of {TENSOR}); it has the bytes of {OTHER}"
    exit_code, lines = invoke("verify", attested / "out", "--attestation", attested / "out.json")
    assert (exit_code, lines[:3]) == (1, [f"{attested / 'out'}: NOT AS ATTESTED", first, second])


def test_a_renamed_initializer_is_named(attested):
    file = attested / "out" / DATA
    file.write_bytes(file.read_bytes().replace(UP.encode(), UP.replace("1", "7").encode()))
    assert differences(attested) == [
        f"{DATA} differs, outside of its tensors",
        f"{DATA}: {UP.replace('1', '7')} is not attested, or elsewhere",
        f"{DATA}: {UP} is attested, and missing or elsewhere",
    ]


def test_other_files_of_the_bundle_are_named(attested):
    out = attested / "out"
    (out / "config.json").write_text((out / "config.json").read_text() + " ")
    (out / "vocab.txt").write_text("[PAD]")
    graph = out / bundle.read(out).native["model"].file
    graph.write_bytes(graph.read_bytes() + b"\0")
    name = graph.relative_to(out).as_posix()
    assert differences(attested) == [
        "config.json differs",
        f"{name} differs",
        "vocab.txt is in the folder, and not attested",
    ]
    (out / "config.json").unlink()
    assert differences(attested)[0] == "config.json is attested, and missing"


def test_a_data_file_cut_short_or_without_header_is_a_difference(attested):
    file = attested / "out" / DATA
    content = file.read_bytes()
    file.write_bytes(content[:-4])
    short = differences(attested)
    assert short[0].startswith(f"{DATA}: ")
    assert "differs" in short[0]
    assert "is truncated" in short[-1]
    file.write_bytes(b"")
    assert "is not a safetensors file" in differences(attested)[-1]


def test_an_export_in_another_number_format_is_not_the_attested_one(attested, checkpoint_of):
    txexport.export(attested / "in", attested / "out", dtype="int8", force=True)
    accepted(attested / "out")
    lines = differences(attested)
    assert f"{DATA} is attested, and missing" in lines
    assert "onnx/model_int8.onnx is in the folder, and not attested" in lines
    assert "txexport.json: dtypes of model is ['int8'], the statement says ['float32']" in lines


def test_a_bundle_that_was_verified_anew_has_another_record(attested):
    txexport.verify(attested / "out", source=attested / "in", cases="quick", reference="twin")
    lines = differences(attested)
    assert "txexport.json differs" in lines
    assert any(line.startswith("txexport.json: created of verification is ") for line in lines)
    assert "txexport_answers.json.gz is in the folder, and not attested" in lines


def edit_tensors(folder: Path, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_exchanged_tensors_of_a_checkpoint_are_named(attested):
    def exchange(tensors: dict[str, np.ndarray]) -> None:
        first = TENSOR.replace("1", "0")
        tensors[first], tensors[TENSOR] = tensors[TENSOR], tensors[first]

    edit_tensors(attested / "in", exchange)
    assert differences(attested) == []  # the bundle is the same
    assert differences(attested, source=True) == [
        f"checkpoint: {TENSOR.replace('1', '0')} differs; {OTHER} is made of it",
        f"checkpoint: {TENSOR} differs; {UP} is made of it",
    ]


def test_renamed_tensors_and_other_files_of_a_checkpoint_are_named(attested):
    edit_tensors(attested / "in", lambda tensors: tensors.update({"other": tensors.pop(TENSOR)}))
    config = attested / "in/config.json"
    config.write_text(config.read_text() + " ")
    assert differences(attested, source=True) == [
        f"checkpoint: {TENSOR} is attested, and missing; {UP} is made of it",
        "checkpoint: other is not attested",
        "checkpoint: config.json differs",
    ]


def of(name: str, values: dict) -> dict:
    """The leaf of an initializer in a statement's values."""
    return next(leaf for leaf in values["predicate"]["weights"]["leaves"] if leaf["name"] == name)


def verdict(values: dict) -> None:
    values["predicate"]["verification"]["verdict"] = "no difference in 99 cases"


def skipped(values: dict) -> None:
    values["predicate"]["verification"]["skipped"] = 0


def true_for_one(values: dict) -> None:
    values["predicate"]["verification"]["skipped"] = True


def versions(values: dict) -> None:
    values["predicate"]["exported_by"]["txexport"] = "99"


def source_digest(values: dict) -> None:
    values["predicate"]["source"]["sha256"]["config.json"] = "0" * 64


def limits(values: dict) -> None:
    del values["predicate"]["not_tried"][0]


def subject(values: dict) -> None:
    values["subject"][0]["digest"]["sha256"] = "0" * 64


def no_subject(values: dict) -> None:
    del values["subject"][0]


def no_data(values: dict) -> None:
    values["subject"] = [one for one in values["subject"] if one["name"] != DATA]


def weight_digest(values: dict) -> None:
    of(UP, values)["sha256"] = "0" * 64


def no_leaf(values: dict) -> None:
    values["predicate"]["weights"]["leaves"].remove(of(UP, values))


EDITS = {
    verdict: "txexport.json: verdict of verification is 'equal', the statement says 'no difference in 99",
    skipped: "txexport.json: skipped of verification is 1, the statement says 0",
    true_for_one: "txexport.json: skipped of verification is 1, the statement says True",
    versions: "txexport.json: txexport of exported_by is ",
    source_digest: "txexport.json: sha256 of source is ",
    limits: "the statement does not say that these were not tried: 1 cases, which were skipped",
    subject: "config.json differs",
    no_subject: "config.json is in the folder, and not attested",
    no_data: f"{DATA} has leaves in the statement, but is no subject of it",
    weight_digest: f"{DATA}: {UP} differs (made of {TENSOR})",
    no_leaf: f"{DATA}: {UP} is not attested, or elsewhere",
}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edited_statement_is_found(edit, attested):
    """Though its roots fit."""
    edited(attested / "out.json", edit)
    assert differences(attested)[0].startswith(EDITS[edit])


def other_tensor(values: dict) -> None:
    leaves = {leaf["name"]: leaf["sha256"] for leaf in values["predicate"]["checkpoint"]["leaves"]}
    of(UP, values)["tensors"] = {TENSOR.replace("1", "0"): leaves[TENSOR.replace("1", "0")]}


def other_rule(values: dict) -> None:
    of(UP, values)["rule"].insert(0, "transposed")


def not_recomputed(values: dict) -> None:
    of(UP, values)["recomputed"] = False
    count = len(values["predicate"]["weights"]["leaves"])
    values["predicate"]["not_tried"].append(f"1 of {count} ranges of weights, which were not made again")


OF_ORIGINS = {
    other_tensor: f"{DATA}: {UP} is made of {TENSOR}, the statement says {TENSOR.replace('1', '0')}",
    other_rule: f"{DATA}: {UP} is made so: stored as float32 (in, out). The statement says: transp",
    not_recomputed: f"{DATA}: {UP} is not what export makes (made of {TENSOR})",
}


@pytest.mark.parametrize("edit", OF_ORIGINS, ids=lambda edit: edit.__name__)
def test_an_edited_origin_is_found_with_the_checkpoint(edit, attested):
    edited(attested / "out.json", edit)
    assert differences(attested) == []
    [line] = differences(attested, source=True)
    assert line.startswith(OF_ORIGINS[edit])


def test_weights_that_are_not_of_the_checkpoint_are_found_with_it(attested):
    """Bundle and statement agree, and somebody has changed both."""
    tamper(attested / "out", UP, np.zeros_like)
    digest = bundle.files_sha256(attested / "out")[DATA]
    actual = check.hashed(attested / "out" / DATA, [(p.offset, p.nbytes) for p in places(attested)])[1]

    def change(values: dict) -> None:
        of(UP, values)["sha256"] = actual[0]
        for one in values["subject"]:
            if one["name"] == DATA:
                one["digest"]["sha256"] = digest

    edited(attested / "out.json", change)
    assert differences(attested) == []
    assert differences(attested, source=True) == [f"{DATA}: {UP} is not what export makes (made of {TENSOR})"]


def places(folder: Path) -> list:
    """The place of UP."""
    return [read_header(folder / "out" / DATA)[UP]]


def roots(values: dict) -> None:
    values["predicate"]["weights"]["root"] = "0" * 64


def tensor_digest(values: dict) -> None:
    of(UP, values)["tensors"][TENSOR] = "0" * 64


def overlap(values: dict) -> None:
    leaves = values["predicate"]["weights"]["leaves"]
    leaves[1]["offset"] = leaves[0]["offset"]


CONTRADICTIONS = {
    roots: "the root of weights is not that of the leaves",
    tensor_digest: f"{UP} is made of another {TENSOR} than that of the checkpoint",
    overlap: " overlap",
}


@pytest.mark.parametrize("edit", CONTRADICTIONS, ids=lambda edit: edit.__name__)
def test_a_statement_that_contradicts_itself_is_no_proof(edit, attested):
    edited(attested / "out.json", edit, reroot=edit is not roots)
    lines = differences(attested)
    assert all(line.startswith("the statement contradicts itself: ") for line in lines)
    assert CONTRADICTIONS[edit] in lines[0]


@pytest.mark.parametrize(
    ("stated", "exit_code"),
    [("NOT EQUAL", 1), ("not proved", 2), ("exact, but loses too much", 3), ("perfect", 1)],
)
def test_the_exit_code_is_that_of_the_stated_verdict(stated, exit_code, attested):
    """A statement of a wrong bundle is true, and yet no success."""
    accepted(attested / "out", verdict=stated)
    output = attested / "again.json"
    command = ["attest", attested / "out", "--source", attested / "in", "--recorded", "-o", output]
    assert invoke(*command)[0] == exit_code
    report = txexport.verify_attestation(attested / "out", output)
    assert (report.differences, report.verdict, report.exit_code) == ([], stated, exit_code)


def test_a_bundle_without_a_verdict_is_not_the_attested_one(attested):
    out = attested / "out"
    dataclasses.replace(bundle.read(out), proof=None).write(out / bundle.MANIFEST)
    assert "txexport.json has no verdict, and the statement says 'equal'" in differences(attested)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_bundle_in_the_cache_of_a_hub_is_the_attested_one(attested, tmp_path, monkeypatch):
    """Its files are links to blobs."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with serve({"org/model": attested / "out"}) as hub:
        snapshot = Path(snapshot_download("org/model", endpoint=hub.url, cache_dir=tmp_path / "cache"))
    assert (snapshot / DATA).is_symlink()
    report = txexport.verify_attestation(snapshot, attested / "out.json", source=attested / "in")
    assert report.ok
    again = txexport.attest(snapshot, source=attested / "in", recorded=True)
    assert again.to_bytes() == (attested / "out.json").read_bytes()
    blob = (snapshot / "config.json").resolve()
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes() + b" ")
    assert txexport.verify_attestation(snapshot, attested / "out.json").differences == ["config.json differs"]


def test_a_tensor_twice_contradicts(attested):
    """Two digests of one tensor: a root would prove the wrong one too."""

    def edit(values):
        leaves = values["predicate"]["checkpoint"]["leaves"]
        leaves.insert(0, leaves[0] | {"sha256": "0" * 64})

    edited(attested / "out.json", edit)
    [first, *_] = differences(attested)
    assert first.endswith("is listed twice")


def test_a_leaf_of_a_file_without_weights_is_named(attested):
    def edit(values):
        leaves = values["predicate"]["weights"]["leaves"]
        digest = hashlib.sha256((attested / "out/config.json").read_bytes()[:4]).hexdigest()
        place = {"file": "config.json", "name": "x", "offset": 0, "length": 4, "sha256": digest}
        leaves.append(leaves[0] | place)

    edited(attested / "out.json", edit)
    assert differences(attested) == ["config.json: x is attested, and missing or elsewhere"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_linked_folder_is_named(attested):
    """Other clients would follow it."""
    (attested / "out/.cache/x").mkdir(parents=True)
    (attested / "out/additional_chat_templates").symlink_to(attested / "out/.cache/x")
    assert differences(attested) == ["additional_chat_templates is no file, and not attested"]


def test_weights_within_graphs_are_said_to_be_left_out(checkpoint_of, tmp_path):
    source = checkpoint_of("bert")
    txexport.export(source, tmp_path / "out", single_file=True)
    statement_of(tmp_path / "out", tmp_path / "out.json", source=source)
    report = txexport.verify_attestation(tmp_path / "out", tmp_path / "out.json", source=source)
    assert (report.differences, report.skipped) == ([], [SINGLE_FILE])


def test_many_differences_are_counted(attested):
    for number in range(30):
        (attested / f"out/{number:02}.txt").write_text("")
    exit_code, lines = invoke("verify", attested / "out", "--attestation", attested / "out.json")
    assert (exit_code, len(lines)) == (1, 1 + check_lines() + 2)
    assert lines[-2] == "and 10 other differences"


def check_lines() -> int:
    """The number of differences that are printed."""
    from txexport.cli.verify import MOST_DIFFERENCES

    return MOST_DIFFERENCES


@pytest.mark.parametrize("option", [["--cases", "quick"], ["--here"], ["--report", "a.html"], ["--layers"]])
def test_options_that_run_graphs_are_refused(option, attested):
    exit_code, lines = invoke("verify", attested / "out", "--attestation", attested / "out.json", *option)
    assert exit_code == 2
    assert lines[0].startswith(f"error: {option[0]} does not apply with --attestation")


def test_a_statement_is_not_written_into_a_bundle(attested):
    exit_code, lines = invoke("attest", attested / "out", "-o", attested / "out/a.json")
    assert exit_code == 2
    assert "would be inside a bundle" in lines[0]
    assert json.loads((attested / "out.json").read_text())["_type"]
