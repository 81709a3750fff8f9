"""Other tools' exports judged: layouts and names, right and wrong graphs, and what cannot be judged."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import transformers
from click.testing import CliRunner
from helpers.other_tools import as_optimum
from onnx import TensorProto, helper, numpy_helper
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

import txexport
from txexport.cli.main import main
from txexport.contracts import cache_names
from txexport.contracts.other_names import standard
from txexport.errors import InputError, UnsupportedError


@pytest.fixture
def optimum(bundle_of, tmp_path):
    """A function from a model_type to its graphs in optimum's layout."""

    def get(model_type: str) -> Path:
        folder = as_optimum(bundle_of(model_type), tmp_path / model_type)
        (folder / "decoder_model_merged.onnx").unlink(missing_ok=True)  # its weights are the others', too
        return folder

    return get


def edited(path: Path, edit) -> None:
    """Change a graph in place; its weights stay in their file."""
    model = onnx.load(path, load_external_data=False)
    edit(model)
    onnx.save(model, path)


def renamed(names: dict[str, str]):
    """An edit that gives inputs and outputs other names."""

    def edit(model):
        for values in (model.graph.input, model.graph.output):
            for value in values:
                value.name = names.get(value.name, value.name)
        for node in model.graph.node:
            for part in (node.input, node.output):
                part[:] = [names.get(name, name) for name in part]

    return edit


def ignore_mask(model):
    """Take every token for one of the text."""
    greater = helper.make_node("GreaterOrEqual", ["attention_mask", "zero"], ["every"])
    cast = helper.make_node("Cast", ["every"], ["ones"], to=TensorProto.INT64)
    for node in model.graph.node:
        node.input[:] = ["ones" if name == "attention_mask" else name for name in node.input]
    model.graph.node.insert(0, greater)
    model.graph.node.insert(1, cast)
    model.graph.initializer.append(numpy_helper.from_array(np.array(0), "zero"))


def drop_last_norm(model):
    """Scale nothing by the decoder's last norm."""
    norm = next(node for node in model.graph.node if "decoder.final_norm.weight" in node.input)
    norm.CopyFrom(helper.make_node("Identity", norm.input[:1], norm.output))


def verdicts(report) -> dict[str, bool]:
    return {case.name: case.ok for case in report.cases if case.runtime}


@pytest.mark.parametrize(
    "model_type", ["bert", "deberta-v2", "vit", "wav2vec2", "gpt2", "mistral", "t5", "marian", "whisper"]
)
def test_a_right_export_shows_no_difference(model_type, optimum, checkpoint_of):
    report = txexport.verify(optimum(model_type), source=checkpoint_of(model_type))
    assert (report.failed, report.exit_code) == ([], 0)
    assert report.verdict == f"no difference in {len(verdicts(report))} cases"
    assert "another tool's export" in report.scope
    assert report.reach["rows"][0] == 9


def test_a_merged_decoder_is_read_by_its_branches(bundle_of, checkpoint_of, tmp_path):
    folder = as_optimum(bundle_of("t5"), tmp_path / "merged")
    for name in ("decoder_model.onnx", "decoder_with_past_model.onnx"):
        (folder / name).unlink()
    assert txexport.verify(folder, source=checkpoint_of("t5"), cases="quick").ok


def test_a_merged_decoder_beside_two_separate_ones_is_judged_too(bundle_of, checkpoint_of, tmp_path):
    """Clients open the merged one."""
    folder = as_optimum(bundle_of("t5"), tmp_path / "both")
    right = txexport.verify(folder, source=checkpoint_of("t5"), cases="quick")
    assert right.ok
    assert {"one pass", "merged decoder: one pass"} <= verdicts(right).keys()
    edited(folder / "decoder_model_merged.onnx", drop_last_norm)
    wrong = verdicts(txexport.verify(folder, source=checkpoint_of("t5"), cases="quick"))
    assert {name for name, ok in wrong.items() if ok} == verdicts(right).keys() - {
        name for name in wrong if name.startswith("merged decoder: ")
    }


def test_an_ignored_mask_is_found_in_padded_rows_alone(optimum, checkpoint_of):
    folder = optimum("bert")
    edited(folder / "model.onnx", ignore_mask)
    right = verdicts(txexport.verify(folder, source=checkpoint_of("bert")))
    assert right["sizes of the trace"]
    assert {name for name in ("ragged rows", "padded at the left") if right[name]} == set()
    folder = optimum("gpt2")
    edited(folder / "model.onnx", ignore_mask)
    right = verdicts(txexport.verify(folder, source=checkpoint_of("gpt2")))
    wrong = {name for name, ok in right.items() if not ok}
    assert {"padded at the left, in steps", "padded in the middle, in pieces", "nine rows"} <= wrong
    assert right["one pass"]
    assert right["steps"]


