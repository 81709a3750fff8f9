"""The rules of long transcripts, each beside transformers' own function."""

import numpy as np
import pytest
import torch
import transformers
from helpers import whisper_cases
from helpers.whisper_cases import END, FIRST_TIME, NO_TIMESTAMPS, RATE, sound
from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

from txexport.runtime.generation.penalties import Step
from txexport.runtime.preprocessing.extractors.log_mel import Audio
from txexport.runtime.tasks.whisper.fallback import Thresholds, Verdict, compression_ratio
from txexport.runtime.tasks.whisper.segments import Clock, split
from txexport.runtime.tasks.whisper.timestamp_rule import TimestampRule

VOCAB = FIRST_TIME + 51
NEW = (
    [],
    [FIRST_TIME + 3],
    [5, 6],
    [FIRST_TIME + 3, 9],
    [FIRST_TIME + 3, 9, FIRST_TIME + 20],
    [FIRST_TIME + 3, 9, FIRST_TIME + 20, FIRST_TIME + 20],
    [FIRST_TIME + 3, 9, FIRST_TIME + 20, FIRST_TIME + 22, 8],
    [FIRST_TIME + 3, 9, FIRST_TIME + 50],
)


@pytest.mark.parametrize("latest", [None, 0, 10])
@pytest.mark.parametrize("new", NEW, ids=str)
def test_scores_equal_those_of_the_processor(new, latest):
    config = transformers.GenerationConfig(
        no_timestamps_token_id=NO_TIMESTAMPS, eos_token_id=END, max_initial_timestamp_index=latest
    )
    prompt = [FIRST_TIME - 8, 4, 5]
    processor = transformers.WhisperTimeStampLogitsProcessor(config, begin_index=3)
    rule = TimestampRule(NO_TIMESTAMPS, END, latest, [True, False])
    rng = np.random.default_rng(len(new))
    for scale in (0.1, 1, 5):
        scores = rng.normal(0, scale, (2, VOCAB)).astype(np.float32)
        scores[:, NO_TIMESTAMPS] = 9  # the likeliest, which timestamps rule out
        row = [*prompt, *new]
        ours = rule(Step([row, row], [3, 3], [99, 99], [0, 1]), scores)
        theirs = processor(torch.tensor([row]), torch.from_numpy(scores[:1]))
        np.testing.assert_array_equal(ours[0], theirs[0].numpy())
        np.testing.assert_array_equal(ours[1], scores[1])  # a row without timestamps


def test_compression_ratio_is_that_of_generate():
    rng = np.random.default_rng(0)
    for vocab_size in (200, 371, 51865, 70000):
        for tokens in ([5], [7] * 40, rng.integers(0, vocab_size, 50).tolist()):
            expected = WhisperGenerationMixin._retrieve_compression_ratio(torch.tensor(tokens), vocab_size)
            assert compression_ratio(tokens, vocab_size) == expected


REPEATED, VARIED = [7] * 60, list(range(60))
CASES = [
    (Thresholds(), REPEATED, -9.0, 0.9, Verdict.KEEP),
    (Thresholds(compression_ratio=1.35), REPEATED, None, None, Verdict.AGAIN),
    (Thresholds(compression_ratio=2.4), VARIED, None, None, Verdict.KEEP),
    (Thresholds(log_prob=-1.0), VARIED, -1.1, None, Verdict.AGAIN),
    (Thresholds(log_prob=-1.0), VARIED, -1.0, None, Verdict.KEEP),
    (Thresholds(log_prob=-1.0, no_speech=0.6), VARIED, -1.1, 0.61, Verdict.SKIP),
    (Thresholds(log_prob=-1.0, no_speech=0.6), VARIED, -1.1, 0.6, Verdict.AGAIN),
    (Thresholds(log_prob=-1.0, no_speech=0.6), VARIED, -0.9, 0.9, Verdict.KEEP),
    (Thresholds(1.35, -1.0, 0.6), REPEATED, -0.9, 0.9, Verdict.AGAIN),
    (Thresholds(1.35, -1.0, 0.6), REPEATED, -1.1, 0.9, Verdict.SKIP),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdicts(case):
    thresholds, tokens, log_prob, no_speech, verdict = case
    assert thresholds.verdict(tokens, 51865, log_prob, no_speech) is verdict


SPLITS = [
    [FIRST_TIME, 5, FIRST_TIME + 9, FIRST_TIME + 9, 6, FIRST_TIME + 30, FIRST_TIME + 30],
    [FIRST_TIME, 5, FIRST_TIME + 9, FIRST_TIME + 11, 6, FIRST_TIME + 30],
    [FIRST_TIME, 5, FIRST_TIME + 9, FIRST_TIME + 9, 6, 7],
    [FIRST_TIME + 2, 5, 6, FIRST_TIME + 9],
    [FIRST_TIME, 5, 6],
    [5, 6],
]


@pytest.mark.parametrize("tokens", SPLITS, ids=str)
@pytest.mark.parametrize("frames", [100, 73])
def test_segments_of_a_window_equal_those_of_generate(tokens, frames):
    seek = 130
    theirs, advance = WhisperGenerationMixin._retrieve_segment(
        seek_sequence=torch.tensor(tokens),
        seek_outputs=[{}],
        time_offset=torch.tensor([seek * 0.01], dtype=torch.float64),
        timestamp_begin=FIRST_TIME,
        seek_num_frames=torch.tensor([frames]),
        time_precision=0.02,
        time_precision_features=0.01,
        input_stride=2,
        prev_idx=0,
        idx=0,
        return_token_timestamps=False,
        decoder_input_ids=torch.zeros(1, 3),
    )
    ours, frames_on = split(tokens, Clock(FIRST_TIME, 0.02), seek, frames)
    assert frames_on == int(advance)
    assert [one.tokens for one in ours] == [one["tokens"].tolist() for one in theirs]
    for segment, expected in zip(ours, theirs, strict=True):
        assert segment.end is None or segment.end == pytest.approx(float(expected["end"]), abs=0.006)
    ends = [segment.end is not None for segment in ours]
    assert all(ends) if FIRST_TIME + 9 in tokens else not any(ends)


def test_a_window_whose_timestamps_do_not_advance_ends():
    """generate would decode it for ever."""
    _, frames = split([FIRST_TIME, FIRST_TIME, 5], Clock(FIRST_TIME, 0.02), 0, 100)
    assert frames == 100


@pytest.mark.parametrize("seconds", [0.3, 1.0, 1.00001, 1.007, 2.5, 13.333])
def test_features_of_a_whole_sound_equal_the_extractor(seconds, tmp_path):
    """The floor is by the loudest frame of all, and the end is no silence."""
    samples = sound(seconds, 3)
    samples[: len(samples) // 2] *= 0.001
    whisper_cases.save(tmp_path)
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(tmp_path)
    long = len(samples) > RATE
    options = {"truncation": False, "padding": "longest"} if long else {}
    theirs = extractor(samples, sampling_rate=RATE, return_tensors="np", **options).input_features[0]
    ours = Audio(tmp_path).recording(samples)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
