"""The rules of times of words and of overlapping pieces, each beside transformers' text_of function."""

import itertools

import numpy as np
import pytest
import torch
import transformers
from helpers import whisper_cases
from helpers.whisper_cases import END, FIRST_TIME, FRENCH
from transformers.models.whisper import generation_whisper, tokenization_whisper

from txexport.runtime.preprocessing.text import Text
from txexport.runtime.tasks.whisper import alignment, languages
from txexport.runtime.tasks.whisper.chunks import Chunks, PieceTokens, Stride, joined
from txexport.runtime.tasks.whisper.segments import Clock
from txexport.runtime.tasks.whisper.words import TimedToken, words_of

STEP = 0.02
TEXTS = (
    " Hello, world! It's 3.5 (or so) - isn't it?",
    ' "Quoted" ¿qué? ¡sí! [x] {y} end .',
    "no spaces",
    "日本語、テスト。 mixed 中文!",
    " \ufffd broken \ufffd\ufffd",
    "",
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    whisper_cases.save(folder, seconds=30)
    return folder


@pytest.fixture(scope="module")
def judge(checkpoint):
    return transformers.WhisperTokenizer.from_pretrained(checkpoint)


def weights_of(heads: int, tokens: int, positions: int, seed: int) -> np.ndarray:
    """Attention weights that move forward, with noise."""
    rng = np.random.default_rng(seed)
    centre = np.sort(rng.uniform(0, positions, tokens))[:, None]
    scores = -np.abs(np.arange(positions) - centre) / 5 + rng.normal(0, 1, (heads, tokens, positions))
    weights = np.exp(scores)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def expected_times(weights: np.ndarray, width: int, frames: int | None) -> list[float]:
    """The times of new tokens by transformers, after two tokens of a prompt."""
    heads, tokens, positions = weights.shape
    prompt = np.full((heads, 2, positions), 1 / positions, np.float32)
    steps = torch.from_numpy(np.concatenate([prompt, weights], axis=1))[None]
    config = type("Config", (), {"decoder_layers": 1, "median_filter_width": width})
    model = type("Model", (generation_whisper.WhisperGenerationMixin,), {"config": config})()
    outputs = transformers.generation.GenerateEncoderDecoderOutput(
        sequences=torch.zeros(1, tokens + 3, dtype=torch.long), cross_attentions=((steps,),)
    )
    times = model._extract_token_timestamps(
        outputs, [(0, head) for head in range(heads)], num_frames=frames, num_input_ids=2
    )
    return times[0, 2:].tolist()


@pytest.mark.parametrize("shape", [(1, 1, 20), (3, 9, 50), (6, 44, 120), (2, 30, 17), (2, 5, 3), (4, 7, 9)])
@pytest.mark.parametrize("width", [1, 3, 7, 9])
def test_times_of_tokens_equal_those_of_generate(shape, width):
    for seed in range(4):
        weights = weights_of(*shape, seed)
        expected = expected_times(weights, width, None)
        positions = alignment.token_positions(weights, width)
        if shape[1] == 1:  # no deviation, and so no path: transformers counts from NaN
            assert positions == [0]
            continue
        assert positions == [round(time / STEP) for time in expected[:-1]]
        frames = shape[2] - 1 if shape[2] > 9 else shape[2] * 2
        expected = expected_times(weights, width, frames)
        cropped = weights[..., : frames // 2]
        assert alignment.token_positions(cropped, width) == [round(time / STEP) for time in expected[:-1]]


def test_each_step_of_alignment_counts():
    """The filter, the normalisation, every head and every token change times; else nothing is proved."""
    weights = weights_of(3, 40, 150, 5) * np.linspace(0.1, 9, 150, dtype=np.float32)
    times = alignment.token_positions(weights, 7)
    assert times != alignment.token_positions(weights, 1)
    assert times != alignment.token_positions(weights[1:], 7)
    assert times[1:] != alignment.token_positions(weights[:, 1:], 7)
    flat = alignment._path_starts(-np.mean([alignment._median_filtered(one, 7) for one in weights], axis=0))
    assert times != flat


def test_equal_weights_of_all_tokens_count_for_nothing():
    """A position that every token neglects is 0 / 0 in transformers, and its path goes astray."""
    weights = weights_of(2, 12, 40, 0)
    weights[..., 30:] = 0
    positions = alignment.token_positions(weights, 7)
    assert positions == sorted(positions)
    assert 0 <= positions[0] <= positions[-1] < 40
    assert len(set(positions)) > 6


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("language", ["english", "chinese", "thai"])
def test_words_equal_those_of_the_tokenizer(text, language, checkpoint, judge):
    text_of = Text(checkpoint)
    tokens = text_of.tokenizer.encode(text, add_special_tokens=False).ids
    rng = np.random.default_rng(len(tokens))
    for cut in (0, 1, 2):  # from the middle of a character too
        ids = tokens[cut:]
        times = np.sort(rng.uniform(0, 9, len(ids) + 1)).round(2).tolist()
        spans = [*itertools.pairwise(times)]
        expected = tokenization_whisper._collate_word_timestamps(judge, ids, spans, language, False)
        timed = [TimedToken(token, *span) for token, span in zip(ids, spans, strict=True)]
        result_words = words_of(timed, text_of, spaced=language == "english")
        assert [(one.text, (one.start, one.end)) for one in result_words] == [
            (one["text"], one["timestamp"]) for one in expected
        ]


@pytest.mark.parametrize("timed", [False, True])
def test_sequences_are_joined_as_by_the_tokenizer(timed):
    rng = np.random.default_rng(3)
    changed = 0
    for _ in range(60):
        stream = rng.integers(0, 6, 40).tolist()
        sequences, at = [], 0
        for _ in range(rng.integers(1, 5)):
            length = int(rng.integers(0, 18))
            part = stream[at : at + length]
            if part and rng.random() < 0.4:
                part[int(rng.integers(len(part)))] = 7
            sequences.append(part)
            at += max(0, length - int(rng.integers(0, 8)))
        starts = [np.sort(rng.uniform(0, 9, len(part) + 1)).round(1).tolist() for part in sequences]
        spans = [[*itertools.pairwise(one)] for one in starts]
        timed_tokens = [
            [TimedToken(token, *(span if timed else ())) for token, span in zip(part, times, strict=True)]
            for part, times in zip(sequences, spans, strict=True)
        ]
        tokens, times = tokenization_whisper._find_longest_common_sequence(sequences, spans if timed else [])
        result = joined(timed_tokens)
        assert [one.token for one in result] == tokens
        if timed:
            assert [(one.start, one.end) for one in result] == times
        changed += len(tokens) < sum(map(len, sequences))
    assert changed > 20


def pieces_of(rng: np.random.Generator, count: int, strided: bool) -> list[tuple[PieceTokens, dict]]:
    """Pieces with random text and timestamps, ours and as the tokenizer takes them."""
    pieces, text = [], rng.integers(20, 200, 90).tolist()
    for number in range(count):
        length = 10.0 if number + 1 < count else float(rng.uniform(4, 10))
        stride = (length, 2.0 * (number > 0), 1.5 * (number + 1 < count))
        tokens, at = [], 0
        for time in np.sort(rng.integers(0, int(length / STEP), rng.integers(0, 7))).tolist():
            tokens += [FIRST_TIME + time] * int(rng.integers(1, 3))
            more = int(rng.integers(0, 6))
            tokens += text[20 * number + at : 20 * number + at + more]
            at += more
        if number and rng.random() < 0.2:
            tokens.append(END)
        if not strided and rng.random() < 0.5:  # a second window, which counts from 0
            tokens += [FIRST_TIME, 25, 26, FIRST_TIME + 40, FIRST_TIME + 40, 27]
        ends = np.sort(rng.uniform(0, length, len(tokens))).round(2).tolist()
        theirs = {"tokens": np.array([tokens]), "token_timestamps": np.array([ends])}
        ours = PieceTokens(tokens, ends, Stride(*stride) if strided else None)
        pieces.append((ours, theirs | ({"stride": stride} if strided else {})))
    return pieces


@pytest.mark.parametrize("how", [True, "word"])
@pytest.mark.parametrize("strided", [True, False])
def test_chunks_of_pieces_equal_those_of_the_tokenizer(how, strided, checkpoint, judge):
    text_of, clock = Text(checkpoint), Clock(FIRST_TIME, STEP)
    several = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        pieces = pieces_of(rng, int(rng.integers(1, 5)) if strided else 1, strided)
        text, expected = judge._decode_asr(
            [theirs for _, theirs in pieces], return_timestamps=how, return_language=None, time_precision=STEP
        )
        chunks = Chunks(clock, text_of.joining.special, 30)
        for ours, _ in pieces:
            chunks.add(ours if how == "word" else PieceTokens(ours.tokens, (), ours.stride))
        result = chunks.finish()
        decoded = text_of.decode([[one.token for one in chunk.tokens] for chunk in result])
        assert "".join(decoded) == text
        if how == "word":
            result_words = [word for one in result for word in words_of(one.tokens, text_of)]
            assert [(one.text, (one.start, one.end)) for one in result_words] == [
                (one["text"], one["timestamp"]) for one in expected["chunks"]
            ]
        else:
            times = [(one.start, one.end) for one in result]
            assert times == [one["timestamp"] for one in expected["chunks"]]
            assert decoded == [one["text"] for one in expected["chunks"]]
        several += len(result) > 1
    assert several > 20


def test_languages_have_the_names_of_transformers():
    assert languages.CODES == tokenization_whisper.TO_LANGUAGE_CODE
    assert FRENCH != END