def test_an_encoder_s_mask_is_found_in_ragged_sources(optimum, checkpoint_of):
    folder = optimum("t5")
    edited(folder / "encoder_model.onnx", ignore_mask)
    right = verdicts(txexport.verify(folder, source=checkpoint_of("t5")))
    wrong = {name for name, ok in right.items() if not ok}
    assert {"encoder, ragged", "ragged sources, in steps", "nine rows"} <= wrong
    assert right["encoder"]
    assert right["steps"]


def test_a_size_that_the_graph_declares_is_a_note(optimum, checkpoint_of):
    folder = optimum("bert")

    def one_row(model):
        for value in model.graph.input:
            value.type.tensor_type.shape.dim[0].dim_value = 1

    edited(folder / "model.onnx", one_row)
    report = txexport.verify(folder, source=checkpoint_of("bert"))
    assert report.ok
    assert report.notes == ["the graph takes batch_size 1 only"]
    assert report.reach["rows"] == (1, 1)


def test_outputs_of_another_class_are_compared_or_named(optimum, checkpoint_of):
    folder = optimum("bert")

    def adds(model):
        [first] = [output for output in model.graph.output if output.name == "last_hidden_state"]
        model.graph.node.append(helper.make_node("Identity", [first.name], ["token_embeddings"]))
        model.graph.output.append(helper.make_tensor_value_info("token_embeddings", TensorProto.FLOAT, None))

    edited(folder / "model.onnx", adds)
    report = txexport.verify(folder, source=checkpoint_of("bert"), cases="quick")
    assert report.ok
    assert report.notes == ["not compared: token_embeddings, which BertModel does not give"]


MOBIUS = {"past_key_values.{}.key": "past_key_values.{}.self.key", "present.{}.key": "present.{}.self.key"}
TRANSFORMERS = {
    "past_key_values.{}.key": "input.cache.layers.{}.keys",
    "past_key_values.{}.value": "input.cache.layers.{}.values",
    "present.{}.key": "output.cache.layers.{}.keys",
    "present.{}.value": "output.cache.layers.{}.values",
}


def test_names_of_other_tools_are_understood(optimum, checkpoint_of):
    folder = optimum("gpt2")
    names = {a.format(i): b.format(i) for a, b in TRANSFORMERS.items() for i in range(2)}
    edited(folder / "model.onnx", renamed(names))
    (folder / "model.onnx").rename(folder / "decoder.onnx")
    (folder / "genai_config.json").write_text(
        json.dumps({"model": {"decoder": {"filename": "decoder.onnx"}}})
    )
    assert txexport.verify(folder, source=checkpoint_of("gpt2"), cases="quick").ok
    past, present = cache_names.PAST, cache_names.PRESENT
    for name, kind, expected in (
        ("past_key_values.3.self.key", past, "past_key_values.3.decoder.key"),
        ("present.3.cross.value", present, "present.3.encoder.value"),
        ("past_key_self_7", past, "past_key_values.7.decoder.key"),
        ("present_value_cross_0", present, "present.0.encoder.value"),
        ("output.cache.cross_attention_cache.layers.1.keys", present, "present.1.encoder.key"),
        ("encoder_outputs.last_hidden_state", past, "encoder_hidden_states"),
        ("logits", present, "logits"),
    ):
        assert standard(name, kind, of_decoder=True) == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_export_of_transformers_is_judged(checkpoint_of, tmp_path):
    source = checkpoint_of("gpt2")
    model = transformers.AutoModelForCausalLM.from_pretrained(source).eval()
    ids = transformers.AutoTokenizer.from_pretrained(source)("a b c d e", return_tensors="pt")
    inputs = {name: ids[name].repeat(2, 1) for name in ("input_ids", "attention_mask")}
    exported = OnnxExporter().export_for_generation(model, inputs, OnnxConfig(dynamic=True))
    exported.save_pretrained(tmp_path / "out")
    report = txexport.verify(tmp_path / "out", source=source)
    assert "decode.onnx takes steps of length 1 only" in report.notes
    right = verdicts(report)
    assert right["one pass"]
    assert right["steps"]


def test_folders_of_an_encoder_and_a_decoder_are_one_model(bundle_of, checkpoint_of, tmp_path):
    graphs = as_optimum(bundle_of("t5"), tmp_path / "t5")
    for role, name in (("encoder", "encoder_model"), ("decoder", "decoder_model_merged")):
        (tmp_path / "out" / role).mkdir(parents=True)
        shutil.copyfile(graphs / f"{name}.onnx", tmp_path / "out" / role / "model.onnx")
        for data in graphs.glob("*_data"):
            shutil.copyfile(data, tmp_path / "out" / role / data.name)
    assert txexport.verify(tmp_path / "out", source=checkpoint_of("t5"), cases="quick").ok


