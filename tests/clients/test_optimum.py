"""optimum-onnx loads a bundle as it is: outputs, texts and pipelines are those of transformers."""

import numpy as np
import pytest
from helpers import hub
from helpers.client_rows import (
    DECODERS,
    ENCODER_HEADS,
    SEQ2SEQ,
    WHISPER,
    assert_outputs,
    assert_same,
    forward_inputs,
    generate_inputs,
    generate_settings,
    pipeline_inputs,
    rows_of,
    sequences,
)
from helpers.rows import (
    ANSWER,
    CHOOSE,
    CLASSIFY,
    DESCRIBE,
    FEATURES,
    FILL,
    GENERATE,
    HEAR,
    LABEL,
    MATCH,
    SOUNDS,
    TAG,
    TRANSLATE,
)

from txexport.verification.clients.process import Call, Process

CLIENT = "optimum"
HEADS = (FEATURES, FILL, CLASSIFY, TAG, ANSWER, CHOOSE)
ENCODERS = [*rows_of(ENCODER_HEADS, HEADS), *rows_of(("vit",), (LABEL,)), *rows_of(("clip",), (MATCH,))]
HEARING = rows_of(("audio-spectrogram-transformer", "whisper"), (SOUNDS,))
TEXTS = [*rows_of(DECODERS, (GENERATE,)), *rows_of(SEQ2SEQ, (TRANSLATE,))]
GENERATING = [
    *TEXTS,
    WHISPER,
    *rows_of(("moonshine", "speech_to_text"), (HEAR,)),
    *rows_of(("vision-encoder-decoder",), (DESCRIBE,)),
]
MERGED, SEPARATE = {}, {"use_merged": False}


@pytest.mark.parametrize("row", [*ENCODERS, *HEARING, *GENERATING], ids=lambda row: row.id)
def test_outputs_equal_transformers(row, exported, process, record):
    record(row, "outputs")
    files, inputs = exported(row), forward_inputs(row)
    [answer] = process.ask(files.bundle, row.task, [Call("forward", inputs)])
    assert_outputs(row, files.checkpoint, inputs, answer)


@pytest.mark.parametrize("row", GENERATING, ids=lambda row: row.id)
def test_greedy_and_beam_tokens_equal_transformers(row, exported, process, record):
    """A batch of unequal lengths; encoder-decoders by the merged decoder, then by the two others."""
    record(row, "greedy, 3 beams")
    files, inputs = exported(row), generate_inputs(row)
    ways = (MERGED,) if row.task == GENERATE else (MERGED, SEPARATE)
    cases = [(generate_settings(row, beams), loading) for loading in ways for beams in (1, 3)]
    calls = [
        Call("generate", inputs, {"settings": settings, "loading": loading}) for settings, loading in cases
    ]
    for (settings, _), answer in zip(cases, process.ask(files.bundle, row.task, calls), strict=True):
        expected = sequences(row, files.checkpoint, inputs, settings)
        np.testing.assert_array_equal(answer["sequences"], expected)


@pytest.mark.parametrize("row", [ENCODERS[0], *TEXTS[:1], *TEXTS[-1:], WHISPER], ids=lambda row: row.id)
def test_outputs_from_a_hub(row, exported, process, record, tmp_path):
    """Only what it downloads is there: each graph that it opens brings its own weights."""
    record(row, "from a hub")
    files, inputs = exported(row), forward_inputs(row)
    with hub.serve({"org/model": files.bundle}) as served:
        settings = {"HF_ENDPOINT": served.url, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
        with Process(process.client, settings={**settings, "TRANSFORMERS_OFFLINE": "0"}) as online:
            [answer] = online.ask("org/model", row.task, [Call("forward", inputs)])
            assert_outputs(row, files.checkpoint, inputs, answer)
        assert any(name.endswith("onnx_data") for name in served.fetched("org/model"))


@pytest.mark.parametrize(
    "row", [row for row in [*ENCODERS, *TEXTS] if row.task not in (CHOOSE, MATCH)], ids=lambda row: row.id
)
def test_pipeline_answers_as_with_the_checkpoint(row, exported, process, record, tmp_path):
    record(row, "pipeline")
    files = exported(row)
    inputs, settings = pipeline_inputs(row, tmp_path)
    options = {"inputs": inputs, "settings": settings, "checkpoint": str(files.checkpoint)}
    [answer] = process.ask(files.bundle, row.task, [Call("pipelines", {}, options)])
    assert_same(answer["answer"], answer["expected"])
