"""One bundle in several number formats: its files, their purpose, and their size."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import tiny_checkpoint
from helpers.bundle_edits import stored
from safetensors import safe_open

import txexport
from txexport import bundle
from txexport.bundle.manifest import FORMAT
from txexport.errors import BundleError, InputError
from txexport.formats import DTYPES
from txexport.verification import verify

CONTENTS = ["exported graphs", "every weight", "manifest and copied files"]
SUFFIXES = {"float32": "", "int8": "_int8", "int4": "_q4", "int4-128": "_q4_128"}
SIZES = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 32, "num_attention_heads": 8}


def files(folder: Path) -> set[str]:
    """All files of a folder that are graphs or weights."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in paths if ".onnx" in path.name}


def settings(folder: Path) -> dict:
    """The settings for transformers.js."""
    return json.loads((folder / "config.json").read_text())["transformers.js_config"]


@pytest.fixture(scope="module")
def bert(checkpoint_of, tmp_path_factory) -> Path:
    """BERT in float32 and in both kinds of integers."""
    folder = tmp_path_factory.mktemp("dtypes") / "bert"
    txexport.export(checkpoint_of("bert"), folder, dtype=["float32", "int8", "int4", "int4-128"])
    return folder


def test_each_dtype_has_files_of_its_own(bert):
    expected = set()
    for suffix in SUFFIXES.values():
        expected |= {f"onnx/model_native{suffix}.onnx", f"onnx/model{suffix}.onnx"}
        expected.add(f"onnx/model{suffix}.onnx_data")
    assert files(bert) == expected
    assert {name: DTYPES[name].suffix for name in SUFFIXES} == SUFFIXES
    assert settings(bert) == {
        "dtype": "fp32",
        "use_external_data_format": {f"model{suffix}.onnx": 1 for suffix in SUFFIXES.values()},
    }


def test_the_manifest_lists_graphs_by_dtype(bert):
    values = json.loads((bert / "txexport.json").read_text())
    assert values["format"] == FORMAT
    assert values["form"]["dtypes"] == [*values["formats"]] == [*SUFFIXES]
    for dtype, suffix in SUFFIXES.items():
        graphs = values["formats"][dtype]
        assert graphs["native"]["model"]["file"] == f"onnx/model_native{suffix}.onnx"
        assert graphs["hub"]["model"]["file"] == f"onnx/model{suffix}.onnx"
        alone = bundle.read(bert).of_dtype(dtype)
        assert [graph.file for graph in alone.every_graph] == [
            graphs[kind]["model"]["file"] for kind in ("native", "hub")
        ]
    assert {*values["data"]} == {f"onnx/model{suffix}.onnx_data" for suffix in SUFFIXES.values()}


def test_a_graph_points_into_the_weights_of_its_dtype_alone(bert):
    for suffix in SUFFIXES.values():
        for name in (f"model_native{suffix}.onnx", f"model{suffix}.onnx"):
            model = onnx.load(bert / "onnx" / name, load_external_data=False)
            places = {e.value for one in model.graph.initializer for e in one.external_data[:1]}
            assert places == {f"model{suffix}.onnx_data"}


def test_another_dtype_changes_no_byte_of_float32(bert, bundle_of):
    alone = bundle_of("bert")
    for name in files(alone):
        assert (bert / name).read_bytes() == (alone / name).read_bytes(), name
    assert settings(alone) == {"dtype": "fp32", "use_external_data_format": {"model.onnx": 1}}


def test_a_dtype_is_the_same_alone_or_after_others(bert, integers_of):
    for name in files(integers_of("bert")):
        assert (bert / name).read_bytes() == (integers_of("bert") / name).read_bytes(), name


def test_load_takes_the_dtype_asked_for(bert, integers_of):
    """The first one by default; results are close to each other, and differ."""
    texts = ["the cat sat", "the dog lay on the rug"]
    found = {
        dtype: np.array(txexport.load(bert, device="cpu", dtype=dtype).embed(texts, pooling="mean"))
        for dtype in (None, *SUFFIXES)
    }
    assert (found[None] == found["float32"]).all()
    for dtype, most in (("int8", 1e-3), ("int4", 0.1), ("int4-128", 0.1)):
        ours, exact = found[dtype], found["float32"]
        sizes = np.linalg.norm(ours, axis=1) * np.linalg.norm(exact, axis=1)
        assert 0 < (1 - (ours * exact).sum(axis=1) / sizes).max() < most
    first = np.array(txexport.load(integers_of("bert"), device="cpu").embed(texts, pooling="mean"))
    assert (first == found["int8"]).all()


