"""compare says whether two models compute the same, and names what they do not share."""

import html
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, tamper
from helpers.graph_edits import set_attribute
from helpers.other_tools import as_optimum, torch_export
from helpers.reports import check_schema
from onnx import numpy_helper, parser

from txexport import compare
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.verification import reports
from txexport.verification.comparison.ranges import index_limits
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.repeat import repeat_command

EMBED = "ids = Cast<to=7>(input_ids) found = Gather(table, ids)"
HEAD = '<ir_version: 10, opset_import: ["" : 20]>'
IDS = "int64[batch_size, sequence_length] input_ids"
MASK = "int64[batch_size, sequence_length] attention_mask"
HIDDEN = "float[batch_size, sequence_length, 4] last_hidden_state"


def toy(path: Path, inputs: str, outputs: str, body: str, external: bool = False) -> Path:
    """A graph with a table of 10 rows of 4 numbers, written in ONNX's own words."""
    model = parser.parse_model(f"{HEAD} toy ({inputs}) => ({outputs}) {{ {body} }}")
    table = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    onnx.save(model, path, save_as_external_data=external, size_threshold=0, location=f"{path.name}_data")
    return path


@pytest.fixture
def plain(tmp_path) -> Path:
    return toy(tmp_path / "plain.onnx", IDS, HIDDEN, f"{EMBED} last_hidden_state = Identity(found)")


def invoke(*arguments) -> tuple[int, str]:
    wide = {"COLUMNS": "400"}  # so that no name breaks over two lines
    result = CliRunner().invoke(main, ["compare", *map(str, arguments)], env=wide)
    return result.exit_code, " ".join(result.output.split())


def failed(report) -> list[str]:
    return [case.name for case in report.failed]


@pytest.fixture(scope="session")
def bert(checkpoint_of) -> torch.nn.Module:
    return transformers.AutoModel.from_pretrained(checkpoint_of("bert")).eval()


@pytest.fixture(scope="session")
def exported(bert, tmp_path_factory) -> Path:
    """BERT by PyTorch's own exporter."""
    ids = torch.arange(12).reshape(2, 6)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": ids % 2}
    path = tmp_path_factory.mktemp("torch") / "model.onnx"
    return torch_export(bert, path, inputs, ["last_hidden_state", "pooler_output"])


@pytest.fixture(scope="session")
def optimum(bundle_of, tmp_path_factory) -> Path:
    """BART by optimum's contract."""
    return as_optimum(bundle_of("bart", "static"), tmp_path_factory.mktemp("optimum") / "bart")


def test_bundle_equals_another_tool_s_file_module_and_folder(bundle_of, exported, bert):
    for other in (exported, exported.parent, bert):
        report = compare(bundle_of("bert"), other)
        assert report.ok, facts_line(report)
        outputs = {check.output for case in report.cases for check in case.checks}
        assert outputs == {"last_hidden_state", "pooler_output"}
    assert compare(exported, graph_path(bundle_of("bert"))).ok
    assert compare(bert, exported, lengths=[33]).cases[-1].name == "two rows of 33"


def test_every_way_finds_a_changed_weight(bundle_of, exported, bert, tmp_path):
    wrong = onnx.load(exported)
    weight = next(
        t for t in wrong.graph.initializer if t.name.endswith("layer.1.attention.output.dense.bias")
    )
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.05), weight.name))
    onnx.save(wrong, tmp_path / "model.onnx")
    for a, b in (
        (bundle_of("bert"), tmp_path / "model.onnx"),
        (bundle_of("bert"), tmp_path),
        (exported, tmp_path / "model.onnx"),
        (exported.parent, tmp_path),
        (tmp_path / "model.onnx", bert),
    ):
        report = compare(a, b)
        assert len(report.failed) == len([case for case in report.cases if case.worst.tolerance])
        assert all(case.exception is None for case in report.failed)


@pytest.mark.parametrize(
    "family",
    [
        "llava_next",
        "llava_onevision",
        "qwen2_vl",
        "paligemma",
        "lfm2",
        "granitemoehybrid",
        "falcon_h1",
        "mamba2",
    ],
)
def test_decoders_with_images_and_states_beside_each_other(family, bundle_of):
    """Each kind of cache beside the other: images of one input or two, and states of both shapes."""
    static, dynamic = bundle_of(family, "static"), bundle_of(family, "dynamic")
    for a, b in ((static, dynamic), (dynamic, static)):
        report = compare(a, b)
        assert report.ok, facts_line(report)


