"""Files that export writes, and the state after a failure."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import tiny_checkpoint
import transformers
from helpers.bundle_edits import graph_path, stored
from helpers.rows import NEW_FALCON
from onnx.external_data_helper import ExternalDataInfo
from safetensors import safe_open
from safetensors.numpy import save_file
from tiny_pickled import pickled

from txexport import bundle, families
from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import OLDEST
from txexport.bundle.proof import ANSWERS
from txexport.bundle.source import way_to
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import BundleError, CheckpointError, GraphError, InputError, UnsupportedError
from txexport.exporter import export, quantize
from txexport.exporter.bundle_plan import BundlePlan
from txexport.runtime import load

NATIVE = {  # graphs of the native runtime
    "bert": ["onnx/model_native.onnx"],
    "gpt2": ["onnx/model_static.onnx"],
    "bart": ["onnx/source_static.onnx", "onnx/target_static.onnx"],
}
HUB = {  # those for other clients, with their weights
    "bert": ["onnx/model.onnx", "onnx/model.onnx_data"],
    "gpt2": ["onnx/model.onnx", "onnx/model.onnx_data", "genai_config.json", "generation_config.json"],
    "bart": [
        "onnx/encoder_model.onnx",
        "onnx/encoder_model.onnx_data",
        "onnx/decoder_model.onnx",
        "onnx/decoder_with_past_model.onnx",
        "onnx/decoder_model_merged.onnx",
        "onnx/decoder_model_merged.onnx_data",
        "generation_config.json",
    ],
}


@pytest.mark.parametrize("model_type", NATIVE)
def test_bundle_holds_what_an_application_needs(model_type, bundle_of):
    folder = bundle_of(model_type)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    own = {"txexport.json", "config.json", "tokenizer.json", "tokenizer_config.json"}
    expected = {*own, *NATIVE[model_type], *HUB[model_type]}
    assert found - {ANSWERS} == expected  # which another test's verification may have written
    for name in found:
        if name.endswith(".onnx"):
            onnx.checker.check_model(folder / name, full_check=True)


@pytest.mark.parametrize("model_type", NATIVE)
def test_manifest_describes_the_graphs(model_type, bundle_of):
    manifest = bundle.read(bundle_of(model_type))
    for graph in manifest.every_graph:
        model = onnx.load(bundle_of(model_type) / graph.file, load_external_data=False)
        for ports, values in ((graph.inputs, model.graph.input), (graph.outputs, model.graph.output)):
            assert [port.name for port in ports] == [value.name for value in values]
            for port, value in zip(ports, values, strict=True):
                dims = [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
                assert port.shape == dims
    beside = {"tokenizer.json", "generation_config.json"} & {*manifest.companions}
    assert set(manifest.source.sha256) == {"config.json", "model.safetensors", *beside}
    assert manifest.versions["txexport"]


def test_bundle_says_where_its_checkpoint_is_and_nothing_of_the_machine(checkpoint_of, tmp_path):
    """They may be moved together; and a bundle pushed to a hub contains no path of the machine."""
    source = tmp_path / "models/bert"
    shutil.copytree(checkpoint_of("bert"), source)
    export(source, tmp_path / "bundles/out", only="native")
    assert bundle.read(tmp_path / "bundles/out").source.path == "../../models/bert"
    for file in (tmp_path / "bundles/out").rglob("*.json"):
        assert str(tmp_path) not in file.read_text(), file
    (tmp_path / "moved").mkdir()
    for folder in ("models", "bundles"):
        (tmp_path / folder).rename(tmp_path / "moved" / folder)
    quantize(tmp_path / "moved/bundles/out", "int8")
    (tmp_path / "moved/models").rename(tmp_path / "models")
    with pytest.raises(
        CheckpointError, match=r"is missing: '../../models/bert'; give the exported one with --source"
    ):
        quantize(tmp_path / "moved/bundles/out", "float16")
    manifest = quantize(tmp_path / "moved/bundles/out", "float16", source=source)
    assert manifest.source.path == "../../../models/bert"
    manifest = export(source, tmp_path / "out", absolute_source=True)
    assert manifest.source.path == str(source)
    assert quantize(tmp_path / "out", "int8").source.path == str(source)


def test_way_to_a_checkpoint_names_nobody_s_home(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    assert way_to(Path("/one/model"), Path("/two/out")) == "../../one/model"
    assert way_to(Path("/home/bob/model"), Path("/home/ada/out")) == "model"
    assert way_to(Path("/home/ada/model"), Path("/srv/out")) == "model"
    assert way_to(Path("/home/ada/models/one"), Path("/home/ada/out")) == "../models/one"
    assert way_to(Path("/one/model"), Path("/home/ada/out")) == "../../../one/model"
    monkeypatch.setattr(Path, "home", lambda: Path("/service"))  # beside the root, as in a container
    assert way_to(Path("/service/model"), Path("/srv/out")) == "model"
    assert way_to(Path("/srv/model"), Path("/data/out")) == "../../srv/model"
    assert way_to(tmp_path / "model", tmp_path / "a/b/out") == "../../../model"


CONTRACTS = {
    ("bert", None): (
        ["input_ids", "attention_mask", "token_type_ids"],
        ["last_hidden_state", "pooler_output"],
    ),
    ("gpt2", "dynamic"): (["input_ids", "attention_mask", "position_ids"], ["logits"]),
    ("gpt2", "static"): (["input_ids", "cache_lengths", "logits_indices"], ["logits"]),
    ("bart", "dynamic"): (["input_ids", "encoder_attention_mask"], ["logits"]),
    ("bart", "static"): (
        ["input_ids", "cache_lengths", "logits_indices", "encoder_attention_mask"],
        ["logits"],
    ),
}


@pytest.mark.parametrize(("model_type", "cache"), CONTRACTS)
def test_names_are_those_of_the_ecosystem(model_type, cache, bundle_of):
    manifest = bundle.read(bundle_of(model_type, cache))
    graph = manifest.graphs["decoder_model" if model_type == "bart" else "model"]
    inputs = [port.name for port in graph.inputs if not port.name.startswith("past_key_values.")]
    outputs = [port.name for port in graph.outputs if not port.name.startswith("present.")]
    assert (inputs, outputs) == CONTRACTS[model_type, cache]
    if cache:
        own = "decoder." if model_type == "bart" else ""
        past = [port.name for port in graph.inputs if port.name.startswith("past_key_values.0.")]
        assert past[:2] == [f"past_key_values.0.{own}key", f"past_key_values.0.{own}value"]
        assert [port.name for port in graph.outputs][1:3] == [f"present.0.{own}key", f"present.0.{own}value"]


def test_graphs_and_stored_parameters_balance(checkpoint_of, tmp_path):
    """A missing parameter would be a wrong model, and an unused one wasted memory."""
    checkpoint = Checkpoint(checkpoint_of("bart"))
    resolved = families.resolve(checkpoint, None)
    form = ExportOptions("static", 24)
    assert len(BundlePlan(checkpoint, resolved, form).graphs) == 6
    dropped = ["decoder.layers.1.feed_forward.up.bias", "encoder.layers.0.attention.q.weight"]
    some = {name: weight for name, weight in resolved.weights.items() if name not in dropped}
    stray = resolved.weights["cross.0.k.bias"]
    weights = some | {"encoder.layers.0.scale": stray, "extra.bias": stray}
    with pytest.raises(GraphError) as caught:
        BundlePlan(checkpoint, dataclasses.replace(resolved, weights=weights), form)
    assert str(caught.value) == (
        f"the graphs do not fit the stored parameters: missing: {', '.join(dropped)}; "
        "unused: encoder.layers.0.scale, extra.bias"
    )


def test_a_component_is_one_function_however_many_layers(tmp_path):
    import tiny_checkpoint

    sizes = []
    for layers in (2, 7):
        tiny_checkpoint.save(tmp_path / f"{layers}", "gpt2", n_layer=layers)
        export(tmp_path / f"{layers}", tmp_path / f"out{layers}")
        model = onnx.load(graph_path(tmp_path / f"out{layers}"), load_external_data=False)
        sizes.append(sorted(function.name for function in model.functions))
        kinds = [node.op_type for node in model.graph.node]
        assert kinds.count("decoder_block") == layers - 1
        assert kinds.count("decoder_block_2") == 1  # the last one, at the selected tokens
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == len(set(sizes[0]))


def test_graphs_are_standard_operators_only(bundle_of):
    for model_type, names in NATIVE.items():
        for name in names:
            model = onnx.load(bundle_of(model_type) / name, load_external_data=False)
            own = {function.name for function in model.functions}
            used = {(node.domain, node.op_type) for f in model.functions for node in f.node}
            used |= {(node.domain, node.op_type) for node in model.graph.node}
            assert {entry.domain: entry.version for entry in model.opset_import} == {"": 24, "txexport": 1}
            assert {kind for domain, kind in used if domain == "txexport"} <= own
            assert {domain for domain, _ in used} <= {"", "txexport"}


@pytest.mark.parametrize("model_type", NATIVE)
def test_nodes_carry_no_notes_of_what_built_them(model_type, bundle_of):
    for path in bundle_of(model_type).rglob("*.onnx"):
        model = onnx.load(path, load_external_data=False)
        bodies = [model.graph, *model.functions]
        for body in bodies:  # branches are added on the way
            bodies.extend(a.g for node in body.node for a in node.attribute if a.HasField("g"))
        assert not [node.name for body in bodies for node in body.node if node.metadata_props], path


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_a_step_reads_keys_that_heads_share_once(key_heads, tmp_path):
    """A runtime reads each head's keys separately: at 4,000 tokens that is a tenth of a step's time."""
    config = {"num_attention_heads": 4, "num_key_value_heads": key_heads}
    tiny_checkpoint.save(tmp_path / "in", "llama", "LlamaForCausalLM", **config)
    export(tmp_path / "in", tmp_path / "out")
    steps = []
    for name in ("model_static", "model"):
        model = onnx.load(tmp_path / "out" / "onnx" / f"{name}.onnx", load_external_data=False)
        steps.append([node.op_type for function in model.functions for node in function.node].count("If"))
    assert steps == [1 if key_heads < 4 else 0, 0]


def test_tied_matrix_is_stored_once_and_both_graphs_share_one_file(bundle_of, checkpoint_of):
    with safe_open(checkpoint_of("bart") / "model.safetensors", "np") as file:
        numbers = sum(file.get_tensor(name).size for name in file.keys())  # noqa: SIM118
    folder = bundle_of("bart")
    words = "encoder.embedding.word.weight"
    held = stored(folder)
    copies = held.pop("decoder.embedding.word.weight")  # for clients that open the decoder alone
    assert sum(array.size for array in held.values()) == numbers
    assert np.array_equal(copies, held[words])
    places: dict[str, set] = {}
    for graph in bundle.read(folder).every_graph:
        for tensor in onnx.load(folder / graph.file, load_external_data=False).graph.initializer:
            if tensor.external_data:
                entry = {item.key: item.value for item in tensor.external_data}
                places.setdefault(tensor.name, set()).add((entry["location"], entry["offset"]))
    assert {name: len(where) for name, where in places.items() if len(where) > 1} == {}
    assert next(iter(places[words]))[0] == "encoder_model.onnx_data"
    assert next(iter(places["decoder.embedding.word.weight"]))[0] == "decoder_model_merged.onnx_data"


def test_a_bundle_of_ours_alone_holds_a_matrix_once(checkpoint_of, tmp_path):
    export(checkpoint_of("bart"), tmp_path / "out", only="native")
    manifest = bundle.read(tmp_path / "out")
    assert [graph.file for graph in manifest.every_graph] == NATIVE["bart"]
    assert list(manifest.data) == ["onnx/model.onnx_data"]
    assert "decoder.embedding.word.weight" not in stored(tmp_path / "out")
    assert "transformers.js_config" not in json.loads((tmp_path / "out" / "config.json").read_text())


def test_shared_layers_are_one_layer_in_file_and_graph(bundle_of, checkpoint_of):
    """ALBERT's layers are one, however often it is called."""
    with safe_open(checkpoint_of("albert") / "model.safetensors", "np") as file:
        numbers = sum(file.get_tensor(name).size for name in file.keys())  # noqa: SIM118
    folder = bundle_of("albert")
    assert sum(array.size for array in stored(folder).values()) == numbers
    model = onnx.load(graph_path(folder), load_external_data=False)
    blocks = [list(node.input[4:]) for node in model.graph.node if node.op_type == "encoder_block"]
    assert len(blocks) == 2
    assert blocks[0] == blocks[1]
    assert len({t.name for t in model.graph.initializer}) == len(model.graph.initializer)


