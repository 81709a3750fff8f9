"""verify is worth nothing unless it fails when the bundle is wrong: these tests break bundles on purpose."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import tiny_checkpoint
from click.testing import CliRunner
from onnx import helper, numpy_helper
from safetensors import safe_open

from txexport import bundle
from txexport.checkpoint import read_header
from txexport.cli import main
from txexport.errors import CheckpointError, InputError
from txexport.exporter import export
from txexport.families import bert
from txexport.parity import CaseReport, Report, TensorCheck, verify
from txexport.parity.report import compare


@pytest.fixture
def copy_of(bundle_of, tmp_path):
    """A function from a model_type and a cache to a bundle of its own, to be broken."""

    def get(model_type: str, cache: str | None = None) -> Path:
        folder = tmp_path / "bundle"
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(bundle_of(model_type, cache), folder)
        return folder

    return get


def weight_names(folder: Path) -> list[str]:
    with safe_open(folder / "weights.safetensors", "np") as file:
        return list(file.keys())


def tamper(folder: Path, name: str, change) -> None:
    """Change one tensor's numbers where they lie."""
    stored = read_header(folder / "weights.safetensors")[name]
    with (folder / "weights.safetensors").open("r+b") as file:
        file.seek(stored.offset)
        numbers = np.frombuffer(file.read(stored.nbytes), np.float32).reshape(stored.shape).copy()
        file.seek(stored.offset)
        file.write(change(numbers).astype(np.float32).tobytes())