def test_decoders_by_contract(bundle_of, optimum, tmp_path):
    """Each row is read by a prompt, then by a step over the cache, in every layout of the files."""
    plain = as_optimum(bundle_of("gpt2", "static"), tmp_path / "gpt2")
    for a, b in (
        (bundle_of("gpt2", "static"), plain),
        (plain, bundle_of("gpt2", "dynamic")),
        (bundle_of("gpt2", "static"), bundle_of("gpt2", "dynamic")),
        (graph_path(bundle_of("gpt2", "dynamic")), plain / "model.onnx"),
        (bundle_of("bart", "static"), optimum),
        (bundle_of("bart", "dynamic"), optimum / "decoder_model_merged.onnx"),
        (bundle_of("bart", "dynamic"), bundle_of("bart", "static")),
        (optimum, optimum),
    ):
        report = compare(a, b, cases="quick")
        assert report.ok, facts_line(report)
        found = {check.output for case in report.cases for check in case.checks}
        assert "logits" in found
        assert any(name.startswith("present.0.") for name in found)


@pytest.mark.parametrize("file", ["encoder_model", "decoder_model", "decoder_with_past_model"])
def test_each_file_of_another_tool_is_tried(file, bundle_of, optimum, tmp_path):
    folder = tmp_path / "wrong"
    folder.mkdir()
    for path in optimum.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    model = onnx.load(folder / f"{file}.onnx", load_external_data=False)
    norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
    assert norms
    for norm in norms:
        set_attribute(norm, "epsilon", 1e-2)
    onnx.save(model, folder / f"{file}.onnx")
    report = compare(bundle_of("bart", "static"), folder, cases="quick")
    assert report.failed
    assert all(case.exception is None for case in report.failed)


def test_padding_is_left_out_and_nothing_else(plain, tmp_path):
    """The second graph computes something else for padding, in a state of tokens, or in one of the row."""
    masked = (
        "mask = Cast<to=1>(attention_mask) axis = Constant<value_ints=[2]>() wide = Unsqueeze(mask, axis)"
    )
    given = f"{IDS}, {MASK}"
    row = "float[batch_size, 4] pooler_output"
    last = f"{EMBED} {masked} last_hidden_state"
    for name, states, pooled in (
        ("a", "Identity(found)", "ReduceSum<keepdims=0>(last_hidden_state, one)"),
        ("b", "Mul(found, wide)", "ReduceSum<keepdims=0>(last_hidden_state, one)"),
    ):
        toy(tmp_path / f"{name}.onnx", given, HIDDEN, f"{last} = {states}")
        pool = f"one = Constant<value_ints=[1]>() pooler_output = {pooled}"
        toy(tmp_path / f"{name}_row.onnx", given, f"{HIDDEN}, {row}", f"{last} = {states} {pool}")
    assert compare(tmp_path / "a.onnx", tmp_path / "b.onnx").ok
    report = compare(tmp_path / "a_row.onnx", tmp_path / "b_row.onnx")
    assert failed(report) == [
        "three ragged rows, right padding",
        "three ragged rows, left padding",
        "two long rows",
    ]
    assert {case.worst.output for case in report.failed} == {"pooler_output"}
    shifted = f"{last} = Sum(found, wide)"
    toy(tmp_path / "c.onnx", given, HIDDEN, shifted)
    assert len(compare(tmp_path / "a.onnx", tmp_path / "c.onnx").failed) == 7


def test_made_inputs_cover_what_a_model_can_be_given(bundle_of, monkeypatch):
    from txexport.verification.comparison import pairs

    seen = {}
    kept = pairs.Pair.case

    def watch(self, feed):
        seen[feed.name] = feed.inputs
        return kept(self, feed)

    monkeypatch.setattr(pairs.Pair, "case", watch)
    graph = graph_path(bundle_of("gpt2", "dynamic"))
    assert compare(graph, graph).ok
    assert {len(inputs["input_ids"]) for inputs in seen.values()} == {1, 2, 3, 9}
    assert {inputs["input_ids"].shape[1] for inputs in seen.values()} == {1, 3, 6, 7, 11, 13, 384}
    assert {inputs["past_key_values.1.key"].shape[2] for inputs in seen.values()} == {0, 4, 5, 6, 384}
    right = seen["three ragged rows, right padding"]
    left = seen["three ragged rows, left padding"]
    assert right["attention_mask"].sum(axis=1).tolist() == [5, 11, 1]
    assert right["attention_mask"][0].tolist() == [1] * 5 + [0] * 6
    assert left["attention_mask"][2].tolist() == [0] * 10 + [1]
    assert left["position_ids"][0].tolist() == [0] * 6 + [0, 1, 2, 3, 4]
    after = seen["a token after three ragged rows, left padding"]
    assert after["attention_mask"].tolist() == [[0] * 3 + [1] * 4, [1] * 7, [0] * 5 + [1] * 2]
    assert after["position_ids"].tolist() == [[3], [6], [1]]
    ids = np.concatenate([inputs["input_ids"].ravel() for inputs in seen.values()])
    assert (ids.min() >= 0, ids.max() < 311, ids.max() > 256) == (True, True, True)


