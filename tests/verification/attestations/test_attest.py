"""A statement of a bundle: what it says, and that weights are made again from the tensors that it names."""

import dataclasses
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_adapter
import tiny_checkpoint
import tiny_gguf
import tiny_pickled
import tiny_quantised
from helpers import mms, traced_checkpoints
from helpers.attested import PROOF, accepted, statement_of
from helpers.bundle_edits import stored, tamper
from helpers.project import ROOT
from safetensors import safe_open

import txexport
from txexport import bundle
from txexport.checkpoints.origins import Origins
from txexport.errors import BundleError, CheckpointError
from txexport.verification.attestations import attest as attesting
from txexport.verification.attestations.leaves import TensorLeaf, WeightLeaf

WITHOUT = """
import sys
for name in ("torch", "transformers", "onnx", "onnxscript", "onnx_ir", "onnxruntime", "safetensors"):
    sys.modules[name] = None  # an import of it fails
import txexport
report = txexport.verify_attestation(*sys.argv[1:])
print(report.verdict, report.exit_code, len(report.differences))
"""


def sha256(array: np.ndarray) -> str:
    """The SHA-256 of an array's bytes, row by row."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def tensors_of(folder: Path) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint, read by the library of safetensors."""
    with safe_open(folder / "model.safetensors", "np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def rules(leaves: list[WeightLeaf]) -> set[str]:
    """All steps of all leaves."""
    return {step for leaf in leaves for step in leaf.rule}


@pytest.fixture
def copy(bundle_of, tmp_path):
    """A function from a model_type to a copy of its bundle."""

    def get(model_type: str) -> Path:
        return Path(shutil.copytree(bundle_of(model_type), tmp_path / "out"))

    return get


def test_a_statement_says_what_the_bundle_is(copy, checkpoint_of, tmp_path):
    """The digests are those of the files, and the leaves those of independently read tensors."""
    source, out = checkpoint_of("gpt2"), copy("gpt2")
    statement = statement_of(out, tmp_path / "out.json", source=source)
    values = json.loads((tmp_path / "out.json").read_text())
    assert values["_type"] == "https://in-toto.io/Statement/v1"
    digests = {one["name"]: one["digest"] for one in values["subject"]}
    files = {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in bundle.present(out)}
    assert digests == {name: {"sha256": digest} for name, digest in files.items()}
    tensors = tensors_of(source)
    assert {leaf.name: leaf.sha256 for leaf in statement.tensors} == {
        n: sha256(t) for n, t in tensors.items()
    }
    arrays = stored(out)
    assert {leaf.name: leaf.sha256 for leaf in statement.weights} == {n: sha256(a) for n, a in arrays.items()}
    assert all(leaf.recomputed for leaf in statement.weights)
    assert (statement.verdict, statement.facts["verification"]["skipped"]) == ("equal", 1)
    assert statement.not_tried[0] == "1 cases, which were skipped"
    assert statement.facts["source"]["digest"] == bundle.read(out).source.digest
    key = next(leaf for leaf in statement.weights if leaf.name == "decoder.layers.1.attention.k.weight")
    assert [*key.tensors] == ["transformer.h.1.attn.c_attn.weight"]
    assert key.rule == ["transposed", "part 1 of 3 of its rows", "stored as float32 (in, out)"]
    fused = tensors["transformer.h.1.attn.c_attn.weight"]  # (W, 3W)
    width = fused.shape[0]
    assert key.sha256 == sha256(fused[:, width : 2 * width])


def test_a_statement_is_the_same_each_time_and_only_of_its_bundle(copy, checkpoint_of, tmp_path):
    out, source = copy("bert"), checkpoint_of("bert")
    first = statement_of(out, tmp_path / "a.json", source=source)
    moved = Path(shutil.copytree(out, tmp_path / "elsewhere"))
    assert txexport.attest(moved, source=source, recorded=True).to_bytes() == first.to_bytes()
    assert str(tmp_path) not in (tmp_path / "a.json").read_text()
    other = txexport.attest(accepted(moved, verdict="NOT EQUAL"), source=source, recorded=True)
    assert other.verdict == "NOT EQUAL"
    assert (other.weights_root, other.tensors_root) == (first.weights_root, first.tensors_root)


@pytest.mark.parametrize("proof", [None, PROOF], ids=["none", "of other files"])
def test_without_a_valid_verdict_the_bundle_is_verified(proof, copy, checkpoint_of):
    out = copy("bert")
    dataclasses.replace(bundle.read(out), proof=proof).write(out / bundle.MANIFEST)
    statement = txexport.attest(out, source=checkpoint_of("bert"), recorded=True)
    assert statement.facts["verification"]["references"] == ["twin", "transformers"]
    assert statement.facts["verification"]["verdict"] == bundle.read(out).proof.verdict == "equal"


def test_a_recorded_verdict_is_not_believed_unless_it_is_asked_for(copy, checkpoint_of):
    out, source = copy("bert"), checkpoint_of("bert")
    accepted(out, verdict="perfect")
    assert txexport.attest(out, source=source, recorded=True).verdict == "perfect"
    assert txexport.attest(out, source=source).verdict == "equal"


def test_a_weight_that_export_does_not_make_is_not_attested(copy, checkpoint_of, tmp_path):
    """Even if the folder has a proof, which anybody can write."""
    out = copy("bert")
    tamper(out, "encoder.layers.1.feed_forward.up.weight", np.zeros_like)
    text = r"encoder.layers.1.feed_forward.up.weight is not what export makes of encoder.layer.1.interm"
    with pytest.raises(BundleError, match=text):
        statement_of(out, tmp_path / "a.json", source=checkpoint_of("bert"))
    with pytest.raises(CheckpointError, match=r"is not what was exported: config\.json"):
        statement_of(out, tmp_path / "a.json", source=checkpoint_of("roberta"))


def test_a_bundle_that_changes_meanwhile_is_not_attested(copy, checkpoint_of, tmp_path, monkeypatch):
    out, read = copy("bert"), attesting.tensor_leaves

    def change(origins: Origins) -> list[TensorLeaf]:
        (out / "config.json").write_text("{}")
        return read(origins)

    monkeypatch.setattr(attesting, "tensor_leaves", change)
    with pytest.raises(BundleError, match="was changed while it was attested"):
        statement_of(out, tmp_path / "a.json", source=checkpoint_of("bert"))


def test_its_reader_needs_numpy_alone(copy, checkpoint_of, tmp_path):
    out = copy("gpt2")
    statement_of(out, tmp_path / "out.json", source=checkpoint_of("gpt2"))
    command = [sys.executable, "-c", WITHOUT, str(out), str(tmp_path / "out.json")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert printed == "equal 0 0\n"


def export(source: Path, out: Path, only: str = "native", **options) -> Path:
    txexport.export(source, out, only=only, **options)
    return out


def pickled(folder: Path, **options) -> Path:
    """A checkpoint of torch.save, with the tensors of BERT."""
    tiny_checkpoint.save(folder, "bert")
    return tiny_pickled.pickled(folder, **options)


def adapted(folder: Path) -> tuple[Path, Path]:
    """A base and an adapter of it."""
    tiny_checkpoint.save(folder / "base", "bert")
    tensors = tiny_adapter.lora(folder / "base", "query")
    adapter = tiny_adapter.write(folder / "adapter", tensors, target_modules=["query"])
    return folder / "base", adapter


def attested(source: Path, folder: Path, **options) -> txexport.verification.attestations.statement.Statement:
    """The statement of an export, after a check that its reader makes the same again."""
    out = export(source, folder / "out", **options)
    statement = statement_of(out, folder / "out.json", source=source, adapter=options.get("adapter"))
    report = txexport.verify_attestation(
        out, folder / "out.json", source=source, adapter=options.get("adapter")
    )
    assert (report.verdict, report.differences) == ("equal", [])
    names = {leaf.name for leaf in statement.tensors}
    assert all(set(leaf.tensors) <= names for leaf in statement.weights)
    return statement


@pytest.mark.parametrize("options", [{}, {"legacy": True}, {"shards": 3}, {"trained": True}], ids=str)
def test_the_same_tensors_in_other_files_have_the_same_hashes(options, checkpoint_of, tmp_path):
    expected = {name: sha256(tensor) for name, tensor in tensors_of(checkpoint_of("bert")).items()}
    statement = attested(pickled(tmp_path / "in", **options), tmp_path)
    assert {leaf.name: leaf.sha256 for leaf in statement.tensors} == expected
    assert all(leaf.recomputed for leaf in statement.weights)


@pytest.mark.parametrize("name", [*tiny_quantised.FORMATS, "mxfp4"])
def test_quantised_checkpoints_name_their_packed_tensors(name, tmp_path):
    if name == "mxfp4":
        tiny_quantised.quantised_experts(tiny_quantised.tiny_gpt_oss(tmp_path / "float"), tmp_path / "in")
    else:
        packer, settings = tiny_quantised.FORMATS[name]
        tiny_quantised.quantised(
            tiny_quantised.tiny_llama(tmp_path / "float"), tmp_path / "in", packer, settings
        )
    statement = attested(tmp_path / "in", tmp_path)
    unpacked = [leaf for leaf in statement.weights if leaf.rule[0].startswith("unpacked from ")]
    assert unpacked
    assert all(len(leaf.tensors) > 1 for leaf in unpacked)
    if name == "mxfp4":
        assert {next(iter(leaf.tensors)).rpartition("_")[2] for leaf in unpacked} == {"blocks"}
    used = {tensor for leaf in statement.weights for tensor in leaf.tensors}
    fillers = {leaf.name for leaf in statement.tensors if leaf.name.endswith("_proj.bias")}  # of zeros
    assert {leaf.name for leaf in statement.tensors} - fillers <= used


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int4"])
def test_rounded_weights_are_made_again(dtype, checkpoint_of, tmp_path):
    statement = attested(checkpoint_of("bert"), tmp_path, dtype=dtype)
    assert all(leaf.recomputed for leaf in statement.weights)
    assert any(dtype in step for step in rules(statement.weights))


def test_calibrated_integers_are_said_not_to_be_made_again(checkpoint_of, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(["the cat sat on the mat", "a dog and a cat", "Anna lives in Paris"]))
    source = checkpoint_of("bert")
    statement = attested(source, tmp_path, dtype="int4", texts=texts)
    left = [leaf for leaf in statement.weights if not leaf.recomputed]
    assert left
    assert {step.rpartition(", ")[2] for leaf in left for step in leaf.rule} == {"calibrated on texts"}
    assert f"{len(left)} of {len(statement.weights)} ranges of weights, which were not made again" in (
        statement.not_tried
    )
    report = txexport.verify_attestation(tmp_path / "out", tmp_path / "out.json", source=source)
    assert report.skipped == [f"{len(left)} ranges of weights cannot be made again without running a graph"]


def test_tensors_of_a_gguf_file_have_its_names(tmp_path):
    tiny_checkpoint.save(tmp_path / "original", "llama")
    file = tiny_gguf.convert(tmp_path / "original", tmp_path / "model.gguf")
    statement = attested(file, tmp_path)
    query = next(leaf for leaf in statement.weights if leaf.name.endswith("layers.0.attention.q.weight"))
    assert [*query.tensors] == ["blk.0.attn_q.weight"]
    assert query.rule[:2] == ["decoded from F32", "rows in the order of transformers"]


def test_tensors_of_an_adapter_are_named_with_its_file(tmp_path):
    base, adapter = adapted(tmp_path)
    statement = attested(base, tmp_path, adapter=adapter)
    query = next(leaf for leaf in statement.weights if leaf.name.endswith("layers.0.attention.q.weight"))
    names = [name.rpartition(":") for name in query.tensors]
    assert [name[0] for name in names] == ["", *["adapter_model.safetensors"] * 2]
    assert [name[2].rpartition("query.")[2] for name in names] == ["weight", "lora_B.weight", "lora_A.weight"]
    assert statement.facts["source"]["adapter"] == "adapter"


def test_tensors_of_a_language_are_named_with_its_file(tmp_path):
    mms.save_mms(tmp_path / "in")
    statement = attested(tmp_path / "in", tmp_path, language="fra")
    [head] = [leaf for leaf in statement.weights if leaf.name == "head.weight"]
    assert [*head.tensors] == ["adapter.fra.safetensors:lm_head.weight"]
    assert {leaf.name for leaf in statement.tensors} > {"lm_head.weight", *head.tensors}


def test_interpolated_positions_are_made_again(tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "vit")
    statement = attested(tmp_path / "in", tmp_path, image_size=(24, 36))
    steps = rules(statement.weights)
    assert any(step.startswith("interpolated to ") for step in steps)


@pytest.mark.parametrize("model_type", ["bloom", "gpt_oss", "wav2vec2", "t5", "gemma2", "olmo_hybrid"])
def test_every_kind_of_rule_is_made_again(model_type, checkpoint_of, tmp_path):
    statement = attested(checkpoint_of(model_type), tmp_path)
    assert all(leaf.recomputed for leaf in statement.weights)
    expected = {"bloom": "in each of", "gpt_oss": "expert", "wav2vec2": "norms", "gemma2": "plus 1"}
    expected["olmo_hybrid"] = "rows of all tensors in turn"
    assert any(expected.get(model_type, "stored") in step for step in rules(statement.weights))


def test_weights_inside_of_graphs_are_said_to_have_no_leaves(checkpoint_of, tmp_path):
    statement = attested(checkpoint_of("bert"), tmp_path, only="hub", single_file=True)
    assert statement.weights == []
    assert (
        "weights are inside the graphs, whose digests cover them, and have no leaves" in statement.not_tried
    )


@pytest.mark.slow
def test_copied_weights_of_a_traced_bundle_are_recognised(tmp_path):
    source = traced_checkpoints.layoutlm(tmp_path / "in")
    txexport.export_traced(source, tmp_path / "out")
    statement = statement_of(tmp_path / "out", tmp_path / "out.json", source=source)
    derived = [leaf for leaf in statement.weights if leaf.recomputed]
    [buffer] = [leaf for leaf in statement.weights if not leaf.recomputed]
    assert (buffer.name, buffer.tensors) == ("layoutlm.embeddings.position_ids", {})  # no checkpoint has it
    assert f"1 of {len(derived) + 1} ranges of weights, which were not made again" in statement.not_tried
    assert rules(derived) == {"copied", "as float32", "transposed"}
    tensors = tensors_of(source)
    for leaf in derived:
        [name] = leaf.tensors
        numbers = tensors[name].T if "transposed" in leaf.rule else tensors[name]
        assert leaf.sha256 == sha256(numbers)
    report = txexport.verify_attestation(tmp_path / "out", tmp_path / "out.json", source=source)
    assert (report.verdict, report.differences) == ("equal", [])