def without_effect(model_type: str, name: str) -> bool:
    """A key bias shifts all scores of a query alike, which softmax ignores; only a cache shows it."""
    return name.endswith("attention.k.bias") and (model_type == "bert" or name.startswith("encoder."))


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "bart"])
def test_every_dropped_weight_is_caught(model_type, copy_of, bundle_of):
    names = weight_names(bundle_of(model_type))
    assert len(names) > 30
    missed = []
    for name in names:
        folder = copy_of(model_type)
        tamper(folder, name, lambda numbers: 0 * numbers)
        report = verify(folder, reference="twin")
        assert report.failed[0].name == "every weight"
        if not [case for case in report.failed if case.reference == "twin"]:
            missed.append(name)
    assert [name for name in missed if not without_effect(model_type, name)] == []


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "bart"])
def test_one_changed_number_is_caught(model_type, copy_of):
    def change(numbers):
        numbers.flat[numbers.size // 2] += 0.1
        return numbers

    folder = copy_of(model_type)
    name = next(n for n in weight_names(folder) if n.endswith("layers.1.feed_forward.up.weight"))
    tamper(folder, name, change)
    report = verify(folder)
    assert {case.reference for case in report.failed} == {"checkpoint", "twin", "transformers"}


def functions(model: onnx.ModelProto, name: str) -> onnx.FunctionProto:
    return next(function for function in model.functions if function.name == name)


def node(function: onnx.FunctionProto, kind: str) -> onnx.NodeProto:
    return next(node for node in function.node if node.op_type == kind)


def set_attribute(of: onnx.NodeProto, name: str, value) -> None:
    kept = [attribute for attribute in of.attribute if attribute.name != name]
    del of.attribute[:]
    of.attribute.extend([*kept, helper.make_attribute(name, value)])


def attribute(of: onnx.NodeProto, name: str):
    return next(helper.get_attribute_value(a) for a in of.attribute if a.name == name)


def ignore_mask(model):
    """Every key counts as real; where there are two masks, every key of the encoder."""
    mask = next(f for name in ("padding_mask", "causal_mask") for f in model.functions if f.name == name)
    cast = node(mask, "Cast")
    ones = helper.make_node("Equal", [cast.input[0], cast.input[0]], [cast.output[0]])
    mask.node.insert(list(mask.node).index(cast), ones)
    mask.node.remove(cast)


def ignore_causality(model):
    """A query sees keys after itself."""
    set_attribute(node(functions(model, "cached_attention"), "Attention"), "is_causal", 0)


def shift_positions(model):
    """Every position is one too high, where the table has room."""
    add = node(functions(model, "positions"), "Range")
    function = functions(model, "positions")
    one = helper.make_node("Constant", [], ["one_more"], value_int=1)
    shifted = helper.make_node("Add", [add.output[0], "one_more"], ["shifted"])
    for user in function.node:
        for i, name in enumerate(user.input):
            if name == add.output[0]:
                user.input[i] = "shifted"
    place = list(function.node).index(add) + 1
    function.node.insert(place, one)
    function.node.insert(place + 1, shifted)


def larger_epsilon(model):
    """Ten times the norms' epsilon."""
    norm = node(functions(model, "norm"), "LayerNormalization")
    set_attribute(norm, "epsilon", 10 * attribute(norm, "epsilon"))


def other_gelu(model):
    """The other of the two forms of GELU."""
    gelu = next(node(f, "Gelu") for f in model.functions if f.name.startswith("gelu"))
    other = "none" if any(a.name == "approximate" for a in gelu.attribute) else "tanh"
    set_attribute(gelu, "approximate", other)


def unscaled(model):
    """Scores without 1/sqrt(head_dim)."""
    for function in model.functions:
        for found in function.node:
            if found.op_type == "Attention":
                set_attribute(found, "scale", 1.0)


def swap_heads(model):
    """Heads and their numbers in the wrong order."""
    set_attribute(node(functions(model, "merge"), "Transpose"), "perm", [0, 2, 3, 1])


def swap_queries_and_keys(model):
    """The first layer reads each for the other."""
    block = next(n for n in model.graph.node if n.op_type.endswith("_block"))
    names = list(block.input)
    q, k = (next(i for i, n in enumerate(names) if n.endswith(f".attention.{x}.weight")) for x in "qk")
    block.input[q], block.input[k] = names[k], names[q]


def swap_layers(model):
    """The first two layers' weights, each for the other."""
    for block in [n for n in model.graph.node if n.op_type.endswith("_block")][:2]:
        for i, name in enumerate(block.input):
            old, new = (
                ("layers.0.", "layers.1.") if "layers.0." in block.name + "." else ("layers.1.", "layers.0.")
            )
            if name.endswith((".weight", ".bias")):
                block.input[i] = name.replace(old, new)


def stale_cross_cache(model):
    """Every layer reads the first one's encoder keys."""
    for block in [n for n in model.graph.node if n.op_type == "decoder_block"]:
        for i, name in enumerate(block.input):
            if name.endswith(".encoder.key"):
                block.input[i] = "past_key_values.0.encoder.key"


def last_logits_only(model):
    """The vocabulary projection ignores which positions were asked for."""
    head = next(n for n in model.graph.node if n.op_type == "causal_lm_head")
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 1), np.int64), "first"))
    gather = functions(model, "causal_lm_head")
    picks = node(gather, "GatherND").input[1]
    zero = helper.make_node("Mul", [picks, "none"], ["zeroed"])
    none = helper.make_node("Constant", [], ["none"], value_int=0)
    place = list(gather.node).index(node(gather, "GatherND"))
    node(gather, "GatherND").input[1] = "zeroed"
    gather.node.insert(place, none)
    gather.node.insert(place + 1, zero)
    assert head.input[1] == "logits_indices"


def ignore_global_tokens(model):
    """No token is global."""
    for function in [f for f in model.functions if f.name.startswith("longformer_attention")]:
        marks = node(function, "Mul")
        assert list(marks.input) == ["attention_mask", "global_attention_mask"]
        marks.op_type, marks.input[1] = "Sub", marks.input[0]


def narrower_window(model):
    """A token sees one less on either side."""
    for function in [f for f in model.functions if f.name.startswith("longformer_near")]:
        node(function, "LessOrEqual").op_type = "Less"