def test_range_of_integers_is_that_of_the_table(bundle_of, plain):
    assert index_limits(plain) == {"input_ids": 10}
    assert index_limits(graph_path(bundle_of("bert"))) == {"input_ids": 311, "token_type_ids": 2}


def test_integers_without_a_table_need_a_range(tmp_path):
    graph = toy(
        tmp_path / "a.onnx", IDS, HIDDEN, "moved = Abs(input_ids) last_hidden_state = Gather(table, moved)"
    )
    with pytest.raises(InputError, match=r"no range is known .*; give it with --range input_ids=LOW:HIGH"):
        compare(graph, graph)
    assert compare(graph, graph, ranges={"input_ids": (0, 10)}).ok
    assert invoke(graph, graph, "--range", "input_ids=0:10")[0] == 0
    assert not compare(graph, graph, ranges={"input_ids": (0, 99)}).ok
    assert "is not NAME=LOW:HIGH" in invoke(graph, graph, "--range", "input_ids=5:5")[1]
    with pytest.raises(InputError, match="--range names ids, expected some of input_ids"):
        compare(graph, graph, ranges={"ids": (0, 9)})


def test_dimension_that_means_nothing_needs_a_size(tmp_path):
    image = "float[batch_size, 3, height, 8] pixel_values"
    graph = toy(tmp_path / "a.onnx", image, "float[n, 3, h, 8] y", "y = Relu(pixel_values)")
    with pytest.raises(InputError, match=r"dimension 'height' of input 'pixel_values' .* --dim height=SIZE"):
        compare(graph, graph)
    assert invoke(graph, graph, "--dim", "height=5")[0] == 0
    with pytest.raises(InputError, match="--dim names width, expected some of batch_size, height"):
        compare(graph, graph, dims={"width": 3})


def test_dimension_without_a_name_needs_inputs(tmp_path):
    ports = [f"float[batch_size, 2, ?] {name}" for name in ("x", "y")]
    graph = toy(tmp_path / "m.onnx", *ports, "y = Identity(x)")
    said = r"dimension 'number 2' of input 'x' has no size that can be guessed; give inputs with --inputs$"
    with pytest.raises(InputError, match=said):
        compare(graph, graph)


def test_inputs_of_one_s_own(plain, tmp_path):
    other = toy(tmp_path / "b.onnx", IDS, HIDDEN, f"{EMBED} last_hidden_state = Relu(found)")
    table = numpy_helper.to_array(onnx.load(plain).graph.initializer[0])
    np.savez(tmp_path / "one.npz", input_ids=np.array([[np.argmax(table.min(axis=1))]]))
    np.savez(tmp_path / "all.npz", input_ids=np.arange(10, dtype=np.int32)[None])
    code, output = invoke(plain, other, "--inputs", tmp_path / "all.npz")
    assert code == 1
    assert "last_hidden_state is off by" in output
    report = compare(plain, plain, inputs=[tmp_path / "one.npz", {"input_ids": np.array([[3]])}])
    assert [case.name for case in report.cases[1:]] == [str(tmp_path / "one.npz"), "inputs 2"]
    assert report.ok
    assert [check.elements for case in report.cases[1:] for check in case.checks] == [4, 4]
    np.savez(tmp_path / "odd.npz", ids=np.zeros((1, 1), int))
    (tmp_path / "bad.npz").write_text("no")
    for file, said in (
        ("odd.npz", "lacks input_ids and has ids, which not both take"),
        ("bad.npz", "bad.npz cannot be read as .npz of arrays"),
        ("gone.npz", "gone.npz is not a file; expected an .npz"),
    ):
        code, output = invoke(plain, other, "--inputs", tmp_path / file)
        assert (code, said in output) == (2, True), output


