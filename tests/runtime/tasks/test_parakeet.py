"""Transcripts of Parakeet, whose tokens are pieces of words, beside transformers' model and tokenizer."""

import json
from itertools import groupby

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers.speech import save_parakeet, write_wav

import txexport
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime import memory
from txexport.runtime.tasks import ctc
from txexport.verification.processors import ctc_tokenizer

STEP, RATE = 1280, 16_000  # samples of a vector, in a second


def recordings() -> list[np.ndarray]:
    """Sounds (N,) float32 of odd lengths; two have as many samples as vectors need."""
    draw = np.random.default_rng(3)
    counts = (321, 1279, 12_800, 16_001, 19_841, 23_999, 30_001, 48_001, 67_777, 81_919)
    sounds = [0.1 * draw.standard_normal(count) for count in counts]
    sounds += [np.sin(np.arange(22_777) / 9), np.cumsum(draw.standard_normal(8555)) / 300]
    return [sound.astype(np.float32) for sound in sounds]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parakeet")
    txexport.export(save_parakeet(folder / "in"), folder / "out")
    return folder / "in", txexport.load(folder / "out", device="cpu")


@pytest.fixture(scope="module")
def judge(case):
    return transformers.pipeline("automatic-speech-recognition", model=str(case[0]), device="cpu")


def ids_of(judge, sound: np.ndarray) -> list[int]:
    """The original's likeliest tokens (S) of a sound read whole."""
    inputs = judge.feature_extractor(sound, sampling_rate=RATE, return_tensors="pt")
    with torch.inference_mode():
        return judge.model(**inputs).logits[0].argmax(dim=-1).tolist()


def words_of(judge, ids: list[int]) -> list[tuple[float, float, str]]:
    """Words by the pieces of the original's tokenizer, with the times of their vectors in seconds."""
    rows, end, begins = [], 0, True
    for number, group in groupby(ids):
        start, end = end, end + len(list(group))
        if number == judge.tokenizer.pad_token_id:
            continue
        first, *others = judge.tokenizer.convert_ids_to_tokens(number).split("▁")
        for text in ([first] if first else []) + [f"▁{other}" for other in others]:
            begins |= text.startswith("▁")
            if not (text := text.removeprefix("▁")):
                continue
            if begins:
                rows.append([start, end, text])
            else:
                rows[-1] = [rows[-1][0], end, rows[-1][2] + text]
            begins = False
    return [(start * STEP / RATE, end * STEP / RATE, text) for start, end, text in rows]


def timed(transcript) -> list[tuple]:
    return [(word.start, word.end, word.text) for word in transcript.words]


def test_texts_equal_the_pipeline(case, judge):
    _, model = case
    texts = model.transcribe(recordings())
    assert texts == [judge(sound)["text"] for sound in recordings()]
    assert len({*texts}) > 8
    assert sum(text.count(" ") for text in texts) > 30


def test_words_have_the_times_of_their_vectors(case, judge):
    """The pipeline gives no times for this tokenizer: it has no offsets of characters."""
    _, model = case
    transcripts = model.transcribe(recordings(), timestamps="word")
    for sound, transcript in zip(recordings(), transcripts, strict=True):
        assert timed(transcript) == words_of(judge, ids_of(judge, sound))
        assert [word.text for word in transcript.words] == transcript.text.split()
    assert sum(len(transcript.words) for transcript in transcripts) > 40
    with pytest.raises(TypeError, match="string indices"):
        judge(recordings()[3], return_timestamps="word")


# Seconds of a piece and of its context.
PIECES = [(0.8, None), (0.4, 0.08), (0.41, (0.17, 0.09)), (0.8, 0), (1.04, (0, 0.16))]


