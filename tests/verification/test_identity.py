"""verify knows the exported graphs and files from any others, where no case shows the difference too."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, relist, weights_path
from helpers.graph_edits import (
    attribute,
    blocks,
    constant_value,
    function,
    named,
    node,
    set_attribute,
    set_constant,
    swap_inputs,
    through,
)
from helpers.mutations import larger_epsilon
from onnx import helper, numpy_helper
from tokenizers import Regex, Tokenizer, normalizers

import txexport
from txexport import bundle
from txexport.bundle.manifest import DataFile, Graphs
from txexport.bundle.proof import ANSWERS
from txexport.cli.main import main
from txexport.contracts import roles
from txexport.errors import BundleError, LibraryError
from txexport.exporter import export
from txexport.spec import Cache
from txexport.verification import verify
from txexport.verification.checks import HUB
from txexport.verification.identity import first_difference
from txexport.verification.reports.views import graph_results

GRAPHS, FILES, WEIGHTS = ["exported graphs"], ["manifest and copied files"], ["every weight"]
STATIC = roles.native_path(roles.MODEL, Cache.STATIC)  # of decoders alone
DATA = roles.data_path(roles.hub_path(roles.MODEL))
FIRST = "decoder.layers.0.attention.q.weight"


@pytest.fixture
def copy_of(bundle_of, tmp_path):
    """A function from a model_type to a bundle of its own."""
    return lambda model_type: Path(shutil.copytree(bundle_of(model_type), tmp_path / "bundle"))


def edit(path: Path, change) -> None:
    """Change a graph where it lies."""
    model = onnx.load(path, load_external_data=False)
    change(model)
    onnx.save(model, path)


def said(folder: Path, cases: list[str]) -> str:
    """Why the only one of these cases fails."""
    [case] = verify(folder, reference="twin", cases=cases).failed
    return case.exception


def late_positions(model):
    """The positions from 1,024 on are all one."""
    through(model.graph, "v_positions.places", "Min", 1023)


def large_batches(model):
    """From the ninth row on, a batch loses its last layer's share."""
    last = blocks(model)[-1].output[0]
    size = [
        helper.make_node("Shape", ["input_ids"], ["size"], start=0, end=1),
        helper.make_node("Constant", [], ["nine"], value_ints=[9]),
        helper.make_node("Less", ["size", "nine"], ["small"]),
        helper.make_node("Cast", ["small"], ["kept"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", [last, "kept"], ["mine"]),
    ]
    at = list(model.graph.node).index(blocks(model)[-1]) + 1
    for reader in list(model.graph.node)[at:]:
        reader.input[:] = ["mine" if name == last else name for name in reader.input]
    for new in reversed(size):
        model.graph.node.insert(at, new)


def one_token(model):
    """One token is read as another."""
    body = function(model, "embedding")
    constants = [helper.make_node("Constant", [], [f"c{i}"], value_int=i) for i in (277, 278)]
    same = helper.make_node("Equal", ["input_ids", "c277"], ["same"])
    other = helper.make_node("Where", ["same", "c278", "input_ids"], ["ids"])
    node(body, "Gather").input[1] = "ids"
    for new in reversed([*constants, same, other]):
        body.node.insert(0, new)


def one_expert(model):
    """One expert with gate and up exchanged."""
    swap_inputs(named(model, "decoder.layers.1"), ".experts.3.gate.weight", ".experts.3.up.weight")


def one_constant(model):
    """A constant that a graph holds itself."""
    [first] = [part for part in model.graph.initializer if part.name == "const_0_i64"]
    first.CopyFrom(numpy_helper.from_array(np.array(1), first.name))


def another_s_place(model):
    """A weight that points to where another one of its shape lies."""
    names = [f"decoder.layers.{i}.attention.q.weight" for i in (0, 1)]
    one, other = (next(part for part in model.graph.initializer if part.name == name) for name in names)
    for mine, theirs in zip(one.external_data, other.external_data, strict=True):
        mine.value, theirs.value = theirs.value, mine.value


def less(model):
    """A function's last node is not there."""
    del function(model, "embedding").node[-1]


def more(model):
    """A node that nothing reads."""
    model.graph.node.append(helper.make_node("Identity", ["logits"], ["unread"], name="new"))


def other_operators(model):
    """Another operator set."""
    next(entry for entry in model.opset_import if not entry.domain).version = 23


def swapped_outputs(model):
    """Keys and values of the first layer, each as the other."""
    block = blocks(model)[0]
    block.output[1], block.output[2] = block.output[2], block.output[1]


def noted(model):
    """Nothing that is computed."""
    model.doc_string = "mine"


EDITS = [
    ("gpt2", late_positions, "at node 1 (Constant): op_type is Constant, expected asked_positions"),
    ("gpt2", large_batches, "at node 7 (Shape): op_type is Shape, expected norm"),
    ("gpt2", one_token, "at node 0 (Constant) of function embedding: op_type is Constant, expected Gather"),
    ("mixtral", one_expert, "at node decoder.layers.1 (decoder_block_2): input is "),
    ("bloom", one_constant, "in initializer const_0_i64: it is "),
    ("gpt2", another_s_place, f"in initializer {FIRST}: it is "),
    ("gpt2", larger_epsilon, "(LayerNormalization) of function norm: attribute epsilon is "),
    ("gpt2", more, "at node new (Identity): it is not expected"),
    ("gpt2", swapped_outputs, "at node decoder.layers.0 (decoder_block): output is "),
    ("gpt2", noted, "at byte "),
]
UNSEEN = [late_positions, large_batches, one_token]


@pytest.mark.parametrize(("model_type", "change", "where"), EDITS, ids=[row[1].__name__ for row in EDITS])
def test_a_graph_that_is_not_the_exported_one_is_named(model_type, change, where, copy_of):
    folder = copy_of(model_type)
    edit(graph_path(folder), change)
    why = said(folder, GRAPHS)
    assert why.startswith(f"{STATIC} is not the exported graph: first difference ")
    assert where in why
    assert len(why.splitlines()) == 1


@pytest.mark.parametrize("change", UNSEEN)
def test_what_cases_cannot_see(change, copy_of):
    """Judged by cases alone these graphs are equal, so that is what the verdict must say."""
    folder = copy_of("gpt2")
    edit(graph_path(folder), change)
    report = verify(folder, reference="twin", cases="quick", allow_edited=True)
    assert report.ok
    assert report.scope.endswith(f"), by cases only: {STATIC} is not the exported graph")
    assert bundle.read(folder).proof.scope == report.scope
    assert report.cases[0].skipped.startswith(f"{STATIC} is not the exported graph: first difference ")
    assert [case.name for case in verify(folder, reference="twin", cases="quick").failed] == GRAPHS


def other_axis(model):
    """Weights of attention that are of one for all queries, not for all keys."""
    set_attribute(node(model.graph, "Softmax"), "axis", -2)


def other_constant(model):
    """The first number that the graph holds itself, and one more."""
    body = model.graph
    first = next(part for part in body.node if part.op_type == "Constant" and attribute(part, "value"))
    set_constant(first, np.array(constant_value(first)) + 1)


def keys_last(model):
    """The first layer's keys come out where its values should, and the other way round."""
    outputs = model.graph.output
    key, value = (next(o for o in outputs if o.name.endswith(end)) for end in (".key", ".value"))
    key.name, value.name = value.name, key.name


def other_past(model):
    """Where there is a past, a layer's keys are its values, and the other way round."""
    keys, values = attribute(node(model.graph, "If"), "then_branch").node[:2]
    keys.input[0], values.input[0] = values.input[0], keys.input[0]


def another_file(model):
    """A weight that points into the encoder's file."""
    words = next(part for part in model.graph.initializer if part.name.endswith("word.weight"))
    place = next(entry for entry in words.external_data if entry.key == "location")
    place.value = roles.data_path(roles.file(roles.ENCODER))


ROLES = {"gpt2": roles.MODEL, "t5": roles.DECODER_MERGED}
OF_HUB = [
    *((model_type, other_axis, "(Softmax): attribute axis is ") for model_type in ROLES),
    *((model_type, other_constant, "(Constant): ") for model_type in ROLES),
    *((model_type, keys_last, "in output ") for model_type in ROLES),
    *((model_type, another_s_place, f"in initializer {FIRST}: it is ") for model_type in ROLES),
    ("t5", other_past, "(Identity), within node chosen (If): "),
    ("t5", another_file, "in initializer decoder.embedding.word.weight: it is "),
]


@pytest.mark.parametrize(
    ("model_type", "change", "where"), OF_HUB, ids=[f"{row[0]}-{row[1].__name__}" for row in OF_HUB]
)
def test_a_graph_for_other_clients_that_is_not_the_exported_one_is_named(model_type, change, where, copy_of):
    folder = copy_of(model_type)
    file = bundle.read(folder).hub[ROLES[model_type]].file
    edit(folder / file, change)
    why = said(folder, GRAPHS)
    assert why.startswith(f"{file} is not the exported graph: first difference ")
    assert where in why


@pytest.mark.parametrize("model_type", ROLES)
def test_numbers_of_a_graph_for_other_clients_are_its_own(model_type, copy_of):
    """Where an edited graph is allowed, cases tell which kind is wrong; ours is not."""
    folder = copy_of(model_type)
    manifest = bundle.read(folder)
    edit(folder / manifest.hub[ROLES[model_type]].file, other_axis)
    report = verify(folder, reference="twin", cases="quick", allow_edited=True)
    assert {(case.graphs, case.exception) for case in report.failed} == {(HUB, None)}
    found = graph_results(report)
    assert all(found[graph.file].startswith("equal, ") for graph in manifest.native.values())
    changed = manifest.hub[ROLES[model_type]].file
    assert [file for file, words in found.items() if words.endswith(" cases failed")] == [changed]


@pytest.mark.parametrize("model_type", ROLES)
def test_a_graph_for_other_clients_that_reads_other_weights(model_type, copy_of):
    folder = copy_of(model_type)
    edit(folder / bundle.read(folder).hub[ROLES[model_type]].file, another_s_place)
    [case] = verify(folder, reference="twin", cases=WEIGHTS).failed
    wrong = [check.output for check in case.checks if not check.ok]
    assert wrong == [f"decoder.layers.{i}.attention.q.weight" for i in (0, 1)]


@pytest.mark.parametrize("settings", [{"dtype": "q8"}, {"use_external_data_format": False}, None], ids=str)
def test_settings_for_other_clients_are_those_that_export_makes(settings, copy_of):
    folder = copy_of("bert")
    values = json.loads((folder / "config.json").read_text())
    made = values.pop("transformers.js_config")
    if settings is not None:
        values["transformers.js_config"] = made | settings
    (folder / "config.json").write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    relist(folder)
    assert said(folder, FILES) == "config.json is not the file that export makes of the checkpoint"


def test_on_the_command_line(copy_of):
    folder = copy_of("gpt2")
    arguments = ["verify", str(folder), "--cases", "quick", "--reference", "twin", "--quiet"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    edit(graph_path(folder), late_positions)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    output = " ".join(result.output.split())
    assert f"exported graphs (checkpoint): {STATIC} is not the exported graph" in output
    result = CliRunner().invoke(main, [*arguments, "--allow-edited"])
    assert result.exit_code == 0
    assert f"by cases only: {STATIC} is not the exported graph" in " ".join(result.output.split())


def test_both_graphs_are_named(copy_of):
    folder = copy_of("bart")
    files = [graph.file for graph in bundle.read(folder).native.values()]
    for file in files:
        edit(folder / file, larger_epsilon)
    assert len(files) == 2
    start = f"{' and '.join(files)} are not the exported graphs: first difference of {files[0]} "
    assert said(folder, GRAPHS).startswith(start)


@pytest.mark.parametrize(
    "settings", [{"inline": True}, {"opset": 17, "inline": True}, {"cache": "dynamic"}], ids=str
)
def test_every_form_is_made_again(settings, checkpoint_of, tmp_path):
    export(checkpoint_of("gpt2"), tmp_path / "out", **settings)
    report = verify(tmp_path / "out", reference="twin", cases=[*GRAPHS, *FILES, *WEIGHTS])
    assert report.failed == []
    files = [graph.file for graph in bundle.read(tmp_path / "out").every_graph]
    assert len(files) == 2
    assert [check.output for check in report.cases[0].checks] == files


def renamed(model: onnx.ModelProto) -> None:
    """Other names for all that lies between inputs and outputs, and other notes."""
    for body in (model.graph, *model.functions):
        made = {name for part in body.node for name in part.output if name}
        if isinstance(body, onnx.FunctionProto):
            made |= set(body.input)
        else:
            made -= {value.name for value in body.output}
        names = {name: f"other.{name}" for name in made}
        nodes = list(body.node)
        for part in nodes:  # those of branches, which read the body's values, are added on the way
            part.input[:] = [names.get(name, name) for name in part.input]
            part.output[:] = [names.get(name, name) for name in part.output]
            part.name, part.doc_string = "", "other"
            nodes.extend(inner for held in part.attribute for inner in held.g.node)
        for part in body.value_info:
            part.name = names.get(part.name, part.name)
        if isinstance(body, onnx.FunctionProto):
            body.input[:] = [names[name] for name in body.input]
            body.output[:] = [names.get(name, name) for name in body.output]
    model.producer_version = "0"


@pytest.mark.parametrize("model_type", ["gpt2", "mixtral"])
def test_other_versions_are_compared_by_structure(model_type, copy_of):
    folder = copy_of(model_type)
    edit(graph_path(folder), renamed)
    assert "in names or notes alone" in said(folder, GRAPHS)
    manifest = relist(folder) and bundle.read(folder)
    graph = dataclasses.replace(manifest.graphs[roles.MODEL], sha256=bundle.files_sha256(folder)[STATIC])
    manifest = dataclasses.replace(
        manifest,
        versions=manifest.versions | {"onnx": "1.0"},
        formats={manifest.dtype: Graphs({roles.MODEL: graph}, manifest.hub)},
    )
    manifest.write(folder / bundle.MANIFEST)
    report = verify(folder, reference="twin", cases=GRAPHS)
    assert report.ok
    assert report.cases[0].checks[0].output == f"{STATIC}, compared by structure"
    edit(graph_path(folder), larger_epsilon)
    why = said(folder, GRAPHS)
    assert "attribute epsilon is " in why
    end = f"made by onnx 1.0 (here {onnx.__version__}): export again, or give --allow-edited"
    assert why.endswith(end)


def test_renaming_hides_nothing(bundle_of):
    """Values change names in their places only: two that are exchanged, or were never made, still differ."""
    plain, linear = (
        onnx.load(graph_path(bundle_of(kind)), load_external_data=False) for kind in ("gpt2", "bloom")
    )

    def difference(change, good=plain) -> str | None:
        model = onnx.ModelProto()
        model.CopyFrom(good)
        change(model)
        renamed(model)
        return first_difference(model, good)

    def unknown(model):
        named(model, "decoder.final_norm").input[0] = "nowhere"

    assert difference(lambda model: None) is None
    assert "(decoder_block): output is " in difference(swapped_outputs)
    assert "nowhere" in difference(unknown)
    assert "attribute epsilon" in difference(larger_epsilon)
    assert difference(less) == "at node words (Add) of function embedding: it is missing"
    wrong = 'in opset_import: it is domain: "" version: 23, expected domain: "" version: 24'
    assert difference(other_operators) == wrong
    for change in (late_positions, large_batches, one_token, another_s_place, more):
        assert difference(change) is not None
    assert difference(one_constant, linear) is not None


def test_a_hash_in_the_manifest_is_the_file_s(copy_of):
    folder = copy_of("gpt2")
    values = json.loads((folder / "txexport.json").read_text())
    values["formats"]["float32"]["native"][roles.MODEL]["sha256"] = "0"
    (folder / "txexport.json").write_text(json.dumps(values))
    assert said(folder, GRAPHS) == f"txexport.json: sha256 of {STATIC} is not that of the file"
    values["formats"]["float32"]["native"][roles.MODEL]["file"] = "other.onnx"
    (folder / STATIC).rename(folder / "other.onnx")
    (folder / "txexport.json").write_text(json.dumps(values))
    assert said(folder, GRAPHS).startswith(
        "txexport.json: native graphs are {'model': 'other.onnx'}, expected"
    )


def exchanged(folder: Path, one: str, other: str) -> None:
    """The names of two tensors in the header of the weights file, each for the other."""
    path = weights_path(folder)
    data = path.read_bytes()
    length = 8 + int.from_bytes(data[:8], "little")
    header = data[8:length].decode()
    for old, new in ((one, "?"), (other, one), ("?", other)):
        header = header.replace(f'"{old}"', f'"{new}"')
    path.write_bytes(data[:8] + header.encode() + data[length:])


def rehashed(folder: Path) -> None:
    """Have txexport.json say that the files of weights are as they lie there."""
    manifest = bundle.read(folder)
    digests = bundle.files_sha256(folder)
    data = {name: DataFile((folder / name).stat().st_size, digests[name]) for name in manifest.data}
    dataclasses.replace(manifest, data=data).write(folder / bundle.MANIFEST)


def test_names_exchanged_in_the_weights_file(copy_of):
    folder = copy_of("gpt2")
    exchanged(folder, "decoder.layers.0.attention.q.weight", "decoder.layers.1.attention.q.weight")
    rehashed(folder)
    start = f"{DATA}: its header is not the one that export writes: "
    assert said(folder, WEIGHTS) == f"{start}decoder.layers.0.attention.q.weight does not lie where it should"


def test_bytes_behind_the_weights(copy_of):
    folder = copy_of("gpt2")
    path = weights_path(folder)
    data = path.read_bytes()
    path.write_bytes(data + b"more")
    rehashed(folder)
    assert said(folder, WEIGHTS) == f"{DATA} is {len(data) + 4:,} bytes, expected {len(data):,}"


UNLISTED = {
    "generation_config.json": '{"repetition_penalty": 9.0}',
    "chat_template.jinja": "other",
    "1_Pooling/config.json": '{"pooling_mode_cls_token": true}',
    "modules.json": "[]",
    "processor_config.json": "{}",
    "deep/er/notes.md": "mine",
    "onnx/model_quantized.onnx": "",
}


@pytest.mark.parametrize("name", UNLISTED)
@pytest.mark.parametrize("listed", [False, True])
def test_a_file_that_no_export_wrote_is_named(name, listed, copy_of):
    folder = copy_of("bert")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(UNLISTED[name])
    if listed:
        relist(folder)
        assert said(folder, FILES) == f"{name} is not the checkpoint's"
        return
    assert said(folder, FILES) == f"{name} is in the folder, and no export wrote it"
    if name.endswith((".md", ".onnx")):
        txexport.load(folder, device="cpu").close()  # which does not read it
        return
    with pytest.raises(BundleError, match=r"is not part of this export, but would be read; move it away"):
        txexport.load(folder, device="cpu")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_links_out_of_the_folder_are_not_tried(copy_of, tmp_path):
    folder = copy_of("bert")
    (folder / "tokenizer.json").rename(tmp_path / "elsewhere.json")
    (folder / "tokenizer.json").symlink_to(tmp_path / "elsewhere.json")
    for read in (verify, txexport.load):
        with pytest.raises(BundleError, match=r"tokenizer.json is a link out of the bundle"):
            read(folder)


def test_a_folder_that_no_export_wrote_is_named(copy_of):
    folder = copy_of("bert")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    assert said(folder, FILES) == "1_Pooling/config.json is in the folder, and no export wrote it"
    with pytest.raises(BundleError, match=r"config.json is not part of this export, but would be read"):
        txexport.load(folder, device="cpu")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_load_checks_small_files(name, copy_of):
    folder = copy_of("bert")
    (folder / name).write_text((folder / name).read_text() + " ")
    with pytest.raises(BundleError, match=rf"{name} is not the file that was exported; export again$"):
        txexport.load(folder, device="cpu")
    relist(folder)
    whose = {"config.json": "file that export makes of the checkpoint", "tokenizer.json": "checkpoint's"}
    assert said(folder, FILES) == f"{name} is not the {whose[name]}"
    (folder / name).unlink()
    assert said(folder, FILES) == f"{name} is missing"
    with pytest.raises(BundleError, match=rf"is incomplete: {name} is missing; export again$"):
        txexport.load(folder, device="cpu")


def test_a_file_that_export_leaves_out_of_the_list(copy_of):
    folder = copy_of("bert")
    (folder / "tokenizer.json").unlink()
    relist(folder)
    assert said(folder, FILES) == "txexport.json: tokenizer.json is not listed, though export writes it"


def test_a_made_tokenizer_is_made_again(checkpoint_of, tmp_path, monkeypatch):
    source = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "in"))
    text = (source / "tokenizer.json").read_text()
    (source / "tokenizer.json").unlink()
    monkeypatch.setattr("txexport.exporter.companions.tokenizer_json", lambda *_: text)
    export(source, tmp_path / "out")
    folder = tmp_path / "out"
    assert verify(folder, reference="twin", cases=FILES).ok
    made = folder / "tokenizer.json"
    made.write_text(json.dumps(json.loads(text), indent=1))
    relist(folder)
    assert said(folder, FILES) == "tokenizer.json is not the file that export makes of the checkpoint"
    manifest = bundle.read(folder)
    dataclasses.replace(manifest, versions=manifest.versions | {"transformers": "0"}).write(
        folder / bundle.MANIFEST
    )
    assert verify(
        folder, reference="twin", cases=FILES
    ).ok  # another version, which writes the same otherwise
    monkeypatch.setattr("txexport.exporter.companions.tokenizer_json", lambda *_: None)
    assert said(folder, FILES) == "tokenizer.json is not the checkpoint's, and cannot be made of it here"


def test_reports_hash_what_they_read(copy_of):
    folder = copy_of("bert")
    values = json.loads((folder / "txexport.json").read_text())
    values["data"][DATA]["sha256"] = values["companions"]["tokenizer.json"] = "0"
    (folder / "txexport.json").write_text(json.dumps(values))
    report = verify(folder, reference="twin", cases=GRAPHS)
    files = bundle.files_sha256(folder)
    assert report.bundle_sha256 == {name: digest for name, digest in files.items() if name != ANSWERS}
    assert "0" not in report.bundle_sha256.values()
    graphs = {roles.native_path(roles.MODEL, None), roles.hub_path(roles.MODEL)}
    others = {"config.json", "tokenizer.json", "tokenizer_config.json", bundle.MANIFEST, DATA}
    assert set(report.bundle_sha256) == others | graphs


@pytest.fixture
def crashing(checkpoint_of, tmp_path):
    """A bundle whose tokenizer crashes on a text of many letters."""
    source = Path(shutil.copytree(checkpoint_of("gpt2"), tmp_path / "in"))
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.normalizer = normalizers.Replace(Regex("(.*a){25}b"), "x")
    tokenizer.save(str(source / "tokenizer.json"))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast"}  # which takes the normalizer, as GPT-2's does not
    (source / "tokenizer_config.json").write_text(json.dumps(kind))
    export(source, tmp_path / "out")
    return tmp_path / "out"


LETTERS = "a" * 60


def test_a_crash_of_a_library_is_exit_2(crashing, tmp_path):
    (tmp_path / "lines.txt").write_text(LETTERS)
    for arguments in (
        ["verify", str(crashing), "--texts", str(tmp_path / "lines.txt"), "--cases", "quick"],
        ["generate", str(crashing), LETTERS],
        ["generate", str(crashing), "--chat", LETTERS],
    ):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 2, arguments
        assert "Traceback" not in result.output
    result = CliRunner().invoke(main, ["generate", str(crashing), LETTERS])
    assert result.output.splitlines() == [
        "error: a library crashed on this input: Onig: Regex search error: retry-limit-in-match over"
    ]


def test_a_crash_of_a_library_is_an_error_of_txexport(crashing, tmp_path, monkeypatch):
    model = txexport.load(crashing, device="cpu")
    with pytest.raises(LibraryError, match="a library crashed on this input: Onig: Regex search error"):
        model.generate(LETTERS)
    monkeypatch.setattr("txexport.verification.cases.texts.SENTENCES", ("yes", LETTERS))
    with pytest.raises(LibraryError, match="Onig"):
        verify(crashing, reference="twin", cases="quick")
    for kind in (KeyboardInterrupt, SystemExit):

        def interrupted(*_, kind=kind, **__):
            raise kind

        monkeypatch.setattr("txexport.bundle.source.Checkpoint", interrupted)
        with pytest.raises(kind):
            verify(crashing)


def rows(least: int, name: str = "input_ids") -> tuple:
    """A call of so many rows or more."""
    return least, helper.make_node("Shape", [name], ["count"], start=0, end=1)


def tokens(least: int) -> tuple:
    """A call of so many tokens or more."""
    return least, helper.make_node("Shape", ["input_ids"], ["count"], start=1, end=2)


def capacity(least: int) -> tuple:
    """A cache of so many places or more."""
    return least, helper.make_node("Shape", ["past_key_values.0.key"], ["count"], start=2, end=3)


def pair(first: int, second: int) -> tuple:
    """A call in which one token follows another."""
    ends = {"zero": [0], "one": [1], "last": [-1], "all": [2**31]}
    return (
        1,
        *(helper.make_node("Constant", [], [name], value_ints=value) for name, value in ends.items()),
        *(helper.make_node("Constant", [], [f"t{i}"], value_int=i) for i in (first, second)),
        helper.make_node("Slice", ["input_ids", "zero", "last", "one"], ["before"]),
        helper.make_node("Slice", ["input_ids", "one", "all", "one"], ["after"]),
        helper.make_node("Equal", ["before", f"t{first}"], ["is_first"]),
        helper.make_node("Equal", ["after", f"t{second}"], ["is_second"]),
        helper.make_node("And", ["is_first", "is_second"], ["both"]),
        helper.make_node("Cast", ["both"], ["each"], to=onnx.TensorProto.INT64),
        helper.make_node("ReduceSum", ["each"], ["count"], keepdims=0),
    )


# Calls that a graph may answer otherwise than all others; a case without any; one of them, if there is one.
STEPS = "one token, then steps"
RARE = [
    ("gpt2", roles.MODEL, tokens(1025), STEPS, None),
    ("gpt2", roles.MODEL, pair(5, 9), STEPS, None),
    ("gpt2", roles.MODEL, capacity(1100), STEPS, None),
    ("bert", roles.MODEL, rows(5), "three ragged rows, right padding", "nine ragged rows"),
    ("bert", roles.MODEL, tokens(1025), "longest and short row", None),
    ("t5", roles.ENCODER, tokens(1025), STEPS, None),
    ("t5", roles.ENCODER, rows(9), STEPS, "nine rows, then a step"),
    ("vit", roles.MODEL, rows(4, "pixel_values"), "three", "nine"),
]


@pytest.mark.parametrize(("model_type", "role", "when", "blind", "sees"), RARE)
def test_a_graph_that_is_another_for_some_calls_alone(model_type, role, when, blind, sees, copy_of):
    """The embedding is lost there. A case of other calls is equal; the identity names what was put in."""
    folder = copy_of(model_type)
    path = graph_path(folder, role)
    model = onnx.load(path, load_external_data=False)
    place, embedding = next(
        (i, part) for i, part in enumerate(model.graph.node) if part.op_type.endswith("embedding")
    )
    x, (least, *counting) = embedding.output[0], when
    kept = [
        helper.make_node("Constant", [], ["least"], value_int=least),
        helper.make_node("Less", ["count", "least"], ["few"]),
        helper.make_node("Cast", ["few"], ["kept"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", [x, "kept"], ["mine"]),
    ]
    for reader in list(model.graph.node)[place + 1 :]:
        reader.input[:] = ["mine" if name == x else name for name in reader.input]
    for new in reversed([*counting, *kept]):
        model.graph.node.insert(place + 1, new)
    onnx.save(model, path)
    why = (
        f"{path.relative_to(folder).as_posix()} is not the exported graph: "
        f"first difference at node {place + 1} ({counting[0].op_type})"
    )
    assert said(folder, GRAPHS).startswith(why)
    assert verify(folder, reference="twin", cases=[blind]).ok
    if sees is not None:
        assert [one.name for one in verify(folder, reference="twin", cases=[sees]).failed] == [sees]
