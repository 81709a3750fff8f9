"""Checkpoints by name, from a local hub: files fetched, the bundle's metadata, errors."""

import json
import shutil
import socket
import sys
from pathlib import Path

import huggingface_hub
import pytest
import tiny_adapter
from click.testing import CliRunner
from helpers.hub import Repository, serve
from helpers.mms import ADAPTERS, save_mms

import txexport
from txexport import bundle
from txexport.checkpoints.hub import wanted
from txexport.cli.main import main
from txexport.errors import CheckpointError, MissingLibraryError

NAME = "org/tiny-bert.v2"
MORE = (
    "README.md",
    "tf_model.h5",
    "onnx/model.onnx",
    "pytorch_model.bin",
    "1_Pooling/config.json",
    "a[1].txt",
)


def ask(monkeypatch, url: str) -> None:
    """Point the library to the hub at `url`, as HF_ENDPOINT does before it is imported."""
    template = "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", url + template)


@pytest.fixture
def hub(checkpoint_of, tmp_path, monkeypatch):
    """A hub with a tiny BERT and the other files of a published repository."""
    folder = shutil.copytree(checkpoint_of("bert"), tmp_path / "repository")
    for name in MORE:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with serve({NAME: folder}) as result:
        ask(monkeypatch, result.url)
        result.folder = folder
        yield result


def test_a_name_is_exported_as_its_folder_is(hub, tmp_path):
    """Only files that export reads are fetched; a second export fetches none again."""
    manifest = txexport.export(NAME, "by-name")
    left = {"README.md", "tf_model.h5", "onnx/model.onnx", "pytorch_model.bin"}
    assert hub.fetched(NAME) == sorted(
        {str(p.relative_to(hub.folder)) for p in hub.folder.rglob("*.*")} - left
    )
    commit = huggingface_hub.HfApi(endpoint=hub.url).model_info(NAME).sha
    assert (manifest.source.path, manifest.source.repository) == (NAME, NAME)
    assert manifest.source.revision == commit
    own = txexport.export(hub.folder, "by-folder")
    for name in own.files:
        if name != bundle.MANIFEST:
            assert Path("by-name", name).read_bytes() == Path("by-folder", name).read_bytes(), name
    assert (own.source.repository, own.source.revision) == (None, None)
    hub.requests.clear()
    again = txexport.export(f"{NAME}@{commit}", "again")
    assert again.source == manifest.source
    assert [
        request for request in hub.requests if request.method == "GET" and "resolve" in request.path
    ] == []


def test_of_the_languages_of_mms_one_is_fetched(hub, tmp_path, monkeypatch):
    save_mms(tmp_path / "mms")
    with serve({"org/mms": tmp_path / "mms"}) as mms:
        ask(monkeypatch, mms.url)
        txexport.export("org/mms", "out", language="fra", only="native")
        assert ADAPTERS["fra"] in mms.fetched("org/mms")
        assert ADAPTERS["azj-script_latin"] not in mms.fetched("org/mms")
        with pytest.raises(txexport.TxexportError, match="org/mms has no adapter of the language 'deu'; exp"):
            txexport.export("org/mms", "other", language="deu", only="native")


def test_its_bundle_is_proved_and_quantised_by_what_the_hub_has(hub):
    txexport.export(NAME, "out")
    assert txexport.verify("out", cases="quick", reference="twin").ok
    assert txexport.quantize("out", "int8").source.repository == NAME
    shutil.rmtree("cache")
    assert txexport.verify("out", cases="quick", reference="twin").ok
    config = hub.folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"layer_norm_eps": 0.1}))
    shutil.rmtree("cache")
    hub.repositories[NAME].__dict__.clear()
    hub.repositories[NAME].__init__(NAME, hub.folder)
    with pytest.raises(CheckpointError, match="has no revision"):
        txexport.verify("out", cases="quick", reference="twin")


def test_without_a_network_what_came_before_is_read(hub, monkeypatch):
    txexport.export(NAME, "first")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ask(monkeypatch, f"http://127.0.0.1:{closed.getsockname()[1]}")
        assert txexport.export(NAME, "second").source.repository == NAME
        shutil.rmtree("cache")
        with pytest.raises(CheckpointError, match=f"hf download {NAME} --local-dir FOLDER"):
            txexport.export(NAME, "third")
    assert not Path("third").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("org/none", "'org/none' is not a folder, and not a visible model on the hub"),
        (f"{NAME}@other", f"{NAME} has no revision 'other' on the model hub"),
        (
            "repository/none",
            "repository/none is not a folder, and not a name on a model hub, since there is a"
            " 'repository' here",
        ),
        ("../org/none", "is not a folder"),
        ("org", "org is not a folder"),
        ("org/none/more", "is not a folder"),
    ],
)
def test_names_that_lead_nowhere_are_one_line(name, said, hub):
    with pytest.raises(CheckpointError, match=said) as caught:
        txexport.export(name, "out")
    assert "\n" not in str(caught.value)


