"""A tokenizer that no text could pass is refused at export, or told of."""

import json
import re
import shutil

import pytest
import tiny_checkpoint
import tiny_tokenizers

from txexport import export
from txexport.errors import CheckpointError

DAMAGED = {
    "cut off": ("{", "tokenizer.json cannot be read as JSON"),
    "empty": ("", "tokenizer.json cannot be read as JSON"),
    "a list": ("[]", "tokenizer.json is [], expected an object; save the tokenizer again"),
    "null": ("null", "tokenizer.json is None, expected an object"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny_checkpoint.save(folder, "bert")
    tiny_tokenizers.wordpiece().save_pretrained(folder)
    return folder


@pytest.fixture
def checkpoint(written, tmp_path):
    return shutil.copytree(written, tmp_path / "in")


@pytest.mark.parametrize(("content", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_tokenizer_is_refused(content, message, checkpoint, tmp_path):
    (checkpoint / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=re.escape(message)):
        export(checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_for_other_versions_is_told_of(checkpoint, tmp_path):
    (checkpoint / "tokenizer.json").write_text('{"model": {"type": "Newer"}}', encoding="utf-8")
    with pytest.warns(UserWarning, match=r"cannot be read by tokenizers .*; the bundle reads token ids only"):
        export(checkpoint, tmp_path / "out")


@pytest.mark.parametrize("length", ["x", 0, True, 1.5])
def test_a_limit_that_is_no_number_is_refused(length, checkpoint, tmp_path):
    file = checkpoint / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(settings | {"model_max_length": length}), encoding="utf-8")
    message = f"model_max_length is {length!r}, expected a whole number of at least 1; correct it and export"
    with pytest.raises(CheckpointError, match=re.escape(message)):
        export(checkpoint, tmp_path / "out")
