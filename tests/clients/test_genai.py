"""onnxruntime-genai loads a bundle by its genai_config.json: tokens are those of transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
from helpers import pictured_families
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
from helpers.rows import CONVERSE, GENERATE, Row
from helpers.saturation import skip_where_products_saturate
from PIL import Image
from tokenizers import Tokenizer

from txexport.errors import TxexportError
from txexport.exporter import export
from txexport.runtime import load
from txexport.verification.clients.process import Call

CLIENT = "genai"
ATTENDING = rows_of(("gpt2", "llama", "qwen2", "qwen3", "mistral", "phi", "phi3", "gemma2"), (GENERATE,))
CONVOLVED = rows_of(("lfm2", "lfm2_moe"), (GENERATE,))
OF_STATE_SPACES = rows_of(
    ("bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "mamba", "mamba2", "nemotron_h"),
    (GENERATE,),
)
OF_DELTA_RULES = rows_of(("olmo_hybrid", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"), (GENERATE,))
RECURRENT = [*OF_STATE_SPACES, *OF_DELTA_RULES, *rows_of(("recurrent_gemma", "zamba2"), (GENERATE,))]
DECODERS = [*ATTENDING, *CONVOLVED, *RECURRENT]
START = tiny_checkpoint.WHISPER["decoder_start_token_id"]
PADDING, END = (tiny_checkpoint.IDS[name] for name in ("pad_token_id", "eos_token_id"))
PROMPT = max(LENGTHS)


LAYOUTS = [None, "genai"]
SHARED = "over a shared buffer (--for genai) outputs, greedy, chunks, rewind"
# Its documentation describes settings instead of separate files: the graph with a growing cache.
GROWING = json.dumps(
    {
        "model": {"decoder": {"filename": "onnx/model.onnx"}},
        "search": {"past_present_share_buffer": False},
    }
)


def prompts() -> np.ndarray:
    """(B,S) ids, right-padded, as it expects them."""
    ids = ids_of((len(LENGTHS), PROMPT))
    for row, length in zip(ids, LENGTHS, strict=True):
        row[length:] = PADDING
    return ids


def ended(ids: list[int], start: int) -> list[int]:
    """Ids up to the first end after `start`, without the end, which it omits."""
    return ids[: ids.index(END, start)] if END in ids[start:] else ids


def continued(row: Row, checkpoint: Path, ids: np.ndarray) -> list[int]:
    """The continuation of a prompt (1,S) by transformers, without the end."""
    [tokens] = sequences(row, checkpoint, {"input_ids": ids}, generate_settings(row, 1)).tolist()
    return ended(tokens, ids.shape[1])


def settings_of(beams: int, length: int) -> dict[str, Any]:
    """Settings for texts of `length` tokens."""
    return {"max_length": length, "do_sample": False, "num_beams": beams}


@pytest.mark.parametrize("client", LAYOUTS)
@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.id)
def test_outputs_equal_transformers(row, client, exported, process, record):
    record(row, SHARED if client else "outputs")
    files, ids = exported(row, client), ids_of((len(LENGTHS), PROMPT))
    [answer] = process.ask(files.bundle, row.task, [Call("logits", {"input_ids": ids})])
    expected = forward_outputs(row, files.checkpoint, {"input_ids": ids})["logits"]
    np.testing.assert_allclose(answer["logits"], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("client", LAYOUTS)
@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.id)
def test_greedy_and_beam_tokens_equal_transformers(row, client, exported, process, record):
    """A batch of unequal lengths, each of which transformers continues alone; beams share no buffer.

    Its beam search does not reorder the states of recurrences, and so gives wrong tokens with them.
    """
    recurrent = row in RECURRENT
    greedy = "greedy" if recurrent else "greedy, 3 beams"
    record(row, SHARED if client else greedy)
    files, ids, beams = exported(row, client), prompts(), (1,) if recurrent else (1, 3)
    overlays = dict(zip((1, 3), ({}, {"overlay": GROWING}), strict=True))
    calls = [
        Call(
            "generate",
            {"input_ids": ids},
            {"settings": settings_of(each, PROMPT + NEW_TOKENS), **overlays[each]},
        )
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


@pytest.mark.parametrize("dtype", ["int8", "int8-fast", "int4", "bfloat16"])
@pytest.mark.parametrize("client", LAYOUTS)
@pytest.mark.parametrize("row", DECODERS[:2], ids=lambda row: row.id)
def test_tokens_in_other_numbers_are_those_of_our_runtime(row, client, dtype, exported, process, tmp_path):
    if dtype == "int8-fast":
        skip_where_products_saturate()
    # A prompt of clear choices, 0.4 apart: int8-fast depends on the rows of a step, which differ here.
    checkpoint, ids = exported(row, client).checkpoint, ids_of((1, 5), seed=4)
    export(checkpoint, tmp_path / "out", dtype=dtype, client=client)
    settings = settings_of(1, ids.shape[1] + 4)
    [answer] = process.ask(
        tmp_path / "out", row.task, [Call("generate", {"input_ids": ids}, {"settings": settings})]
    )
    [expected] = load(tmp_path / "out", device="cpu").generate_ids(ids.tolist(), max_new_tokens=4)
    assert answer["sequences"][0][ids.shape[1] :] == ended(expected, 0)


@pytest.mark.parametrize("client", LAYOUTS)
@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.id)
def test_a_prompt_in_chunks_goes_on_as_a_whole_one(row, client, exported, process, record):
    record(row, SHARED if client else "chunks")
    files, ids = exported(row, client), ids_of((1, 12))
    settings = settings_of(1, ids.shape[1] + NEW_TOKENS)
    chunks = {"first": ids[:, :4], "second": ids[:, 4:5], "third": ids[:, 5:]}
    [answer] = process.ask(files.bundle, row.task, [Call("chunked", chunks, {"settings": settings})])
    assert answer["sequences"] == [continued(row, files.checkpoint, ids)]


# A state is of all tokens, so that none can be taken back: "RewindTo is currently not supported for lfm2".
@pytest.mark.parametrize("row", ATTENDING, ids=lambda row: row.id)
def test_what_is_taken_back_is_forgotten(row, exported, process, record):
    """It supports that over a shared buffer alone: its slots are overwritten."""
    record(row, SHARED)
    files, new, kept = exported(row, "genai"), 3, 6
    ids, rest = ids_of((1, PROMPT)), ids_of((1, 5), seed=1)
    settings = settings_of(1, kept + rest.shape[1] + NEW_TOKENS)
    options = {"settings": settings, "new": new, "kept": kept}
    [answer] = process.ask(
        files.bundle, row.task, [Call("taken_back", {"input_ids": ids, "rest": rest}, options)]
    )
    assert answer["sequences"] == [continued(row, files.checkpoint, np.hstack([ids[:, :kept], rest]))]


def test_beams_share_no_buffer(exported, process):
    """It gives several beams a growing cache, whatever its settings; that graph is in the bundle too."""
    bundle, settings = exported(DECODERS[0], "genai").bundle, settings_of(3, PROMPT + NEW_TOKENS)
    call = Call("generate", {"input_ids": prompts()}, {"settings": settings})
    [answer] = process.ask(bundle, DECODERS[0].task, [call])
    with pytest.raises(TxexportError, match=rf"update sequence_length \({PROMPT}\) exceeds .* \(0\)"):
        _ = answer["sequences"]


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


PICTURED = rows_of(("qwen2_vl", "qwen2_5_vl", "qwen3_5"), (CONVERSE,))
PLAIN = {"add_special_tokens": False}  # as tokenizers of these families are
# Widths and heights; some are whole squares, one is scaled down, one up, and the smaller of two comes first.
SIZES = [], [(24, 32)], [(40, 16), (24, 32)], [(32, 24), (32, 24)], [(57, 41)], [(11, 9), (200, 150)]


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """A function from a family to a checkpoint that has an image processor, and its bundle."""
    bundles: dict[str, tuple[Path, Path]] = {}

    def get(family: str) -> tuple[Path, Path]:
        if family not in bundles:
            checkpoint = pictured_families.saved(family, tmp_path_factory)
            export(checkpoint, checkpoint.parent / f"{family}-bundle", only="hub")
            bundles[family] = checkpoint, checkpoint.parent / f"{family}-bundle"
        return bundles[family]

    return get


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of images of SIZES."""
    folder, noise = tmp_path_factory.mktemp("images"), np.random.default_rng(5)
    result: list[list[Path]] = []
    for number, sizes in enumerate(SIZES):
        result.append([folder / f"{number}-{place}.png" for place in range(len(sizes))])
        for path, (width, height) in zip(result[-1], sizes, strict=True):
            Image.fromarray(noise.integers(0, 256, (height, width, 3), np.uint8)).save(path)
    return result


