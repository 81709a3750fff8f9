"""Traced bundles: exported, run, proved, and told from wrong ones."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import traced_checkpoints
from helpers.traced_checkpoints import contradiction, copy_of
from onnx import helper, numpy_helper

import txexport
from txexport import bundle
from txexport.cli.main import main
from txexport.errors import BundleError, CheckpointError, InputError, UnsupportedError
from txexport.verification.checks import IDENTITY
from txexport.verification.traced import cases, free_axes, judging, originals, verifying

pytestmark = pytest.mark.xdist_group("traced")
QUICK = {"sizes of the trace", cases.RAGGED, cases.LEFT, "all axes larger"}


@pytest.fixture(scope="session")
def labeller(tmp_path_factory):
    """A checkpoint of words with boxes, and its traced bundle."""
    folder = tmp_path_factory.mktemp("traced")
    source = traced_checkpoints.layoutlm(folder / "model")
    out = folder / "out"
    txexport.export_traced(source, out)
    return source, out


@pytest.fixture(scope="session")
def mobilenet(tmp_path_factory):
    """A checkpoint whose graph is right at one size of images, and its traced bundle."""
    folder = tmp_path_factory.mktemp("traced")
    source = traced_checkpoints.mobilenet(folder / "model")
    return source, txexport.export_traced(source, folder / "out"), folder / "out"


def inputs(rows, tokens, seed=0):
    chance = np.random.default_rng(seed)
    corners = np.sort(chance.integers(0, 1000, (rows, tokens, 2, 2)), axis=2)
    mask = np.ones((rows, tokens), np.int64)
    mask[-1, tokens // 2 :] = 0
    return {
        "input_ids": chance.integers(5, 99, (rows, tokens)),
        "bbox": corners.reshape(rows, tokens, 4),
        "token_type_ids": chance.integers(0, 2, (rows, tokens)),
        "attention_mask": mask,
    }


def test_answers_as_transformers(labeller):
    source, out = labeller
    model = txexport.load_traced(out, device="cpu")
    original = transformers.AutoModelForTokenClassification.from_pretrained(source)
    for rows, tokens in ((1, 1), (5, 30), (4, 64)):
        values = inputs(rows, tokens)
        with torch.no_grad():
            expected = original(
                **{name: torch.from_numpy(one) for name, one in values.items()}
            ).logits.numpy()
        [logits] = model(**values).values()
        read = values["attention_mask"] == 1
        np.testing.assert_allclose(logits[read], expected[read], atol=2e-6)


def test_is_verified(labeller):
    _, out = labeller
    report = txexport.verify(out, cases="quick")
    assert report.verdict == "equal"
    assert {case.name for case in report.cases} > QUICK
    assert all(case.checks for case in report.cases)
    manifest = bundle.read_traced(out)
    assert manifest.proof is not None
    assert manifest.proof.verdict == "equal"
    assert manifest.varied == ["batch_size", "sequence_length"]
    assert not manifest.limits
    full = txexport.verify(out)
    names = {case.name for case in full.cases}
    assert {"batch_size 1", "batch_size 9", "sequence_length 1", "sequence_length 64"} < names
    assert full.ok


def test_runs_without_pytorch_and_transformers(labeller):
    _, out = labeller
    code = (
        "import sys, numpy as np, txexport\n"
        f"model = txexport.load_traced({str(out)!r}, device='cpu')\n"
        "ids = np.ones((2, 3), np.int64)\n"
        "model(input_ids=ids, token_type_ids=ids, attention_mask=ids, bbox=np.ones((2, 3, 4), np.int64))\n"
        "print(sorted({'torch', 'transformers', 'onnx', 'onnxscript'} & sys.modules.keys()))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_notes_of_the_exporter_are_left_out(labeller):
    """They would tell the paths of the machine, and differ between machines."""
    _, out = labeller
    content = (out / "onnx/model.onnx").read_bytes()
    assert b"site-packages" not in content
    assert len(content) < 40_000


def first_product(model):
    """The first product of a graph with a stored matrix."""
    stored = {one.name for one in model.graph.initializer}
    return next(
        node for node in model.graph.node if node.op_type in ("MatMul", "Gemm") and {*node.input} & stored
    )


def drop_product(model):
    node = first_product(model)
    node.op_type = "Identity"
    del node.input[1:]
    del node.attribute[:]


def swap_corners(model):
    """Read the boxes' corners in another order."""
    node = helper.make_node("Gather", ["bbox", "order"], ["turned"], axis=2)
    for other in model.graph.node:
        other.input[:] = ["turned" if name == "bbox" else name for name in other.input]
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 0, 3, 2]), "order"))
    model.graph.node.insert(0, node)