@pytest.mark.parametrize(("length", "stride"), PIECES)
def test_pieces_have_the_texts_of_the_pipeline(length, stride, case, judge, monkeypatch):
    """The pipeline takes a vector for each sample, unless the config says how many samples a vector has.

    It also leaves out the last vector of a sound that ends within a vector's first half; see below.
    """
    _, model = case
    monkeypatch.setattr(type(judge.model.config), "inputs_to_logits_ratio", STEP, raising=False)
    options = {"chunk_length_s": length, "stride_length_s": stride}
    sounds = [sound for sound in recordings() if sound.size % STEP > STEP // 2]
    assert len(sounds) > 8
    texts = model.transcribe(sounds, **options)
    assert texts == [judge(sound, **options)["text"] for sound in sounds]
    assert texts != model.transcribe(sounds)


@pytest.mark.parametrize(("length", "stride"), [(0.8, 0.16), (0.4, 0.08), (0.8, 0)])
def test_pieces_have_the_vectors_of_the_original(length, stride, case, judge):
    """Each piece is read alone, and its vectors outside of the context are joined; the last keeps all."""
    _, model = case
    size, context = round(length * RATE), round(stride * RATE)
    for sound in recordings():
        ids: list[int] = []
        for first in range(0, sound.size, size - 2 * context):
            piece, last = sound[first : first + size], first + size >= sound.size
            if first and piece.size < 320:
                break
            row = ids_of(judge, piece)
            ids += row[(context if first else 0) // STEP : None if last else (size - context) // STEP]
            if last:
                break
        transcript = model.transcribe(sound, chunk_length_s=length, stride_length_s=stride, timestamps="word")
        assert transcript.text == judge.tokenizer.decode(ids)
        assert timed(transcript) == words_of(judge, ids)


def test_longer_sounds_are_read_in_pieces(case, monkeypatch):
    _, model = case
    sound = recordings()[9]
    undivided, pieces = model.transcribe(sound), model.transcribe(sound, chunk_length_s=1.6)
    monkeypatch.setattr(ctc, "LONGEST", 1.6)
    assert model.transcribe(sound) == pieces != undivided


def test_a_sound_too_long_for_memory_is_named(case, monkeypatch):
    """Attention of 3 heads to all pairs of 2,500 vectors takes 75 MB."""
    _, model = case
    sound = np.zeros(2500 * STEP, np.float32)
    monkeypatch.setattr(memory, "total", lambda: 70e6)
    with pytest.raises(InputError, match="a sound of 200 s would take"):
        model.transcribe(sound, chunk_length_s=0)


def test_a_stream_has_the_text_words_and_segments_of_the_whole(case):
    _, model = case
    for length in (None, 0.8, 0.4):
        for sound in recordings():
            expected = model.transcribe(sound, timestamps="word", chunk_length_s=length)
            for times, parts in {"word": expected.words, "segment": expected.segments}.items():
                stream = model.stream_transcript(sound, timestamps=times, chunk_length_s=length)
                assert (*stream,) == parts
            pieces = [*model.stream_transcript(recordings()[9], chunk_length_s=length)]
            assert "".join(pieces) == model.transcribe(recordings()[9], chunk_length_s=length)
    assert len(pieces) > 3


def test_the_command_writes_the_same_texts_and_subtitles(case, tmp_path):
    _, model = case
    files = [write_wav(tmp_path / f"{number}.wav", recordings()[number]) for number in (3, 7)]
    result = CliRunner().invoke(main, ["transcribe", str(model.folder), *map(str, files), "--json"])
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == model.transcribe(files)
    result = CliRunner().invoke(main, ["transcribe", str(model.folder), str(files[1]), "--format", "srt"])
    assert result.exit_code == 0, result.output
    segments = model.transcribe(files[1], timestamps="segment").segments
    assert result.stdout.count("-->") == len(segments) > 0
    assert " ".join(segments[0].text.split()) in result.stdout


def test_beams_need_letters(case):
    _, model = case
    sound = recordings()[3]
    with pytest.raises(InputError, match="num_beams is more than 1, but the model's tokens are pieces"):
        model.transcribe(sound, num_beams=2)
    assert model.transcribe(sound, num_beams=1) == model.transcribe(sound)


def test_verify_compares_the_tokenizer(case):
    """It fails for a bundle with another piece in its vocabulary."""
    folder, model = case
    checkpoint = Checkpoint(folder)
    [check] = ctc_tokenizer.check(model.folder, model.manifest, checkpoint, quick=True)
    assert check.elements > 31
    path = model.folder / "tokenizer.json"
    original = path.read_text()
    try:
        path.write_text(original.replace('"▁we"', '"▁us"'))
        with pytest.raises(AssertionError, match="transformers"):
            ctc_tokenizer.check(model.folder, model.manifest, checkpoint, quick=True)
    finally:
        path.write_text(original)
