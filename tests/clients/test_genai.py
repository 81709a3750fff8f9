"""onnxruntime-genai loads a bundle by its genai_config.json: tokens are those of transformers."""

from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
from helpers.client_rows import (
    LENGTHS,
    NEW_TOKENS,
    TOLERANCE,
    WHISPER,
    forward_inputs,
    forward_outputs,
    generate_settings,
    ids_of,
    rows_of,
    sequences,
)
from helpers.rows import GENERATE
from tokenizers import Tokenizer

from txexport.verification.clients.process import Call

CLIENT = "genai"
DECODERS = rows_of(("gpt2", "llama", "qwen2", "qwen3", "mistral", "phi", "phi3", "gemma2"), (GENERATE,))
START = tiny_checkpoint.WHISPER["decoder_start_token_id"]
PADDING, END = (tiny_checkpoint.IDS[name] for name in ("pad_token_id", "eos_token_id"))
PROMPT = max(LENGTHS)


def prompts() -> np.ndarray:
    """(B,S) ids, the shorter padded on the right, as it takes them."""
    ids = ids_of((len(LENGTHS), PROMPT))
    for row, length in zip(ids, LENGTHS, strict=True):
        row[length:] = PADDING
    return ids


def ended(ids: list[int], start: int) -> list[int]:
    """Ids before the first end after `start`: the end itself is not among what it gives."""
    return ids[: ids.index(END, start)] if END in ids[start:] else ids


def settings_of(beams: int, length: int) -> dict[str, Any]:
    """Settings for texts of `length` tokens."""
    return {"max_length": length, "do_sample": False, "num_beams": beams}


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.id)
def test_outputs_equal_transformers(row, exported, process, record):
    record(row, "outputs")
    files, ids = exported(row), ids_of((len(LENGTHS), PROMPT))
    [answer] = process.ask(files.bundle, row.task, [Call("logits", {"input_ids": ids})])
    expected = forward_outputs(row, files.checkpoint, {"input_ids": ids})["logits"]
    np.testing.assert_allclose(answer["logits"], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.id)
def test_greedy_and_beam_tokens_equal_transformers(row, exported, process, record):
    """A batch of unequal lengths, each of which transformers continues alone."""
    record(row, "greedy, 3 beams")
    files, ids, beams = exported(row), prompts(), (1, 3)
    calls = [
        Call("generate", {"input_ids": ids}, {"settings": settings_of(each, PROMPT + NEW_TOKENS)})
        for each in beams
    ]
    for each, answer in zip(beams, process.ask(files.bundle, row.task, calls), strict=True):
        for prompt, length, actual in zip(ids, LENGTHS, answer["sequences"], strict=True):
            inputs = {"input_ids": prompt[None, :length]}
            [expected] = sequences(row, files.checkpoint, inputs, generate_settings(row, each)).tolist()
            # What is padded counts towards max_length.
            new = ended(expected, length)[length:]
            assert [token for token in actual[PROMPT:] if token != PADDING] == new[: len(actual) - PROMPT]
            assert actual[:length] == expected[:length]


@pytest.mark.parametrize("row", [DECODERS[0], WHISPER], ids=lambda row: row.id)
def test_tokenizer_makes_the_checkpoints_ids(row, exported, process, record):
    record(row, "tokenizer")
    files, texts = exported(row), ["the cat sat on the mat", "Zürich 東京, 3.5"]
    [answer] = process.ask(files.bundle, row.task, [Call("tokens", {}, {"texts": texts})])
    tokenizer = Tokenizer.from_file(str(files.checkpoint / "tokenizer.json"))
    assert answer["ids"] == [tokenizer.encode(text).ids for text in texts]
    assert answer["texts"] == texts


def test_whisper_tokens_equal_transformers(exported, process, record):
    record(WHISPER, "greedy, 3 beams")
    files, sounds = exported(WHISPER), forward_inputs(WHISPER)["input_features"]
    inputs = {"input_features": sounds, "input_ids": np.full((len(sounds), 1), START)}
    beams = (1, 3)
    calls = [Call("transcribe", inputs, {"settings": settings_of(each, 1 + NEW_TOKENS)}) for each in beams]
    for each, answer in zip(beams, process.ask(files.bundle, WHISPER.task, calls), strict=True):
        settings = generate_settings(WHISPER, each) | {"begin_suppress_tokens": None}
        tokens = sequences(WHISPER, files.checkpoint, {"input_features": sounds}, settings).tolist()
        # transformers leaves out the token that a text starts with.
        assert answer["sequences"] == [[START, *ended(row, 0)] for row in tokens]
