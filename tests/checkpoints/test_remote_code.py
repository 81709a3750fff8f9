"""A checkpoint's own code never runs, even if the user answers "y": at export, in verify, or later."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch

import txexport
from txexport.checkpoints import transformers_loading
from txexport.errors import TxexportError
from txexport.verification import verify

PLANTED = """
import pathlib
pathlib.Path(MARKER).touch()
from transformers import BertConfig as Config, BertModel as Model, BertTokenizer as Tokenizer
from transformers import BertForMaskedLM as Head
Processor = Extractor = Image = Tokenizer
def generate(*args, **kwargs):
    pathlib.Path(MARKER).touch()
"""
CODES = {
    "AutoConfig": "planted.Config",
    "AutoModel": "planted.Model",
    "AutoModelForCausalLM": "planted.Head",
    "AutoModelForMaskedLM": "planted.Head",
    "AutoTokenizer": ["planted.Tokenizer", "planted.Tokenizer"],
    "AutoProcessor": "planted.Processor",
    "AutoFeatureExtractor": "planted.Extractor",
    "AutoImageProcessor": "planted.Image",
}
FILES = [
    "config.json",
    "tokenizer_config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "generation_config.json",
]


def plant(folder: Path, marker: Path, files=FILES, **config) -> Path:
    """`folder` with code in every place where transformers looks for it, all of which touches `marker`."""
    code = PLANTED.replace("MARKER", repr(str(marker)))
    for name in ("planted.py", "modeling.py", "tokenization.py", "custom_generate/generate.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    for name in files:
        file = folder / name
        values = json.loads(file.read_text()) if file.is_file() else {}
        values |= {"auto_map": CODES, "custom_generate": "planted"} | (
            config if name == "config.json" else {}
        )
        file.write_text(json.dumps(values))
    return folder


@pytest.fixture
def run(monkeypatch):
    """A function that runs everything that imports transformers, with "y" as the answer to any prompt.

    It returns the completed calls, and the errors of the rest.
    """
    monkeypatch.setattr("builtins.input", lambda *asked: "y")

    def attempt(folder: Path, out: Path, torch_onnx: bool = False) -> str:
        said: list[str] = []

        def step(name: str, call) -> None:
            try:
                call()
                said.append(name)
            except TxexportError as error:
                said.append(f"{name}: {error}")

        step("export", lambda: txexport.export(folder, out))
        step("inspect", lambda: txexport.inspect(folder))
        if said[0] == "export":
            step(
                "verify", lambda: verify(out, reference="transformers", cases="quick", torch_onnx=torch_onnx)
            )
            step("inspect bundle", lambda: txexport.inspect(out))
            model = txexport.load(out, device="cpu")
            step("embed", lambda: model.embed("the cat"))
            step("generate", lambda: model.generate("the cat", max_new_tokens=2))
        return ", ".join(said)

    return attempt


def made(folder: Path, kind: str) -> Path:
    """A tiny checkpoint whose tokenizer only transformers can make."""
    tiny_checkpoint.save(folder, kind)
    (folder / "tokenizer.json").unlink()
    words = sorted((vocab := tiny_tokenizers.wordpiece().get_vocab()), key=vocab.get)
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    return folder


CASES = {
    "code beside what is known": ("bert", FILES[1:], {}, "export, inspect, verify"),
    "a tokenizer of a class that nobody has": (
        "bert",
        FILES[1:],
        {"tokenizer_class": "PlantedTokenizer"},
        "export, inspect, verify",
    ),
    "a family whose tokenizer transformers does not know": (
        "bloom",
        FILES[1:],
        {},
        "export, inspect, verify",
    ),
    "code for what is known": ("bert", FILES, {}, "auto_map names code"),
    "a family published with code": ("phi3", FILES, {}, "export, inspect, verify"),
    "a model_type that nobody has": ("bert", FILES, {"model_type": "planted"}, "model_type 'planted'"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_planted_code_never_runs(case, run, tmp_path):
    kind, files, config, said = CASES[case]
    marker = tmp_path / "it ran"
    folder = plant(made(tmp_path / "in", kind), marker, files, **config)
    if "tokenizer_class" in config:
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | config))
    output = run(folder, tmp_path / "out", torch_onnx=case == "code beside what is known")
    assert said in output, output
    assert not marker.exists()


def test_the_plant_would_run_if_asked(tmp_path):
    """Else the tests above could not fail."""
    marker = tmp_path / "it ran"
    folder = plant(made(tmp_path / "in", "bert"), marker)
    ask = "import sys, transformers; transformers.AutoTokenizer.from_pretrained(sys.argv[1])"
    env = os.environ | {"HF_HOME": str(tmp_path), "HF_MODULES_CACHE": str(tmp_path / "modules")}
    values = json.loads((folder / "config.json").read_text()) | {"model_type": "planted"}
    (folder / "config.json").write_text(json.dumps(values))
    subprocess.run([sys.executable, "-c", ask, str(folder)], input="y\n" * 9, text=True, env=env, timeout=300)
    assert marker.exists()


def test_the_door_cannot_be_opened(tmp_path):
    """Whatever options a caller passes on."""
    marker = tmp_path / "it ran"
    folder = plant(made(tmp_path / "in", "bert"), marker, model_type="planted")
    for kind in ("AutoConfig", "AutoTokenizer", "AutoModel"):
        with pytest.raises(ValueError, match="custom code"):
            transformers_loading.from_pretrained(kind, folder, trust_remote_code=True, local_files_only=False)
    assert not marker.exists()


def test_transformers_is_called_through_that_door_alone():
    """Also by tools and training: a second entry point would have to refuse code by itself."""
    root = Path(txexport.__file__).parents[1]
    files = [file for part in ("txexport", "models", "tools") for file in (root / part).rglob("*.py")]
    other = re.compile(r"(?<!transformers_loading)\.from_pretrained\((?!FOLDER\))")  # which is advice
    calls = {file.name for file in files if other.search(file.read_text("utf-8"))}
    # The others call optimum's of bundles, with the same answer, and the clients in processes of their own.
    assert calls == {
        *("transformers_loading.py", "text_workers.py", "speech_workers.py", "vision_workers.py"),
        "image_text_workers.py",
        *("optimum_client.py", "openvino_client.py"),
    }


class Pickled:
    """Touches a file when it is unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_pickled_weights_run_nothing(checkpoint_of, run, tmp_path):
    """Safetensors beside them are read, by a reference too; without those, the error names their content.

    config.json may name other weights than those that are exported.
    """
    marker, folder = tmp_path / "it ran", shutil.copytree(checkpoint_of("bert"), tmp_path / "in")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Pickled(marker)))
    values = json.loads((folder / "config.json").read_text())
    for extra in ({}, {"transformers_weights": "pytorch_model.bin"}):
        (folder / "config.json").write_text(json.dumps(values | extra))
        output = run(folder, tmp_path / f"out{len(extra)}")
        assert ("transformers_weights" if extra else "export, inspect, verify") in output
    (folder / "model.safetensors").unlink()
    (folder / "config.json").write_text(json.dumps(values))
    for protocol, said in ((2, "it holds __builtin__.getattr, "), (4, "of protocol 4")):
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Pickled(marker), protocol))
        assert said in run(folder, tmp_path / "none")
        for legacy in (True, False):
            state = {"x": torch.ones(3), "y": Pickled(marker)}
            torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
            assert "it holds " in (output := run(folder, tmp_path / "none"))
            assert "nothing in it is run" in output
    assert not marker.exists()


def test_pickled_arrays_are_never_read(checkpoint_of, tmp_path):
    """Of a dense layer over sentence vectors."""
    marker, out = tmp_path / "it ran", tmp_path / "out"
    txexport.export(checkpoint_of("bert"), out, task="feature-extraction")
    (out / "1_Pooling").mkdir()
    (out / "2_Dense").mkdir()
    (out / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (out / "2_Dense/config.json").write_text('{"in_features": 48, "out_features": 48}')
    modules = [{"type": "x.Pooling", "path": "1_Pooling"}, {"type": "x.Dense", "path": "2_Dense"}]
    (out / "modules.json").write_text(json.dumps(modules))
    np.savez(out / "2_Dense/dense.npz", weight=np.array([Pickled(marker)], object))
    with pytest.raises(txexport.TxexportError):
        txexport.load(out, device="cpu").embed("the cat")
    assert not marker.exists()