def test_an_encoder_may_give_the_keys_of_the_source(checkpoint_of, tmp_path):
    """As those of onnxruntime-genai's Whisper, and our own."""
    txexport.export(checkpoint_of("t5"), tmp_path / "t5", cache="dynamic", only="native")
    files = {"encoder": {"filename": "source_dynamic.onnx"}, "decoder": {"filename": "target_dynamic.onnx"}}
    folder = tmp_path / "t5/onnx"
    (folder / "genai_config.json").write_text(json.dumps({"model": files}))
    report = txexport.verify(folder, source=checkpoint_of("t5"))
    assert (report.failed, report.exit_code) == ([], 0)
    edited(folder / "source_dynamic.onnx", ignore_mask)
    right = verdicts(txexport.verify(folder, source=checkpoint_of("t5"), cases="quick"))
    assert not right["ragged sources, in steps"]


def test_an_input_that_no_case_has_is_no_verdict(optimum, checkpoint_of):
    folder = optimum("gpt2")
    edited(folder / "model.onnx", renamed({"attention_mask": "keep"}))
    with pytest.raises(InputError, match=r"model.onnx takes 'keep', which is not known$"):
        txexport.verify(folder, source=checkpoint_of("gpt2"))


def test_a_checkpoint_of_another_kind_is_told_in_one_line(optimum, checkpoint_of):
    folder = optimum("gpt2")
    with pytest.raises(InputError, match=r"model.onnx is a decoder with a cache, which BertModel is not$"):
        txexport.verify(folder, source=checkpoint_of("bert"))
    with pytest.raises(InputError, match=r"is a decoder alone, and T5\w+ a decoder over an encoder$"):
        txexport.verify(folder, source=checkpoint_of("t5"))


def test_what_cannot_be_judged_is_told_in_one_line(optimum, checkpoint_of, tmp_path):
    folder, source = optimum("bert"), checkpoint_of("bert")
    with pytest.raises(InputError, match=r"is not a bundle of txexport; .* its checkpoint with --source$"):
        txexport.verify(folder)
    with pytest.raises(InputError, match=r"^layers cannot be given for another tool's export"):
        txexport.verify(folder, source=source, layers=True)
    with pytest.raises(InputError, match=r"no case is named nothing"):
        txexport.verify(folder, source=source, cases=["nothing"])
    with pytest.raises(InputError, match=r"takes input_ids, .* which cannot be filled for ViTModel"):
        txexport.verify(folder, source=checkpoint_of("vit"))

    def half(model):
        for output in model.graph.output:
            output.type.tensor_type.elem_type = TensorProto.FLOAT16
            for node in model.graph.node:
                node.output[:] = [f"{n}_wide" if n == output.name else n for n in node.output]
                node.input[:] = [f"{n}_wide" if n == output.name else n for n in node.input]
            cast = helper.make_node("Cast", [f"{output.name}_wide"], [output.name], to=TensorProto.FLOAT16)
            model.graph.node.append(cast)

    edited(folder / "model.onnx", half)
    with pytest.raises(
        UnsupportedError, match=r"is float16; other tools' exports are judged in float32: export a model"
    ):
        txexport.verify(folder, source=source)
    (folder / "model.onnx").rename(folder / "one.onnx")
    shutil.copyfile(folder / "one.onnx", folder / "two.onnx")
    with pytest.raises(InputError, match=r"has one.onnx, two.onnx, which are not a known layout"):
        txexport.verify(folder, source=source)
    shutil.copytree(checkpoint_of("bert"), tmp_path / "other")
    with pytest.raises(txexport.errors.BundleError):
        txexport.verify(tmp_path / "other", source=source)


def test_the_command_s_exit_codes(optimum, checkpoint_of):
    folder, source = str(optimum("bert")), str(checkpoint_of("bert"))
    result = CliRunner().invoke(main, ["verify", folder, "--source", source, "--cases", "quick"])
    assert result.exit_code == 0
    assert "no difference in 4 cases beside transformers on onnxruntime cpu" in " ".join(
        result.output.split()
    )
    edited(Path(folder, "model.onnx"), ignore_mask)
    assert CliRunner().invoke(main, ["verify", folder, "--source", source, "-q"]).exit_code == 1
    file = str(Path(folder, "model.onnx"))
    assert CliRunner().invoke(main, ["verify", file, "--source", source, "-q"]).exit_code == 1
    assert CliRunner().invoke(main, ["verify", folder, "-q"]).exit_code == 2
