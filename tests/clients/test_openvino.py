"""optimum-intel converts a bundle's graphs as they are: outputs and texts are those of transformers."""

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
from helpers.rows import ANSWER, CLASSIFY, FEATURES, FILL, GENERATE, LABEL, MATCH, TAG, TRANSLATE

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