@pytest.mark.parametrize("dtype", ["int2", "q9", "", "float16"])
def test_a_dtype_that_a_bundle_has_not_is_named(dtype, integers_of):
    with pytest.raises(InputError) as error:
        txexport.load(integers_of("bert"), dtype=dtype)
    assert str(error.value) == f"the bundle has no {dtype}, only int8, int4; export with --dtype"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            {"dtype": "int2"},
            "dtype 'int2' is not known; expected one of float32, stored, stored-fast, float16, ",
        ),
        ({"dtype": ["int8", "Q4"]}, "dtype 'Q4' is not known; expected one of"),
        ({"dtype": "stored"}, "dtype stored is for quantised checkpoints, and "),
        ({"dtype": "int8", "opset": 17}, "dtype int8 needs opset 18 or newer, not 17"),
        ({"dtype": ["float32", "int4"], "opset": 20}, "dtype int4 needs opset 21 or newer, not 20"),
        ({"dtype": "int4-128", "opset": 18}, "dtype int4-128 needs opset 21 or newer, not 18"),
        ({"dtype": ["int8", "int8"]}, "dtypes are int8, int8, expected one or more, each once"),
        ({"dtype": []}, "dtypes are none, expected one or more, each once"),
        ({"dtype": 8}, "dtype is 8, expected a text or a list of texts"),
    ],
)
def test_what_cannot_be_written_is_told_in_a_line(arguments, why, checkpoint_of, tmp_path):
    with pytest.raises(InputError) as error:
        txexport.export(checkpoint_of("bert"), tmp_path / "out", **arguments)
    assert str(error.value).startswith(why)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_the_oldest_opsets_that_have_the_operators(checkpoint_of, tmp_path):
    for dtype, opset in (("int8", 18), ("int4", 21)):
        folder = tmp_path / dtype
        txexport.export(checkpoint_of("bert"), folder, dtype=dtype, opset=opset)
        for graph in bundle.read(folder).every_graph:
            model = onnx.load(folder / graph.file, load_external_data=False)
            assert {entry.version for entry in model.opset_import if not entry.domain} == {opset}
        assert verify(folder, reference="twin", cases=[*CONTENTS, "one token"]).ok