def test_weights_keep_the_bytes_of_the_checkpoint(bundle_of, checkpoint_of):
    pairs = {
        "encoder.embedding.word.weight": "embeddings.word_embeddings.weight",
        "encoder.layers.1.attention.v.weight": "encoder.layer.1.attention.self.value.weight",
    }
    ours = stored(bundle_of("bert"))
    with safe_open(checkpoint_of("bert") / "model.safetensors", "np") as theirs:
        for name, original in pairs.items():
            turned = name.endswith("v.weight")  # matrices that are only multiplied are stored (in, out)
            found = ours[name].T if turned else ours[name]
            assert np.array_equal(found, theirs.get_tensor(original))


def test_a_config_keeps_what_it_says_whatever_its_letters(checkpoint_of, tmp_path):
    """Half of a surrogate pair, as in a truncated text, is JSON, and not UTF-8."""
    source = shutil.copytree(checkpoint_of("bert"), tmp_path / "source")
    said = json.loads((source / "config.json").read_text()) | {"_name_or_path": "\ud83d é"}
    (source / "config.json").write_text(json.dumps(said))
    export(source, tmp_path / "out")
    kept = json.loads((tmp_path / "out" / "config.json").read_text())
    assert kept.pop("transformers.js_config")["dtype"] == "fp32"
    assert kept == said


