"""optimum-intel opens a bundle's graphs, and models of `to_openvino`: results are those of transformers."""

import json

import numpy as np
import pytest
from helpers.client_rows import (
    DECODERS,
    ENCODER_HEADS,
    SEQ2SEQ,
    WHISPER,
    assert_outputs,
    forward_inputs,
    generate_inputs,
    generate_settings,
    rows_of,
    sequences,
)
from helpers.rows import ANSWER, CLASSIFY, FEATURES, FILL, GENERATE, LABEL, MATCH, ROWS, TAG, TRANSLATE

from txexport.exporter import to_openvino
from txexport.exporter.openvino_model import WITHOUT_POSITIONS
from txexport.verification.clients.process import Call

CLIENT = "openvino"
HEADS = (FEATURES, FILL, CLASSIFY, TAG, ANSWER)
ENCODERS = [*rows_of(ENCODER_HEADS, HEADS), *rows_of(("vit",), (LABEL,)), *rows_of(("clip",), (MATCH,))]
GENERATING = [*rows_of(DECODERS, (GENERATE,)), *rows_of(SEQ2SEQ, (TRANSLATE,)), WHISPER]


@pytest.mark.parametrize("row", [*ENCODERS, *GENERATING], ids=lambda row: row.id)
def test_outputs_equal_transformers(row, exported, process, record):
    record(row, "outputs")
    files, inputs = exported(row), forward_inputs(row)
    [answer] = process.ask(files.bundle, row.task, [Call("forward", inputs)])
    assert_outputs(row, files.checkpoint, inputs, answer)


@pytest.mark.parametrize("row", GENERATING, ids=lambda row: row.id)
def test_greedy_and_beam_tokens_equal_transformers(row, exported, process, record):
    """A batch of unequal lengths."""
    record(row, "greedy, 3 beams")
    files, inputs = exported(row), generate_inputs(row)
    settings = [generate_settings(row, beams) for beams in (1, 3)]
    calls = [Call("generate", inputs, {"settings": each}) for each in settings]
    for each, answer in zip(settings, process.ask(files.bundle, row.task, calls), strict=True):
        np.testing.assert_array_equal(answer["sequences"], sequences(row, files.checkpoint, inputs, each))


# The client's transformers does not know these types, or reads another config.json.
UNREAD = (
    *("cohere2_moe", "dbrx", "exaone", "granite_swa", "granitemoe_swa", "hyperclovax", "internlm3"),
    *("iquestcoder", "kimi_linear", "lfm3", "mellum", "minicpm3"),
)
REFUSED = ("zamba2",)
ALONE = ("recurrent_gemma", "rwkv")  # padding changes their answers in transformers
DECODER_TYPES = dict.fromkeys(row.model_type for row in ROWS if row.task == GENERATE)


@pytest.mark.parametrize(
    "row", rows_of(DECODER_TYPES.keys() - {*UNREAD, *REFUSED}, (GENERATE,)), ids=lambda row: row.id
)
def test_tokens_of_models_with_variables_equal_transformers(row, exported, process, record, tmp_path):
    """A batch of unequal lengths, without caches in transformers, some of whose are wrong (RWKV's).

    The client's class for states does not reorder them by beams.
    """
    files, inputs = exported(row, "openvino"), generate_inputs(row)
    model_type = json.loads((files.bundle / "config.json").read_text())["model_type"]
    beams = (1,) if model_type in WITHOUT_POSITIONS else (1, 3)
    record(row, "OpenVINO's format: greedy" + (", 3 beams" if 3 in beams else ""))
    if row.model_type in ALONE:
        inputs = {"input_ids": inputs["input_ids"][:1], "attention_mask": inputs["attention_mask"][:1]}
    to_openvino(files.bundle, tmp_path / "model")
    settings = [generate_settings(row, each) for each in beams]
    calls = [Call("generate", inputs, {"settings": each}) for each in settings]
    for each, answer in zip(settings, process.ask(tmp_path / "model", row.task, calls), strict=True):
        expected = sequences(row, files.checkpoint, inputs, each | {"use_cache": False})
        np.testing.assert_array_equal(answer["sequences"], expected)
