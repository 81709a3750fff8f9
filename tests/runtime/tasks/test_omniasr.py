"""Transcripts of Omnilingual ASR beside its original, whose pipeline fails in transformers 5.24."""

from itertools import groupby

import numpy as np
import pytest
import torch
import transformers
from helpers.speech import recordings, save_omniasr

import txexport
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.verification.processors import ctc_tokenizer

STEP, RATE = 20, 16_000  # samples of a vector of the tiny model, in a second


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """The checkpoint's folder, its bundle, and the original's model, extractor and tokenizer."""
    folder = tmp_path_factory.mktemp("omniasr")
    txexport.export(save_omniasr(folder / "in"), folder / "out")
    kinds = ("AutoModelForCTC", "AutoFeatureExtractor", "AutoTokenizer")
    original = [getattr(transformers, kind).from_pretrained(folder / "in") for kind in kinds]
    return folder / "in", txexport.load(folder / "out", device="cpu"), original


def ids_of(original, sound: np.ndarray) -> list[int]:
    """The likeliest tokens (S) of a sound, as `generate` of the original makes them."""
    model, extractor, _ = original
    with torch.inference_mode():
        inputs = extractor(sound, sampling_rate=RATE, return_tensors="pt")
        return model.eval().generate(**inputs)[0].tolist()


def test_texts_and_words_are_those_of_the_original_s_tokens(case):
    _, model, original = case
    tokenizer, texts = original[2], []
    for sound, transcript in zip(
        recordings(), model.transcribe(recordings(), timestamps="word"), strict=True
    ):
        ids = ids_of(original, sound)
        texts.append(tokenizer.decode(ids, skip_special_tokens=True))
        assert transcript.text == texts[-1]
        assert [word.text for word in transcript.words] == transcript.text.split()
        ends = np.cumsum([len([*group]) for _, group in groupby(ids)]) * STEP / RATE
        assert {word.end for word in transcript.words} <= {*ends.tolist()}
        assert {word.start for word in transcript.words} <= {0, *ends.tolist()}
    assert len({*texts}) > 6
    assert sum(text.count(" ") for text in texts) > 30
    assert not any("<unk>" in text for text in texts)


def test_a_stream_has_the_text_of_the_whole(case):
    _, model, _ = case
    for length in (None, 0.1):
        expected = model.transcribe(recordings()[4], chunk_length_s=length)
        assert "".join(model.stream_transcript(recordings()[4], chunk_length_s=length)) == expected


def test_batches_equal_the_original(case):
    """Of sounds of any length, as the original pads and masks them."""
    _, model, (judge, extractor, _) = case
    inputs = model.audio.inputs(recordings())
    logits = model.run(**inputs)["logits"]
    theirs = extractor(recordings(), sampling_rate=RATE, return_tensors="pt")
    np.testing.assert_allclose(inputs["input_values"], theirs["input_values"][:, 0], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(inputs["attention_mask"], theirs["padding_mask"])
    values, mask = (torch.from_numpy(array) for array in inputs.values())
    with torch.inference_mode():
        expected = judge(values[:, None], padding_mask=mask).logits
        lengths = judge._get_subsampling_output_length(mask.sum(1))
    for row, length in enumerate(lengths):
        bound = 1e-5 * float(expected.abs().max())
        np.testing.assert_allclose(logits[row, :length], expected[row, :length], rtol=0, atol=bound)


def test_verify_compares_the_tokenizer(case):
    folder, model, _ = case
    checkpoint = Checkpoint(folder)
    [check] = ctc_tokenizer.check(model.folder, model.manifest, checkpoint, quick=True)
    assert check.elements > 31