@pytest.mark.parametrize("edit", [pytest.param(drop_product, marks=pytest.mark.slow), swap_corners])
def test_a_wrong_graph_is_not_equal(labeller, edit, tmp_path):
    """By identity and by its cases, and by the cases alone where the manifest lists the wrong file."""
    source, out = labeller
    folder = copy_of(out, tmp_path / "wrong")
    path = folder / "onnx/model.onnx"
    model = onnx.load(path, load_external_data=False)
    edit(model)
    onnx.save(model, path)
    with pytest.raises(BundleError, match=r"onnx/model\.onnx is not the file that was exported"):
        txexport.load_traced(folder, device="cpu")
    manifest = bundle.read_traced(folder)
    graph = replace(manifest.graph, sha256=bundle.files_sha256(folder)["onnx/model.onnx"])
    replace(manifest, graph=graph).write(folder / "txexport.json")
    report = txexport.verify(folder, source=source, cases="quick")
    assert report.verdict == "NOT EQUAL"
    failed = {case.name for case in report.failed}
    assert {IDENTITY, *QUICK} <= failed


def test_wrong_weights_are_not_equal(labeller, tmp_path):
    source, out = labeller
    folder = copy_of(out, tmp_path / "wrong")
    data = bytearray((folder / "onnx/model.onnx_data").read_bytes())
    data[len(data) // 2 + 2] ^= 0x40
    (folder / "onnx/model.onnx_data").write_bytes(data)
    report = txexport.verify(folder, source=source, cases="quick")
    assert report.verdict == "NOT EQUAL"
    assert any("not the file that was exported" in (case.exception or "") for case in report.failed)


def test_a_mask_that_is_ignored_fails_with_padding_alone(labeller):
    source, out = labeller
    judge = originals.original(source)
    model = txexport.load_traced(out, device="cpu")
    layout, sizes = free_axes.accepted_layout(judge)

    def unmasked(**values):
        return model(**values | {"attention_mask": np.ones_like(values["attention_mask"])})

    verdicts = {}
    for case in cases.plan(judge, layout, sizes, []):
        values = free_axes.values_of(judge, layout, sizes, case)
        assert all(check.ok for check in judging.judged(judge, model, values))
        verdicts[case.name] = all(check.ok for check in judging.judged(judge, unmasked, values))
    assert verdicts == {"sizes of the trace": True, cases.RAGGED: False, cases.LEFT: False}


def test_another_checkpoint_is_refused(labeller, tmp_path):
    _, out = labeller
    torch.manual_seed(1)
    other = traced_checkpoints.save(
        transformers.AutoModelForTokenClassification.from_pretrained(labeller[0]), tmp_path / "other"
    )
    with pytest.raises(CheckpointError, match=r"is not the exported checkpoint: .*model\.safetensors"):
        txexport.verify(out, source=other)


@pytest.mark.slow
def test_a_size_at_which_the_graph_differs_is_fixed(mobilenet):
    _, manifest, out = mobilenet
    assert manifest.varied == ["batch_size"]
    assert set(manifest.limits) == {"height", "width"}
    [port] = manifest.graph.inputs
    assert port.shape == ["batch_size", 3, 32, 32]
    model = txexport.load_traced(out, device="cpu")
    assert model(pixel_values=np.zeros((2, 3, 32, 32), np.float32))["logits"].shape == (2, 4)
    with pytest.raises(InputError, match=r"has height 48, but height is 32 always: the exporter fixed it"):
        model(pixel_values=np.zeros((2, 3, 48, 48), np.float32))
    report = txexport.verify(out, cases="quick")
    assert report.ok
    assert any("height is 32 always" in note for note in report.notes)


def test_random_answers_are_refused(tmp_path):
    source = traced_checkpoints.masked_autoencoder(tmp_path / "model")
    with pytest.raises(UnsupportedError, match="ViTMAEModel gives random answers"):
        txexport.export_traced(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_commands_tell_how_to_open_it(labeller):
    _, out = labeller
    with pytest.raises(BundleError, match="is a traced bundle of LayoutLMForTokenClassification"):
        txexport.load(out)
    with pytest.raises(InputError, match="texts cannot be given for a traced bundle"):
        txexport.verify(out, texts="texts.txt")


def test_load_traced_tells_other_bundles(bundle_of):
    with pytest.raises(BundleError, match="has a task of its own"):
        txexport.load_traced(bundle_of("bert"))


def test_inputs_are_checked(labeller):
    model = txexport.load_traced(labeller[1], device="cpu")
    values = inputs(2, 5)
    with pytest.raises(InputError, match="missing bbox"):
        model(**{name: one for name, one in values.items() if name != "bbox"})
    with pytest.raises(InputError, match="sequence_length is 4 in input"):
        model(**values | {"bbox": values["bbox"][:, :4]})
    with pytest.raises(InputError, match="unknown pixels"):
        model(**values, pixels=1)


@pytest.mark.slow
def test_the_command_line(labeller, tmp_path):
    source, out = labeller
    run = CliRunner().invoke(main, ["inspect", str(out), "--json"])
    assert json.loads(run.output)["architecture"] == "LayoutLMForTokenClassification"
    shown = CliRunner().invoke(main, ["inspect", str(out)]).output
    assert "logits float[batch_size, sequence_length, 5]" in shown
    refused = CliRunner().invoke(
        main, ["export", str(source), str(tmp_path / "x"), "--traced", "--dtype", "int8"]
    )
    assert refused.exit_code == 2
    assert "--dtype cannot be given with --traced" in refused.output
    config = transformers.BrosConfig(
        vocab_size=99, hidden_size=64, num_hidden_layers=1, num_attention_heads=4
    )
    transformers.BrosForTokenClassification(config).save_pretrained(tmp_path / "bros")
    unknown = CliRunner().invoke(main, ["export", str(tmp_path / "bros"), str(tmp_path / "y")])
    assert "export --traced" in unknown.output
    written = CliRunner().invoke(main, ["export", str(source), str(tmp_path / "x"), "--traced", "--json"])
    assert json.loads(written.stdout)["varied"] == ["batch_size", "sequence_length"]
    assert written.stderr == "note: layoutlm has graphs of its own; leave out --traced to export them\n"
    again = CliRunner().invoke(main, ["export", str(source), str(tmp_path / "x"), "--traced"])
    assert "exists; choose another folder, or --force" in again.output


@pytest.mark.parametrize(
    "edit",
    [
        lambda values: values | {"format": 10},
        lambda values: values | {"varied": ["depth"]},
        lambda values: values | {"layout": {}},
        lambda values: values | {"data": {"../x": {"bytes": 1, "sha256": ""}}},
        lambda values: {name: value for name, value in values.items() if name != "graph"},
    ],
)
def test_a_damaged_manifest_is_one_line(labeller, edit, tmp_path):
    folder = copy_of(labeller[1], tmp_path / "damaged")
    values = json.loads((folder / "txexport.json").read_text())
    (folder / "txexport.json").write_text(json.dumps(edit(values)))
    with pytest.raises(BundleError) as caught:
        txexport.load_traced(folder)
    assert "\n" not in str(caught.value)


def test_a_least_size_is_found_and_enforced(labeller, tmp_path):
    """The axis stays free where only its smallest sizes differ; sizes on both sides of a right one fix it."""
    judge = originals.original(labeller[0])
    layout, sizes = free_axes.accepted_layout(judge)
    accepted = [case for case in cases.trials(judge, layout, sizes) if case.axis == "sequence_length"]
    tried = free_axes.TracedGraph(None, layout, sizes, ["batch_size", "sequence_length"])
    assert not free_axes._wrong(tried, accepted, {"sequence_length 1": "crash"})
    assert tried.least == {"sequence_length": 2}
    assert free_axes._wrong(tried, accepted, {"sequence_length 64": "crash"}).keys() == {"sequence_length"}
    folder = copy_of(labeller[1], tmp_path / "out")
    manifest = replace(
        bundle.read_traced(folder), least={"sequence_length": 3}, limits={"sequence_length": "x"}
    )
    manifest.write(folder / "txexport.json")
    with pytest.raises(InputError, match="has sequence_length 1, but sequence_length is 3 or more: x"):
        txexport.load_traced(folder, device="cpu")(**inputs(2, 1))
    report = txexport.verify(folder, source=labeller[0])
    names = {case.name: case.ok for case in report.cases}
    assert names["sequence_length 23"]
    assert not names["sequence_length 2 differs"]  # the graph is right there: an export had not refused it
    assert "sequence_length 2" not in names


def test_sizes_that_the_class_refuses_need_no_difference(labeller, monkeypatch, tmp_path):
    """Below a least size, the graph must differ at the sizes that the class itself takes; at no others."""
    folder = copy_of(labeller[1], tmp_path / "out")
    manifest = bundle.read_traced(folder)
    replace(manifest, least={"sequence_length": 2}, limits={"sequence_length": "x"}).write(
        folder / "txexport.json"
    )
    takes = verifying.accepts
    monkeypatch.setattr(
        verifying, "accepts", lambda *some: some[-1].name != "sequence_length 1" and takes(*some)
    )
    report = txexport.verify(folder, source=labeller[0])
    assert report.ok, [case.summary for case in report.failed]


def test_more_tokens_than_positions_are_refused(labeller):
    with pytest.raises(InputError, match="has sequence_length 65, but the model has 64 positions"):
        txexport.load_traced(labeller[1], device="cpu")(**inputs(1, 65))


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("model_type", lambda one: replace(one, model_type="bert")),
        ("graph", lambda one: replace(one, graph=replace(one.graph, outputs=one.graph.outputs * 2))),
        ("sizes", lambda one: replace(one, sizes=one.sizes | {"batch_size": 3})),
        ("varied", lambda one: replace(one, varied=["batch_size"], versions={})),
        ("limits", lambda one: replace(one, limits={"batch_size": "tired"})),
        ("most", lambda one: replace(one, most={"sequence_length": 640})),
        (
            "layout",
            lambda one: replace(one, layout=one.layout | {"attention_mask": ["batch_size", "coordinates"]}),
        ),
    ],
)
def test_an_edited_manifest_is_not_equal(labeller, name, edit, tmp_path):
    folder = copy_of(labeller[1], tmp_path / "edited")
    edit(bundle.read_traced(folder)).write(folder / "txexport.json")
    expected = f"txexport.json: {name} is not as export writes it"
    assert contradiction(folder, labeller[0]) == expected