def question(family: str, count: int) -> str:
    """A prompt with marks for `count` images."""
    mark = pictured_families.BEGINNING[family]
    return f"user: look {f'{mark} the ' * count}what? assistant:"


@pytest.mark.parametrize("row", PICTURED, ids=lambda row: row.id)
def test_prompts_with_images_equal_transformers(row, pictured, files, process, record):
    """Its own processor reads text and files; ids, pixels and greedy tokens are those of transformers."""
    record(row, "images: processor, greedy")
    checkpoint, folder = pictured(row.model_type)
    processor, network = pictured_families.original_of(checkpoint, row.model_type)
    prompts = [question(row.model_type, len(some)) for some in files]
    calls = [
        Call("converse", {}, {"prompt": prompt, "images": [*map(str, some)], "new": NEW_TOKENS})
        for prompt, some in zip(prompts, files, strict=True)
    ]
    answers = process.ask(folder, row.task, calls)
    for prompt, some, answer in zip(prompts, files, answers, strict=True):
        images = [Image.open(path) for path in some]
        inputs = processor(text=[prompt], images=images or None, return_tensors="pt", **PLAIN)
        ids = inputs["input_ids"].tolist()
        assert answer["input_ids"].tolist() == ids
        if some:
            assert_same_pixels(answer, inputs)
        tokens = network.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False).tolist()[0]
        assert answer["sequences"] == [ended(tokens, len(ids[0]))]