def test_unknown_opset(checkpoint_of, tmp_path):
    with pytest.raises(InputError, match="opset 16 is not supported; expected 17 to 24"):
        export(checkpoint_of("gpt2"), tmp_path / "out", opset=16)


def test_unknown_cache(checkpoint_of, tmp_path):
    with pytest.raises(InputError, match="cache 'paged' is not known; expected static or dynamic"):
        export(checkpoint_of("gpt2"), tmp_path / "out", cache="paged")


def test_encoder_has_no_cache_to_choose(checkpoint_of, tmp_path):
    with pytest.raises(UnsupportedError, match="has no cache"):
        export(checkpoint_of("bert"), tmp_path / "out", cache="dynamic")
    assert list(tmp_path.iterdir()) == []


def test_truncated_weights_leave_nothing(checkpoint_of, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for path in checkpoint_of("bert").iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    file = source / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="truncated"):
        export(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_progress_counts_every_byte(checkpoint_of, tmp_path):
    seen = []
    export(checkpoint_of("gpt2"), tmp_path / "out", progress=lambda *counts: seen.append(counts))
    done, total = zip(*seen, strict=True)
    assert list(done) == sorted(done)
    assert done[-1] == total[0]
    assert set(total) == {total[0]}


PEAK = """
import resource, sys
from txexport.exporter import export, quantize
export(sys.argv[1], sys.argv[1] + ".small")
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
export(sys.argv[2], sys.argv[2] + ".out")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024)
assert "torch" not in sys.modules
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report peak memory this way")
@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
def test_peak_memory_is_a_small_part_of_the_checkpoint(weights, tmp_path):
    """430 MB of weights, its largest tensor 98 MB, in a process that has exported a small one before."""
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
    }
    for name, layers, words in (("small", 1, 101), ("large", 12, 32003)):
        folder = tmp_path / name
        folder.mkdir()
        settings = config | {"num_hidden_layers": layers, "vocab_size": words}
        (folder / "config.json").write_text(json.dumps(settings))
        write_bert_weights(folder, layers, words)
        if weights != "model.safetensors":
            pickled(folder)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "small"), str(tmp_path / "large")]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    size = (tmp_path / "large" / weights).stat().st_size
    assert size > 400e6
    assert peak < 0.2 * size


def write_bert_weights(folder: Path, layers: int, words: int) -> None:
    wide, narrow = np.zeros((3072, 768), np.float32), np.zeros(768, np.float32)
    tensors = {
        "embeddings.word_embeddings.weight": np.zeros((words, 768), np.float32),
        "embeddings.position_embeddings.weight": np.zeros((512, 768), np.float32),
        "embeddings.token_type_embeddings.weight": np.zeros((2, 768), np.float32),
        "embeddings.LayerNorm.weight": narrow,
        "embeddings.LayerNorm.bias": narrow,
    }
    for i in range(layers):
        layer = f"encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            tensors[f"{layer}.attention.{part}.weight"] = wide[:768]
            tensors[f"{layer}.attention.{part}.bias"] = narrow
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            tensors |= {f"{layer}.{norm}.weight": narrow, f"{layer}.{norm}.bias": narrow}
        tensors[f"{layer}.intermediate.dense.weight"] = wide
        tensors[f"{layer}.intermediate.dense.bias"] = np.zeros(3072, np.float32)
        tensors[f"{layer}.output.dense.weight"] = wide.reshape(768, 3072)
        tensors[f"{layer}.output.dense.bias"] = narrow
    save_file(tensors, folder / "model.safetensors")


WITHOUT_TORCH = """
import sys
for name in ("torch", "transformers", "safetensors"):
    sys.modules[name] = None  # any import of it raises
import txexport
txexport.export(sys.argv[1], sys.argv[2])
print(txexport.load(sys.argv[2], device="cpu").generate_ids([[5, 6, 7]], max_new_tokens=4))
"""


def test_export_and_generation_need_no_pytorch(checkpoint_of, tmp_path):
    command = [sys.executable, "-c", WITHOUT_TORCH, str(checkpoint_of("gpt2")), str(tmp_path / "out")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == load(tmp_path / "out").generate_ids([[5, 6, 7]], max_new_tokens=4)


def test_damaged_bundle_is_one_line(checkpoint_of, tmp_path):
    out = tmp_path / "out"
    export(checkpoint_of("bert"), out)
    manifest = json.loads((out / "txexport.json").read_text())

    def said(text: str) -> str:
        (out / "txexport.json").write_text(text)
        with pytest.raises(BundleError) as caught:
            load(out)
        return str(caught.value)

    assert "cannot be read as JSON" in said("{")
    assert "holds a list, expected a dict" in said("[]")
    assert "is damaged" in said(json.dumps({k: v for k, v in manifest.items() if k != "formats"}))
    known = manifest["format"]
    assert f"this txexport reads up to {known}; update it" in said(
        json.dumps(manifest | {"format": known + 1})
    )
    assert "of an older txexport" in said(json.dumps(manifest | {"format": OLDEST - 1}))
    (out / "onnx" / "model.onnx").unlink()
    assert "model.onnx is missing" in said(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"has no txexport\.json"):
        load(tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "int8-fast", "int4", ["float32", "int4-128"]], ids=str)
def test_no_weights_of_a_merged_decoder_stand_within_a_branch(dtype, checkpoint_of, tmp_path):
    """ONNX Runtime Web does not find them beside its graph, and ONNX Runtime not through a link."""
    export(checkpoint_of("bart"), tmp_path / "out", dtype=dtype, client="web")
    for path in (tmp_path / "out").rglob("*merged*.onnx"):
        graph = onnx.load(path, load_external_data=False).graph
        [choice] = [node for node in graph.node if node.op_type == "If"]
        branches = [attribute.g for attribute in choice.attribute]
        assert [{node.op_type for node in one.node} for one in branches] == [{"Identity"}] * 2
        assert not any(len(one.initializer) for one in branches)
        outside = [ExternalDataInfo(one).location for one in graph.initializer if one.external_data]
        assert len(outside) > 50
        assert set(outside) == {f"{path.name}_data"}


@pytest.mark.parametrize(
    ("family", "config", "kept"),
    [
        ("gpt_bigcode", {"multi_query": True}, None),
        ("gpt_bigcode", {"multi_query": False}, False),
        ("falcon", {"multi_query": True}, None),
        ("falcon", {"multi_query": False}, False),
        ("falcon", {"multi_query": True, **NEW_FALCON}, None),
    ],
)
def test_config_json_has_no_multi_query_that_transformers_js_takes_for_one_tensor(
    family, config, kept, tmp_path
):
    """For transformers the model is the same without it."""
    tiny_checkpoint.save(tmp_path / "in", family, tiny_checkpoint.FAMILIES[family][0], **config)
    export(tmp_path / "in", tmp_path / "out", only="hub")
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written.get("multi_query") is kept
    ours, theirs = (transformers.AutoConfig.from_pretrained(tmp_path / part) for part in ("out", "in"))
    assert ours.multi_query == theirs.multi_query == config["multi_query"]
