"""A model in memory is exported like the folder that it saves, and temporary files are removed."""

import json
from pathlib import Path
from typing import ClassVar

import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers

import txexport
from txexport.errors import BundleError, CheckpointError, InputError
from txexport.verification import verify


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# BERT's head is tied, Mixtral's experts are laid out in memory otherwise than in files.
@pytest.mark.parametrize(
    ("model_type", "architecture"), [("bert", "BertForMaskedLM"), ("mixtral", "MixtralForCausalLM")]
)
def test_the_bundle_is_that_of_the_saved_folder(model_type, architecture, tmp_path):
    model = tiny_checkpoint.build(model_type, architecture)
    tokenizer = tiny_tokenizers.wordpiece()
    for one in (model, tokenizer):
        one.save_pretrained(tmp_path / "saved")
    txexport.export(tmp_path / "saved", tmp_path / "expected")
    manifest = txexport.export(model, tmp_path / "out", tokenizer=tokenizer)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "out", "saved"]
    assert manifest.source.path == architecture
    ours, theirs = contents(tmp_path / "out"), contents(tmp_path / "expected")
    texts = [json.loads(one.pop("txexport.json")) for one in (ours, theirs)]
    assert ours == theirs
    paths = [text["source"].pop("path") for text in texts]
    assert paths == [architecture, "../saved"]
    assert texts[0] == texts[1]
    assert "tokenizer.json" in ours
    assert verify(tmp_path / "out", source=tmp_path / "saved", cases="quick").ok
    with pytest.raises(CheckpointError, match=f"is missing: '{architecture}'; give the exported"):
        verify(tmp_path / "out")


def test_nothing_is_left_of_an_export_that_fails(tmp_path):
    model = tiny_checkpoint.build("bert")
    with pytest.raises(txexport.TxexportError, match="task 'text-generation' is not supported"):
        txexport.export(model, tmp_path / "new/out", task="text-generation")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    model = tiny_checkpoint.build("bert")
    monkeypatch.setattr(model, "save_pretrained", lambda folder: pytest.fail("it was written"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/file").touch()
    with pytest.raises(BundleError, match="exists and is not a bundle"):
        txexport.export(model, tmp_path / "out")


def test_options_of_the_other_kind_of_source(checkpoint_of, tmp_path):
    model, tokenizer = tiny_checkpoint.build("bert"), tiny_tokenizers.wordpiece()
    with pytest.raises(InputError, match=r"tokenizer is for a model in memory, and '.*' is a path"):
        txexport.export(checkpoint_of("bert"), tmp_path / "out", tokenizer=tokenizer)
    with pytest.raises(InputError, match="absolute_source is for a checkpoint on disk"):
        txexport.export(model, tmp_path / "out", absolute_source=True)
    with pytest.raises(InputError, match="source is 3, expected a text or a path or PreTrainedModel"):
        txexport.export(3, tmp_path / "out")


class PeftModel:
    """A PeftModel, which saves only its adapter."""

    peft_config: ClassVar[dict] = {}

    def merge_and_unload(self):
        """Return the merged model."""

    def save_pretrained(self, folder):
        """Write the adapter."""
        (folder / "adapter_config.json").write_text("{}")


class Adapted(PeftModel):
    """A model of transformers with an adapter added by add_adapter, which has no merge_and_unload."""

    merge_and_unload = property()


def on_meta():
    with torch.device("meta"):
        return tiny_checkpoint.build("bert")


REFUSED = {
    "a model of peft": (PeftModel, "source is a PeftModel of peft, which saves only its adapter"),
    "a model with an adapter": (
        Adapted,
        "the Adapted has an adapter of peft, and saves only that; give the result",
    ),
    "a class": (
        lambda: transformers.BertForMaskedLM,
        r"the class BertForMaskedLM, expected an instance, such as BertForMaskedLM.from_pretrained\(FOLDER\)",
    ),
    "a class of classes": (lambda: transformers.AutoModel, "AutoModel'>, expected a text or a path or Pre"),
    "without numbers": (
        on_meta,
        r"\d+ parameters of the Bert\w+ have no values, such as '.*': they are on the dev",
    ),
    "a tokenizer": (
        tiny_tokenizers.wordpiece,
        r"whose save_pretrained writes tokenizer\w*.json.*; expected a m",
    ),
    "a config": (transformers.BertConfig, "the BertConfig in memory"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_model_with_numbers_is_told_by_its_reason(kind, tmp_path):
    source, message = REFUSED[kind]
    with pytest.raises(txexport.TxexportError, match=message) as raised:
        txexport.export(source(), tmp_path / "out")
    assert str(tmp_path) not in str(raised.value)
    assert ".out." not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_errors_name_the_model_and_no_folder_that_is_gone(tmp_path, monkeypatch):
    """Errors of any kind, for any output folder."""
    monkeypatch.chdir(tmp_path)
    model = tiny_checkpoint.build("bert", "BertForMaskedLM")
    for wrong in ({"hidden_act": "novel"}, {"hidden_size": 7}, {"model_type": "bert2"}):
        model.config.to_dict = lambda wrong=wrong: transformers.BertConfig().to_dict() | wrong
        monkeypatch.setattr(
            type(model.config), "to_json_string", lambda self, **_: json.dumps(self.to_dict())
        )
        for out in (tmp_path / "out", "out", Path("new/out")):
            with pytest.raises(txexport.TxexportError) as raised:
                txexport.export(model, out)
            assert ".out." not in str(raised.value)


@pytest.mark.parametrize("dtype", ["float32,int8", ["float32", "int8"]])
def test_dtypes_are_named_as_on_the_command_line(checkpoint_of, tmp_path, dtype):
    manifest = txexport.export(checkpoint_of("bert"), tmp_path / "out", dtype=dtype, only="native")
    assert list(manifest.formats) == ["float32", "int8"]
    with pytest.raises(InputError, match="int9"):
        txexport.export(checkpoint_of("bert"), tmp_path / "other", dtype="float32,int9")