def assert_same_pixels(answer: Any, inputs: Any) -> None:
    """Assert that patches and their grids are those of transformers; it pads those of smaller images."""
    grids = answer["image_grid_thw"]
    assert grids.tolist() == inputs["image_grid_thw"].tolist()
    every = answer["pixel_values"].reshape(len(grids), -1, answer["pixel_values"].shape[-1])
    real = [image[: grid.prod()] for image, grid in zip(every, grids, strict=True)]
    np.testing.assert_allclose(np.concatenate(real), inputs["pixel_values"].numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int4", "bfloat16"])
def test_images_in_other_numbers_are_read_as_by_our_runtime(dtype, pictured, files, process, tmp_path):
    checkpoint, _ = pictured("qwen2_5_vl")
    export(checkpoint, tmp_path / "out", dtype=dtype)
    prompt, [image] = question("qwen2_5_vl", 1), files[1]
    as_read = f"<s>{prompt}</s>"  # by the tokenizer of these tests
    call = Call("converse", {}, {"prompt": as_read, "images": [str(image)], "new": 4})
    [answer] = process.ask(tmp_path / "out", CONVERSE, [call])
    length = answer["input_ids"].shape[1]
    expected = load(tmp_path / "out", device="cpu").generate(prompt, images=image, max_new_tokens=4)
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    assert tokenizer.decode(answer["sequences"][0][length:]) == expected