MUTATIONS = [
    ("longformer", None, "model.onnx", ignore_global_tokens),
    ("longformer", None, "model.onnx", narrower_window),
    ("bert", None, "model.onnx", ignore_mask),
    ("bert", None, "model.onnx", shift_positions),
    ("bert", None, "model.onnx", other_gelu),
    ("bert", None, "model.onnx", unscaled),
    ("bert", None, "model.onnx", swap_heads),
    ("bert", None, "model.onnx", swap_queries_and_keys),
    ("bert", None, "model.onnx", swap_layers),
    ("gpt2", "static", "model.onnx", ignore_causality),
    ("gpt2", "static", "model.onnx", shift_positions),
    ("gpt2", "static", "model.onnx", larger_epsilon),
    ("gpt2", "static", "model.onnx", other_gelu),
    ("gpt2", "static", "model.onnx", unscaled),
    ("gpt2", "static", "model.onnx", last_logits_only),
    ("gpt2", "static", "model.onnx", swap_queries_and_keys),
    ("gpt2", "static", "model.onnx", swap_layers),
    ("gpt2", "dynamic", "model.onnx", ignore_mask),
    ("gpt2", "dynamic", "model.onnx", swap_heads),
    ("bart", "static", "encoder_model.onnx", ignore_mask),
    ("bart", "static", "encoder_model.onnx", shift_positions),
    ("bart", "static", "decoder_model.onnx", ignore_mask),
    ("bart", "static", "decoder_model.onnx", ignore_causality),
    ("bart", "static", "decoder_model.onnx", shift_positions),
    ("bart", "static", "decoder_model.onnx", stale_cross_cache),
    ("bart", "static", "decoder_model.onnx", larger_epsilon),
    ("bart", "dynamic", "decoder_model.onnx", ignore_mask),
    ("bart", "dynamic", "decoder_model.onnx", shift_positions),
]


@pytest.mark.parametrize(
    ("model_type", "cache", "file", "mutate"),
    MUTATIONS,
    ids=[f"{m[0]}-{m[1]}-{m[2][:7]}-{m[3].__name__}" for m in MUTATIONS],
)
def test_changed_mathematics_is_caught(model_type, cache, file, mutate, copy_of):
    folder = copy_of(model_type, cache)
    model = onnx.load(folder / file, load_external_data=False)
    before = model.SerializeToString()
    mutate(model)
    assert model.SerializeToString() != before
    onnx.save(model, folder / file)
    report = verify(folder)
    for reference in ("twin", "transformers"):
        wrong = [case for case in report.failed if case.reference == reference]
        assert wrong
        assert not all(case.exception for case in wrong), "the graph should run, and run wrongly"


def test_unchanged_bundle_is_equal(copy_of):
    assert verify(copy_of("bert")).ok


def test_row_of_a_table_that_no_case_reads_is_caught(copy_of):
    """Cases of tokens read few of a real vocabulary's words: the weights themselves are compared too."""

    def change(numbers):
        numbers[7] *= -1
        return numbers

    folder = copy_of("bert")
    tamper(folder, "encoder.embedding.word.weight", change)
    assert verify(folder).failed[0].name == "every weight"


def test_weight_of_a_graph_s_own_is_caught(copy_of):
    """The true matrix still in place, but another one read."""
    folder = copy_of("bert")
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    words = np.ones((311, 48), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(words, "other"))
    onnx.save(model, folder / "model.onnx")
    case = verify(folder, reference="twin").failed[0]
    assert case.exception == "AssertionError: model.onnx holds weights of its own: other"


def test_window_longer_than_usual_is_still_crossed(tmp_path):
    tiny_checkpoint.save(tmp_path / "ck", "mistral", sliding_window=1500, max_position_embeddings=4000)
    export(tmp_path / "ck", tmp_path / "out")
    assert verify(tmp_path / "out", reference="transformers").ok
    model = onnx.load(tmp_path / "out" / "model.onnx", load_external_data=False)
    mask = functions(model, "cache_mask")
    [reach] = [n for n in mask.node if n.op_type == "Constant" and attribute_or_none(n, "value_int") == 1500]
    set_attribute(reach, "value_int", 1400)
    onnx.save(model, tmp_path / "out" / "model.onnx")
    assert {case.reference for case in verify(tmp_path / "out").failed} == {"twin", "transformers"}


