"""A model in memory is exported as the folder that it saves itself to, and nothing of it is left behind."""

import json
from pathlib import Path

import pytest
import tiny_checkpoint
import tiny_tokenizers

import txexport
from txexport.errors import BundleError, CheckpointError, InputError
from txexport.verification import verify


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# BERT's head is tied, Mixtral's experts lie in memory otherwise than in files.
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
    with pytest.raises(CheckpointError, match=f"is not there: '{architecture}'; say where"):
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