def test_a_judge_that_changes_itself_is_refused(tmp_path):
    """BigBird leaves its sparse attention for good at the first short input."""
    torch.manual_seed(0)
    config = transformers.BigBirdConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=1024,
        block_size=16,
        num_random_blocks=2,
        attention_type="block_sparse",
    )
    source = traced_checkpoints.save(transformers.BigBirdModel(config), tmp_path / "model")
    with pytest.raises(
        UnsupportedError, match=r"BigBirdModel changes its own .*attention_type while it runs"
    ):
        txexport.export_traced(source, tmp_path / "out")


def test_code_of_a_checkpoint_is_not_run(labeller, tmp_path):
    source = traced_checkpoints.layoutlm(tmp_path / "model")
    settings = {"auto_map": {"AutoImageProcessor": "evil.Evil"}, "image_processor_type": "Evil"}
    (source / "preprocessor_config.json").write_text(json.dumps(settings))
    (source / "evil.py").write_text("raise SystemExit('it ran')\n")
    assert not originals.original(source).processors


def test_weights_of_pytorch_are_read_without_running_them(labeller, tmp_path):
    source = tmp_path / "model"
    model = transformers.AutoModelForTokenClassification.from_pretrained(labeller[0])
    model.config.save_pretrained(source)
    torch.save(model.state_dict(), source / "pytorch_model.bin")
    judge = originals.original(source)
    values = inputs(2, 5)
    for name, array in originals.original(labeller[0]).run(values).items():
        np.testing.assert_array_equal(judge.run(values)[name], array)


@pytest.mark.parametrize("name", ["PersimmonConfig", "NoSuchModel", "logging"])
def test_a_class_that_is_no_model_is_refused(labeller, name):
    with pytest.raises(UnsupportedError, match=f"has no model class {name}"):
        originals.original(labeller[0], name)