def attribute_or_none(of: onnx.NodeProto, name: str):
    return next((helper.get_attribute_value(a) for a in of.attribute if a.name == name), None)


def test_lost_output_is_caught(copy_of):
    folder = copy_of("bert")
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    del model.graph.output[1]
    onnx.save(model, folder / "model.onnx")
    manifest = json.loads((folder / "txexport.json").read_text())
    del manifest["graphs"]["model"]["outputs"][1]
    (folder / "txexport.json").write_text(json.dumps(manifest))
    report = verify(folder, reference="twin")
    run = [case for case in report.failed if case.reference == "twin"]
    assert run
    assert {case.exception for case in run} == {"AssertionError: the graph has no output pooler_output"}


MANIFESTS = [
    ({"model_type": "gpt2"}, "model_type or task is not that of the checkpoint"),
    ({"limits": {"encoder": 7}}, "limits are {'encoder': 7}, expected {'encoder': 40}"),
    ({"opset": 17}, "opset 17 is not that of model"),
    ({"weights_sha256": "0"}, "weights.safetensors is not the file that was exported"),
    ({"spec": {"pooler": True}}, "ModelSpec: neither encoder nor decoder"),
]


@pytest.mark.parametrize(("change", "said"), MANIFESTS, ids=[row[1] for row in MANIFESTS])
def test_manifest_that_says_something_else_is_caught(change, said, copy_of):
    folder = copy_of("bert")
    manifest = json.loads((folder / "txexport.json").read_text())
    (folder / "txexport.json").write_text(json.dumps(manifest | change))
    assert said in verify(folder, reference="twin").failed[0].exception


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_changed_companion_is_caught(name, copy_of):
    folder = copy_of("bert")
    (folder / name).write_text((folder / name).read_text() + " ")
    [case] = verify(folder, reference="twin").failed
    assert case.exception == f"AssertionError: {name} is not the checkpoint's"


def test_error_in_a_family_s_table_is_caught_by_the_original(checkpoint_of, tmp_path, monkeypatch):
    """Our twin is filled through the same table, so it alone would call this equal."""
    table = bert.table

    def swapped(spec):
        rules = dict(table(spec).rules)
        q, v = f"{bert.LAYER}.attention.q.*", f"{bert.LAYER}.attention.v.*"
        rules[q], rules[v] = rules[v], rules[q]
        return dataclasses.replace(table(spec), rules=rules)

    monkeypatch.setattr(bert, "table", swapped)
    export(checkpoint_of("bert"), tmp_path / "out")
    assert {case.reference for case in verify(tmp_path / "out").failed} == {"transformers"}


def test_without_transformers_the_report_says_so(bundle_of, monkeypatch):
    monkeypatch.setattr("txexport.parity.verifier.find_spec", lambda name: None)
    report = verify(bundle_of("bert"))
    assert report.ok
    assert report.references == ["checkpoint", "twin"]
    assert report.cases[-1] == CaseReport(
        "all cases", "transformers", skipped="transformers is not installed"
    )


def test_reference_that_cannot_be_made_is_no_failure_of_the_bundle(checkpoint_of, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(checkpoint_of("bert"), source)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"dtype": "floaty"}))
    export(source, tmp_path / "out")
    code, output = invoke("verify", tmp_path / "out")
    assert code == 2
    assert "error: reference 'transformers' could not be made of" in output
    assert output.count("\n") == 1


def test_report_that_cannot_be_written_is_said_before_the_work(bundle_of, tmp_path):
    code, output = invoke("verify", bundle_of("bert"), "--json", tmp_path / "nowhere" / "report.json")
    assert code == 2
    assert output.strip().endswith("nowhere is not a folder, so the report cannot be written there")