FORMS = {
    "native": {"only": "native"},
    "hub": {"only": "hub"},
    "web": {"client": "web"},
    "openvino": {"client": "openvino"},
    "triton": {"client": "triton"},
    "single file": {"single_file": True},
    "dynamic, inline": {"cache": "dynamic", "inline": True, "only": "native"},
}
GRAPHS = {  # of gpt2 in int8
    "native": ["onnx/model_static_int8.onnx"],
    "hub": ["onnx/model_int8.onnx"],
    "web": ["onnx/model_int8.onnx"],
    "openvino": ["model_int8.onnx"],
    "triton": ["model_int8/1/model.onnx"],
    "single file": ["onnx/model_int8.onnx"],
    "dynamic, inline": ["onnx/model_dynamic_int8.onnx"],
}
DATA = {
    "native": ["onnx/model_int8.onnx_data"],
    "openvino": ["model_int8.onnx_data"],
    "triton": ["model_int8/1/model.onnx_data"],
    "single file": [],
    "dynamic, inline": ["onnx/model_int8.onnx_data"],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_it_too(form, checkpoint_of, tmp_path):
    """Each graph is the one that verify expects, and ONNX Runtime opens it in place."""
    manifest = txexport.export(checkpoint_of("gpt2"), tmp_path / "out", dtype=["int8", "int4"], **FORMS[form])
    graphs = GRAPHS[form]
    data = DATA.get(form, ["onnx/model_int8.onnx_data"])
    both = {*graphs, *data} | {name.replace("_int8", "_q4") for name in (*graphs, *data)}
    assert files(tmp_path / "out") == both
    assert [graph.file for graph in manifest.of_dtype("int8").every_graph] == graphs
    for graph in manifest.every_graph:
        ort.InferenceSession(tmp_path / "out" / graph.file, providers=["CPUExecutionProvider"])
    report = verify(tmp_path / "out", reference="twin", cases=CONTENTS)
    assert report.failed == []
    if form == "single file":
        assert settings(tmp_path / "out") == {"dtype": "int8"}


def test_a_config_names_the_first_dtype(checkpoint_of, tmp_path):
    """A program that opens a bundle by default gets that one."""
    txexport.export(checkpoint_of("gpt2"), tmp_path / "out", dtype=["int4", "float32"], client="genai")
    assert settings(tmp_path / "out")["dtype"] == "q4"
    genai = json.loads((tmp_path / "out" / "genai_config.json").read_text())
    assert genai["model"]["decoder"]["filename"] == "onnx/model_shared_q4.onnx"
    assert bundle.read(tmp_path / "out").dtype == "int4"


ROLES = {
    "bart": {
        "native": {"encoder_model": "source_static", "decoder_model": "target_static"},
        "hub": ["encoder_model", "decoder_model", "decoder_with_past_model", "decoder_model_merged"],
        "data": ["encoder_model", "decoder_model_merged"],
    },
    "clip": {
        "native": {
            "text_model": "text_native",
            "vision_model": "vision_native",
            "similarity_model": "similarity_native",
        },
        "hub": ["model", "text_model", "vision_model"],
        "data": ["model"],
    },
}


@pytest.mark.parametrize("family", ROLES)
def test_several_graphs_of_each_dtype(family, integers_of):
    folder, roles = integers_of(family), ROLES[family]
    for dtype, suffix in (("int8", "_int8"), ("int4", "_q4")):
        graphs = bundle.read(folder).formats[dtype]
        native = {role: f"onnx/{name}{suffix}.onnx" for role, name in roles["native"].items()}
        hub = {role: f"onnx/{role}{suffix}.onnx" for role in roles["hub"]}
        assert {role: graph.file for role, graph in graphs.native.items()} == native
        assert {role: graph.file for role, graph in graphs.hub.items()} == hub
        data = {name for name in bundle.read(folder).data if suffix in name}
        if family == "bart":
            assert data == {f"onnx/{role}{suffix}.onnx_data" for role in roles["data"]}
    clients = settings(folder)["use_external_data_format"]
    assert {*clients} == {f"{role}{suffix}.onnx" for role in roles["data"] for suffix in ("_int8", "_q4")}


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_tied_matrices_lie_once(dtype, integers_of):
    """gpt2's word embedding is its head, too: as a table and as a product, over the same integers."""
    [path] = [name for name in bundle.read(integers_of("gpt2")).data if DTYPES[dtype].suffix in name]
    with safe_open(integers_of("gpt2") / path, "np") as file:
        names = [*file.keys()]
        words = file.get_tensor("decoder.embedding.word.weight")
    assert (words.dtype, words.shape) == (np.int8, (311, 48))
    assert "head.weight" not in names
    assert [name for name in names if name.startswith("head")] == []


def test_a_shared_layer_lies_once(integers_of):
    """albert's layers are one."""
    numbers = stored(integers_of("albert"))
    layers = {name for name in numbers if ".layers." in name}
    assert layers
    assert {name.split(".layers.")[1].split(".")[0] for name in layers} == {"0"}


def test_a_file_is_as_long_as_its_numbers(tmp_path):
    """A quarter of float32 in int8, an eighth and its scales in int4."""
    tiny_checkpoint.save(tmp_path / "source", "llama", **SIZES)
    manifest = txexport.export(tmp_path / "source", tmp_path / "out", dtype=[*SUFFIXES], only="native")
    float32, int8, int4, wide = (data.bytes for data in manifest.data.values())
    assert 0.25 < int8 / float32 < 0.265
    assert 0.155 < int4 / float32 < 0.185  # words and head are of 8 bits
    assert 0.13 < wide / float32 < 0.16
    for path in manifest.data:
        data = (tmp_path / "out" / path).read_bytes()
        length = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:length])
        ends = [entry["data_offsets"] for entry in header.values()]
        assert max(end for _, end in ends) == len(data) - length
        for name, entry in header.items():
            if entry["dtype"] == "F32":
                assert (length + entry["data_offsets"][0]) % 4 == 0, name


def edited(folder: Path, to: Path, change) -> Path:
    """A copy of a bundle with another txexport.json."""
    shutil.copytree(folder, to)
    values = json.loads((to / "txexport.json").read_text())
    change(values)
    (to / "txexport.json").write_text(json.dumps(values))
    return to


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["form"].update(dtypes=["int8"]),
        lambda values: values["form"].update(dtypes=[]),
        lambda values: values["form"].update(dtypes=["int8", "int8"]),
        lambda values: values["form"].update(dtypes=["int8", "int3"]),
        lambda values: values["form"].update(dtypes="int8"),
        lambda values: values["formats"].pop("int4"),
        lambda values: values["formats"].update(int3=values["formats"]["int4"]),
        lambda values: values["formats"]["int4"].pop("hub"),
        lambda values: values["formats"]["int4"]["native"].clear(),
    ],
)
def test_dtypes_that_do_not_fit_the_graphs_are_damage(change, integers_of, tmp_path):
    folder = edited(integers_of("bert"), tmp_path / "copy", change)
    with pytest.raises(BundleError, match=r"txexport\.json is damaged: .*; export again$"):
        txexport.load(folder)


def test_a_dtype_s_graphs_are_not_another_s(integers_of, tmp_path):
    def exchanged(values):
        one, other = (values["formats"][name]["native"]["model"] for name in ("int8", "int4"))
        one["file"], other["file"] = other["file"], one["file"]
        one["sha256"], other["sha256"] = other["sha256"], one["sha256"]

    folder = edited(integers_of("bert"), tmp_path / "copy", exchanged)
    [case] = verify(folder, reference="twin", cases=["exported graphs"]).failed
    assert "native graphs are {'model': 'onnx/model_native_q4.onnx'}, expected" in case.exception