def test_a_folder_goes_before_a_name(hub, checkpoint_of):
    shutil.copytree(checkpoint_of("gpt2"), NAME)
    assert txexport.export(NAME, "out").model_type == "gpt2"
    assert hub.requests == []


def test_without_its_library_the_extra_is_named(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        MissingLibraryError, match=r"to take it from a model hub needs huggingface_hub.*\[hub\]"
    ):
        txexport.export(NAME, "out")


ADAPTER = "org/tiny-adapter"


@pytest.fixture
def adapters(hub, checkpoint_of, tmp_path):
    """The hub with a LoRA adapter of that BERT too, and the other files of its repository."""
    base = checkpoint_of("bert")
    folder = tiny_adapter.write(tmp_path / "lora", tiny_adapter.lora(base, "query", "value"))
    for name in ("README.md", "optimizer.pt", "adapter_model.bin", "tokenizer.json"):
        (folder / name).write_text("{}")
    hub.repositories[ADAPTER] = Repository(ADAPTER, folder)
    hub.adapter = folder
    return hub


def test_an_adapter_by_its_name_is_merged_as_its_folder_is(adapters, tmp_path):
    manifest = txexport.export(NAME, "by-name", adapter=ADAPTER)
    assert adapters.fetched(ADAPTER) == ["adapter_config.json", "adapter_model.safetensors"]
    commit = adapters.repositories[ADAPTER].commit
    assert manifest.source.adapter == f"{ADAPTER}@{commit}"
    by_folder = txexport.export(adapters.folder, "by-folder", adapter=adapters.adapter)
    assert manifest.source.sha256 == by_folder.source.sha256
    for name in by_folder.data:
        assert Path("by-name", name).read_bytes() == Path("by-folder", name).read_bytes()
    assert f"with the adapter {ADAPTER}@{commit}" in " ".join(
        CliRunner().invoke(main, ["inspect", "by-name"]).output.split()
    )
    shutil.rmtree("cache")
    assert txexport.verify("by-name", cases="quick", reference="twin").ok
    assert txexport.quantize("by-name", "int8").source.adapter == manifest.source.adapter
    words = ["export", str(adapters.folder), "command", "--adapter", f"{ADAPTER}@{commit}", "--json"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert bundle.read("command").source.adapter == manifest.source.adapter


def test_without_a_network_an_adapter_that_came_before_is_read(adapters, monkeypatch):
    first = txexport.export(adapters.folder, "first", adapter=ADAPTER)
    ask(monkeypatch, "http://127.0.0.1:9")
    assert txexport.export(adapters.folder, "second", adapter=ADAPTER).source == first.source
    shutil.rmtree("cache")
    with pytest.raises(CheckpointError, match=f"'{ADAPTER}' is not a folder, and the model hub cannot be"):
        txexport.verify("first", cases="quick")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("org/none", "'org/none' is not a folder, and not a visible model on the hub"),
        (f"{ADAPTER}@other", f"{ADAPTER} has no revision 'other' on the model hub"),
        (NAME, f"{NAME} is not an adapter: it lacks adapter_config.json with adapter_model.safetensors or "),
        ("lora/other", "lora/other is not a folder, and not a name on a model hub, since "),
        ("other", "other has no adapter_config.json"),
    ],
)
def test_names_of_adapters_that_lead_nowhere_are_one_line(name, said, adapters):
    with pytest.raises(CheckpointError, match=said) as caught:
        txexport.export(adapters.folder, "out", adapter=name)
    assert "\n" not in str(caught.value)


SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
LANGUAGE_MODEL = ["language_model/attrs.json", "language_model/unigrams.txt", "language_model/5gram.bin"]
NOTES = ["language_model/notes.md"]
OLD = ["pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"]


@pytest.mark.parametrize(
    ("files", "left"),
    [
        (["config.json", "model.safetensors", "pytorch_model.bin", *OLD], ["pytorch_model.bin", *OLD]),
        (["config.json", *SHARDS, "model.safetensors.index.json", *OLD, "consolidated.safetensors"], None),
        (["config.json", *OLD], []),
        (["model.safetensors", "artifact.metadata", "vocab.txt"], []),
        (["model.safetensors", "2_Dense/pytorch_model.bin", "2_Dense/config.json", "2_Dense/rust.ot"], None),
        (["pytorch_model.bin", "vocab.txt", "spiece.model", "chat_template.jinja", "modeling_x.py"], None),
        (["pytorch_model.bin", "alphabet.json", *LANGUAGE_MODEL, "language_model/notes.md"], NOTES),
        (["pytorch_model.bin", *LANGUAGE_MODEL], LANGUAGE_MODEL),
    ],
)
def test_files_that_are_wanted(files, left):
    if left is None:
        left = [*OLD, "consolidated.safetensors", "2_Dense/rust.ot", "modeling_x.py"]
    assert sorted(wanted(files, NAME)) == sorted(set(files) - set(left))


def test_a_repository_without_weights_that_are_read_is_refused():
    with pytest.raises(
        CheckpointError, match=r"has no model\.safetensors or pytorch_model\.bin, only \.gguf"
    ):
        wanted(["README.md", "config.json", "model.Q4_0.gguf"], NAME)