def test_changed_source_cannot_be_tried(bundle_of, checkpoint_of):
    with pytest.raises(
        CheckpointError, match=r"is not what was exported: config\.json, model\.safetensors differs"
    ):
        verify(bundle_of("bert"), source=checkpoint_of("gpt2"))


def test_unknown_reference_lists_the_known(bundle_of):
    with pytest.raises(InputError, match="expected one of twin, transformers, float64, torch"):
        verify(bundle_of("bert"), reference="tensorflow")


def invoke(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_exit_codes(copy_of, tmp_path):
    folder = copy_of("gpt2")
    code, output = invoke("verify", folder, "--json", tmp_path / "report.json")
    assert code == 0
    assert "equal to twin and transformers" in " ".join(output.split())
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ok"] is True
    assert {case["ok"] for case in report["cases"]} == {True}
    assert all(check["error"] <= check["tolerance"] for case in report["cases"] for check in case["checks"])
    tamper(folder, "decoder.layers.1.attention.q.weight", lambda numbers: numbers + 0.01)
    code, output = invoke("verify", folder, "--json", tmp_path / "report.json")
    assert code == 1
    assert "NOT EQUAL" in output
    assert json.loads((tmp_path / "report.json").read_text())["ok"] is False
    manifest = json.loads((folder / "txexport.json").read_text())
    manifest["source"]["path"] = str(tmp_path / "gone")
    (folder / "txexport.json").write_text(json.dumps(manifest))
    code, output = invoke("verify", folder)
    assert code == 2
    assert output.startswith(f"error: {tmp_path / 'gone'} is not a folder; expected")
    assert output.count("\n") == 1


def test_graph_that_raises_is_a_failure_and_not_a_skip(copy_of):
    folder = copy_of("bert")
    manifest = bundle.read(folder)
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    model.graph.input[0].name = "ids"
    for found in model.graph.node:
        for i, name in enumerate(found.input):
            if name == "input_ids":
                found.input[i] = "ids"
    onnx.save(model, folder / "model.onnx")
    report = verify(folder)
    run = [case for case in report.cases if case.reference == "twin"]
    assert len(run) == len(verify_names(manifest))
    assert all("unknown input_ids; missing ids" in case.exception for case in run)
    assert (
        report.cases[1].exception
        == "AssertionError: txexport.json: inputs of model are not those of the graph"
    )


def verify_names(manifest: bundle.Manifest) -> list[str]:
    from txexport.parity.cases import encoder_cases

    return [*(case.name for case in encoder_cases(311, 2, manifest.limits["encoder"])), "sentences"]


def test_report_is_equal_only_if_something_was_compared():
    def report(*cases: CaseReport) -> Report:
        return Report("b", "bert", "t", "cpu", {}, list(cases))

    good = CaseReport("good", "twin", [TensorCheck("y", 3, 1e-6, 1e-5)])
    assert report(good).ok
    assert report(good, CaseReport("other", "twin", skipped="why")).ok
    assert not report().ok
    assert not report(CaseReport("other", "twin", skipped="why")).ok
    assert not report(good, CaseReport("empty", "twin")).ok
    assert not report(good, CaseReport("raised", "twin", exception="E")).ok
    assert not report(good, CaseReport("nothing compared", "twin", [TensorCheck("y", 0, 0.0, 1e-5)])).ok


def test_comparison_is_of_every_number():
    one = np.ones((2, 3), np.float32)
    assert compare("y", [(one, one)], 1e-5) == TensorCheck("y", 6, 0.0, 1e-5)
    assert compare("y", [(one + 2e-5, one)], 1e-5).ok is False
    assert compare("y", [(1000 * one + 2e-3, 1000 * one)], 1e-5).ok
    for wrong in (np.nan, np.inf):
        changed = one.copy()
        changed[1, 2] = wrong
        assert compare("y", [(changed, one)], 1e-5).error == math.inf
        assert compare("y", [(one, changed)], 1e-5).error == math.inf
    assert compare("y", [(one[:1], one)], 1e-5).error == math.inf