def test_unmatched_names_are_never_silent(plain, tmp_path):
    more = f"{HIDDEN}, float[batch_size, sequence_length, 4] extra"
    twice = f"{EMBED} last_hidden_state = Identity(found) extra = Identity(found)"
    other = toy(tmp_path / "more.onnx", IDS, more, twice)
    for a, b in ((plain, other), (other, plain)):
        code, output = invoke(a, b)
        assert code == 1
        said = f"only {other} has extra; to compare what both have: --output last_hidden_state"
        assert said in output
        assert said in invoke(a, b, "--quiet")[1]
        assert invoke(a, b, "--output", "last_hidden_state")[0] == 0
    code, output = invoke(plain, other, "--output", "extra")
    assert (code, output) == (2, f"error: --output names extra, which {plain} does not have")
    masked = toy(
        tmp_path / "masked.onnx", f"{IDS}, {MASK}", HIDDEN, f"{EMBED} last_hidden_state = Identity(found)"
    )
    code, output = invoke(plain, masked)
    assert (code, f"the inputs do not match: only {masked} takes attention_mask;" in output) == (2, True)


def test_what_only_a_bundle_gives_can_be_left_out(bundle_of, exported, tmp_path):
    """As optimum's exports of sentence encoders, which have no pooler_output."""
    fewer = onnx.load(exported)
    del fewer.graph.output[1]
    onnx.save(fewer, tmp_path / "model.onnx")
    bundle = bundle_of("bert")
    code, output = invoke(bundle, tmp_path, "--quiet")
    said = f"only {bundle} has pooler_output; to compare what both have: --output last_hidden_state"
    assert (code, said in output) == (1, True), output
    code, output = invoke(bundle, tmp_path, "--output", "last_hidden_state", "--cases", "quick")
    assert (code, "pooler_output" in output) == (0, False), output


def test_names_can_be_matched_by_hand(plain, tmp_path):
    ids, states = IDS.replace("input_ids", "tokens"), HIDDEN.replace("last_hidden_state", "states")
    other = toy(tmp_path / "b.onnx", ids, states, "states = Gather(table, tokens)")
    assert invoke(plain, other)[0] == 2
    names = "--match", "input_ids=tokens", "--match", "last_hidden_state=states"
    assert invoke(plain, other, *names)[0] == 0
    code, output = invoke(plain, other, *names, "--match", "input_ids=token")
    assert (code, output) == (2, f"error: --match names token, which {other} does not have")
    names = "--match", "tokens=input_ids", "--match", "states=last_hidden_state"
    assert invoke(other, plain, *names)[0] == 0


class Tuple(torch.nn.Module):
    """Outputs without names."""

    def __init__(self, graph: Path, shift: float = 0.0):
        super().__init__()
        table = numpy_helper.to_array(onnx.load(graph).graph.initializer[0])
        self.table, self.shift = torch.from_numpy(table.copy()), shift

    def forward(self, input_ids, unused=None):
        return (self.table[input_ids] + self.shift,)


class Needy(Tuple):
    def forward(self, input_ids, more):
        return {"last_hidden_state": self.table[input_ids]}


def test_module_s_outputs_are_matched_by_name_or_place(plain):
    assert compare(plain, Tuple(plain)).ok
    assert compare(Tuple(plain), plain).ok
    assert len(compare(plain, Tuple(plain, 0.1)).failed) == 5
    with pytest.raises(InputError, match="only Needy takes more"):
        compare(plain, Needy(plain))
    with pytest.raises(InputError, match="one of the two must be an ONNX file"):
        compare(Tuple(plain), Tuple(plain))


def test_module_by_the_name_of_its_function(plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = (
        f"import sys\ndef make(): return sys.modules[{__name__!r}].Tuple({str(plain)!r})\n"
        "def fail(): raise OSError('no')\n"
    )
    Path("own_models.py").write_text(code)
    assert invoke(plain, "own_models:make")[0] == 0
    for place, said in (
        ("own_models:fail", "cannot be called: OSError: no"),
        ("own_models:gone", "cannot be called: AttributeError: module 'own_models' has no attribute 'gone'"),
        ("no_models:make", "cannot be called: ModuleNotFoundError: No module named 'no_models'"),
        ("json:JSONDecoder", "returned a JSONDecoder, expected a torch.nn.Module"),
    ):
        assert invoke(plain, place) == (2, f"error: {place} {said}")


def test_weights_beside_the_file_are_found_by_its_path(plain, tmp_path):
    outside = toy(
        tmp_path / "b.onnx", IDS, HIDDEN, f"{EMBED} last_hidden_state = Identity(found)", external=True
    )
    assert (tmp_path / "b.onnx_data").is_file()
    assert compare(plain, outside).ok
    (tmp_path / "b.onnx_data").write_bytes(bytes(160))
    assert len(compare(plain, outside).failed) == 5


def test_report_says_how_to_repeat_a_case(plain, tmp_path):
    other = toy(tmp_path / "b.onnx", IDS, HIDDEN, f"{EMBED} last_hidden_state = Relu(found)")
    options = (
        "--output",
        "last_hidden_state",
        "--length",
        "17",
        "--dim",
        "batch_size=3",
        "--tolerance",
        "0.01",
    )
    code, _ = invoke(
        plain, other, *options, "--json", tmp_path / "report.json", "--report", tmp_path / "r.html"
    )
    assert code == 1
    values = json.loads((tmp_path / "report.json").read_text())
    check_schema(values)
    assert {check["tolerance"] for case in values["cases"][1:] for check in case["checks"]} == {0.01}
    [repeat] = [line for line in plain_text(tmp_path / "r.html").splitlines() if "two rows of 17'" in line]
    words = shlex.split(repeat)
    assert words[:2] == ["txexport", "compare"]
    code, output = invoke(*words[2:])
    assert code == 1
    assert "only 1 by name" in output
    assert "two rows of 17" in output
    code, output = invoke(plain, other, "--case", "nothing")
    assert (code, "has no case 'nothing'; expected some of 'inputs and outputs'" in output) == (2, True)


def test_command_has_every_digit_of_the_tolerance(plain):
    report = compare(plain, plain, tolerance=1.23456789e-5)
    assert report.command[-2:] == ["--tolerance", "1.23456789e-05"]


def test_what_no_shell_can_name_is_not_repeated_in_one(plain, tmp_path):
    class Wrong(torch.nn.Module):
        def forward(self, input_ids):
            return {"last_hidden_state": torch.ones(*input_ids.shape, 4)}

    wrong = toy(tmp_path / "wrong.onnx", IDS, HIDDEN, f"{EMBED} last_hidden_state = Neg(found)")
    for report, repeated in (
        (compare(plain, Wrong()), False),
        (compare(plain, wrong, inputs=[{"input_ids": np.ones((1, 2), np.int64)}]), False),
        (compare(plain, wrong), True),
    ):
        assert report.failed
        assert bool(report.command) == bool(repeat_command(report, report.failed[0])) == repeated
        for suffix in (".md", ".xml", ".html"):
            reports.write(report, tmp_path / f"report{suffix}")
            text = (tmp_path / f"report{suffix}").read_text()
            assert ("o repeat" in text or "repeat: " in text) == repeated
        check_schema(report.to_dict())


def test_what_cannot_be_compared_is_said_in_a_line(bundle_of, plain, exported, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.onnx").write_text("no")
    bert, gpt2, bart = (bundle_of(name) for name in ("bert", "gpt2", "bart"))
    for a, b, said in (
        (plain, "nowhere", "nowhere is neither a file nor a folder, nor a function"),
        (plain, tmp_path / "text.onnx", "text.onnx cannot be loaded: it is no ONNX file, or it is damaged"),
        (plain, tmp_path / "empty", "a folder is compared with a folder or a bundle"),
        (bert, tmp_path / "empty", "has no model.onnx, nor encoder_model.onnx and decoder_model.onnx"),
        (tmp_path / "empty", tmp_path / "empty", "have no .onnx file of the same name"),
        (bert, gpt2, "is for feature-extraction,"),
        (gpt2, exported, "takes token_type_ids, which no contract has"),
        (bart, "json:loads", "has several graphs; name one of them"),
    ):
        code, output = invoke(a, b)
        assert code == 2
        assert said in output
        assert output.startswith("error: ")
    assert invoke(bert, exported, "--length", 3)[1].startswith("error: a bundle has its own cases; name its")


def test_file_that_only_one_folder_has_is_a_failure(optimum, tmp_path):
    folder = tmp_path / "less"
    folder.mkdir()
    for path in optimum.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "decoder_model.onnx").unlink()
    report = compare(optimum, folder)
    assert failed(report) == ["files"]
    assert report.failed[0].exception == f"only {optimum} has decoder_model.onnx"


def test_graph_that_refuses_is_a_failure(plain, tmp_path):
    fixed = toy(
        tmp_path / "b.onnx",
        IDS,
        HIDDEN,
        f"{EMBED} three = Constant<value_ints=[3,-1,4]>() last_hidden_state = Reshape(found, three)",
    )
    report = compare(plain, fixed)
    assert "one token" in failed(report)
    assert "ONNX Runtime refused" in report.failed[1].exception
    assert str(fixed) in report.failed[1].exception


def test_bundle_s_own_broken_weight_is_found(bundle_of, exported, tmp_path):
    shutil.copytree(bundle_of("bert"), tmp_path / "bert")
    tamper(tmp_path / "bert", "encoder.layers.1.attention.o.bias", lambda numbers: 1.05 * numbers)
    assert len(compare(tmp_path / "bert", exported).failed) == 8


def test_device_that_is_not_there_is_an_error(plain):
    code, output = invoke(plain, plain, "--device", "nowhere")
    assert code == 2
    assert output.startswith("error: device 'nowhere' is not there; this ONNX Runtime has cpu")
    assert invoke(plain, plain, "--device", "CPUExecutionProvider")[0] == 0


def far(path: Path, wrong: str) -> Path:
    """A graph that is wrong, by 1 or more, where a number of `wrong`, over the inputs' shape, is above 0."""
    shape = "shape = Shape(input_ids) zero = Constant<value_ints=[0]>() one = Constant<value_ints=[1]>()"
    over = f"{shape} rows = Gather(shape, zero) tokens = Gather(shape, one) {wrong} none = Mul(over, zero)"
    body = (
        f"{EMBED} {over} off = Max(over, none) moved = Cast<to=1>(off) last_hidden_state = Add(found, moved)"
    )
    return toy(path, IDS, HIDDEN, body)


@pytest.mark.parametrize(("most", "of", "case"), [(8, "rows", "nine rows"), (383, "tokens", "two long rows")])
def test_what_is_wrong_only_in_large_inputs_is_found(most, of, case, plain, tmp_path):
    other = far(tmp_path / "b.onnx", f"most = Constant<value_ints=[{most}]>() over = Sub({of}, most)")
    assert failed(compare(plain, other)) == [case]


def plain_text(file: Path) -> str:
    """A page's text without its markup."""
    return html.unescape(re.sub(r"<[^>]+>", "", file.read_text()))


def test_report_says_how_far_it_looked(plain, tmp_path):
    report = compare(plain, plain)
    assert report.reach == {"rows": (9, None), "sequence_length": (384, None)}
    files = [tmp_path / f"report{suffix}" for suffix in (".json", ".md", ".xml", ".html")]
    code, output = invoke(plain, plain, *(word for file in files for word in ("--report", file)))
    assert (code, "each within 1e-05; up to 9 rows, 384 sequence_length" in output) == (0, True), output
    values = json.loads(files[0].read_text())
    check_schema(values)
    assert values["reach"] == {"rows": [9, None], "sequence_length": [384, None]}
    for text in (files[1].read_text(), files[2].read_text(), plain_text(files[3])):
        assert "up to 9 rows, 384 sequence_length" in text
    report = compare(plain, plain, inputs=[{"input_ids": np.zeros((2, 5), int)}])
    assert facts_line(report).endswith("; up to 2 rows, 5 sequence_length")


def limited(path: Path, tokens: int) -> Path:
    """A graph with positions for so many tokens."""
    places = "shape = Shape(input_ids) one = Constant<value_ints=[1]>() zero = Constant<value_int=0>()"
    places += " step = Constant<value_int=1>() count = Gather(shape, one) none = Squeeze(count)"
    places += f" all = Range(zero, none, step) size = Constant<value_ints=[{tokens}, 4]>()"
    places += " table_of = ConstantOfShape(size) rows_of = Gather(table_of, all)"
    return toy(path, IDS, HIDDEN, f"{EMBED} {places} last_hidden_state = Add(found, rows_of)")


def test_long_rows_are_as_long_as_both_take(tmp_path):
    """Texts longer than both limits are truncated; a limit of one alone is a difference, and a failure."""
    short, same, longer = (limited(tmp_path / f"{n}.onnx", size) for n, size in enumerate((100, 100, 999)))
    report = compare(short, same)
    assert report.ok, facts_line(report)
    assert report.reach["sequence_length"] == (96, None)
    for pair in ((short, longer), (longer, short)):
        report = compare(*pair)
        assert failed(report) == ["two long rows"]
        assert f"{short}: ONNX Runtime refused" in report.failed[0].exception
