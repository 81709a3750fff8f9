"""Transcripts of CTC models, beside transformers' pipeline."""

import io
import json
import os
import wave
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers.speech import recordings, save_recogniser

import txexport
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime.preprocessing import sound_files
from txexport.runtime.preprocessing.ctc_tokenizer import CTCTokenizer
from txexport.runtime.preprocessing.decoding import Cleaning
from txexport.runtime.preprocessing.sound_files import RawPCM
from txexport.runtime.tasks import ctc
from txexport.runtime.tasks.ctc_stream import GrowingTranscript, grouped
from txexport.runtime.tasks.transcript import Transcript, Word, joined

LAYER_NORM = {"masked": True, "feat_extract_norm": "layer"}
STABLE = LAYER_NORM | {"do_stable_layer_norm": True}
SQUEEZED = LAYER_NORM | {"model_type": "sew"}
SHORTENED = {"add_adapter": True, "num_adapter_layers": 2}


@pytest.fixture(scope="module", params=[{}, {"masked": True}, LAYER_NORM, STABLE, SQUEEZED], ids=str)
def case(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ctc")
    vocabulary = save_recogniser(folder / "in", **request.param) / "vocab.json"
    numbers = json.loads(vocabulary.read_text())
    by_norm = "L" if "feat_extract_norm" in request.param else "I"
    likely = "Z" if "model_type" in request.param else by_norm  # so that there are many words
    numbers["|"], numbers[likely] = numbers[likely], numbers["|"]
    vocabulary.write_text(json.dumps(numbers))
    assert txexport.export(folder / "in", folder / "out").task == "automatic-speech-recognition"
    return folder / "in", txexport.load(folder / "out", device="cpu")


@pytest.fixture(scope="module")
def judge(case):
    return transformers.pipeline("automatic-speech-recognition", model=str(case[0]), device="cpu")


def test_texts_equal_the_pipeline(case, judge):
    _, model = case
    done: list = []
    texts = model.transcribe(recordings(), progress=lambda *counts: done.append(counts))
    assert texts == [judge(sound)["text"] for sound in recordings()]
    assert len({*texts}) > 5
    assert done[-1] == (8, 8)
    assert model.transcribe(recordings()[2]) == texts[2]
    assert model.transcribe([]) == []


def chunks(answer: dict) -> list[tuple]:
    """The words of the pipeline's answer as ours."""
    return [(*chunk["timestamp"], chunk["text"]) for chunk in answer["chunks"]]


def test_words_have_the_times_of_the_pipeline(case, judge):
    _, model = case
    transcripts = model.transcribe(recordings(), timestamps="word")
    answers = [judge(sound, return_timestamps="word") for sound in recordings()]
    assert [transcript.text for transcript in transcripts] == [answer["text"] for answer in answers]
    times = [[(word.start, word.end, word.text) for word in transcript.words] for transcript in transcripts]
    assert times == [chunks(answer) for answer in answers]
    assert sum(map(len, times)) > 100
    segments = model.transcribe(recordings(), timestamps="segment")
    assert [transcript.segments for transcript in segments] == [one.segments for one in transcripts]
    assert not any(transcript.words for transcript in segments)


# Seconds of a piece and of its context. The model has a vector every few samples.
PIECES = [(0.1, None), (0.05, 0.01), (0.0501, (0.013, 0.004)), (0.02, 0.002), (0.2, (0, 0.05)), (2, 0.3)]


@pytest.mark.parametrize(("length", "stride"), PIECES)
def test_pieces_have_the_texts_and_times_of_the_pipeline(length, stride, case, judge):
    _, model = case
    options = {"chunk_length_s": length, "stride_length_s": stride}
    transcripts = model.transcribe(recordings(1), timestamps="word", **options)
    for sound, transcript in zip(recordings(1), transcripts, strict=True):
        answer = judge(sound, return_timestamps="word", **options)
        assert transcript.text == answer["text"]
        assert [(word.start, word.end, word.text) for word in transcript.words] == chunks(answer)
    if length < 1:
        assert [transcript.text for transcript in transcripts] != model.transcribe(recordings(1))


def test_longer_sounds_are_read_in_pieces(case, judge, monkeypatch):
    """Of 30 seconds, which are 24,000 vectors of this model: the test takes shorter pieces."""
    _, model = case
    assert ctc.LONGEST == 30
    monkeypatch.setattr(ctc, "LONGEST", 0.6)
    sound = (0.1 * np.random.default_rng(2).standard_normal(20_001)).astype(np.float32)
    text = model.transcribe(sound)
    assert text == judge(sound, chunk_length_s=0.6)["text"]
    assert text != (undivided := model.transcribe(sound, chunk_length_s=0))
    assert undivided == judge(sound)["text"]
    assert model.transcribe(sound[:9600]) == judge(sound[:9600])["text"]


def test_a_row_without_a_vector_is_refused(case):
    """wav2vec 2.0 reads the padding of such a row as if it were sound."""
    _, model = case
    if not model.audio.masked or "attention_mask" not in model.bundle.sessions["model"].inputs:
        return
    signals = np.zeros((3, 200), np.float32)
    mask = np.arange(200) < np.array([[200], [30], [29]])
    with pytest.raises(InputError, match="row 3 has 29 samples by its attention_mask, expected 30 or more"):
        model.run(input_values=signals, attention_mask=mask.astype(np.int64))
    logits = model.run(input_values=signals[:2], attention_mask=mask[:2].astype(np.int64))["logits"]
    assert np.isfinite(logits).all()


def test_a_last_piece_too_short_for_a_vector_is_dropped(case):
    _, model = case
    options = {"chunk_length_s": 0.1, "stride_length_s": 0}
    assert model.transcribe(recordings()[4], **options) == model.transcribe(recordings()[4][:-1], **options)


def test_a_file_read_in_blocks_has_the_text_of_its_samples(case, tmp_path, monkeypatch):
    _, model = case
    samples = (np.random.default_rng(3).standard_normal(16_001) * 3000).astype("<i2")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    monkeypatch.setattr(sound_files, "BLOCK", 999)
    expected = model.transcribe(samples / np.float32(2**15), chunk_length_s=0.1)
    assert model.transcribe(tmp_path / "sound.wav", chunk_length_s=0.1) == expected
    with open(tmp_path / "sound.wav", "rb") as stream:
        assert model.transcribe(stream, chunk_length_s=0.1) == expected


def test_segments_end_at_pauses_and_before_they_are_too_long():
    texts = [[word.text for word in group] for group in grouped([Word(0, 0.2, "a"), Word(0.69, 0.8, "b")])]
    assert texts == [["a", "b"]]
    assert len([*grouped([Word(0, 0.2, "a"), Word(0.71, 0.8, "b")])]) == 2
    assert [len(group) for group in grouped([Word(i, i + 0.9, "x") for i in range(10)])] == [7, 3]
    wide = grouped([Word(i / 10, i / 10 + 0.1, "x" * 20) for i in range(9)])
    assert [len(group) for group in wide] == [4, 4, 1]  # of 83 characters, and 20
    assert [*grouped([])] == []


def streamed(model, sound, **options) -> list:
    return list(model.stream_transcript(sound, **options))


def test_a_stream_has_the_text_words_and_segments_of_the_whole(case):
    _, model = case
    for length in (None, 0.1, 0.03):
        for sound in recordings(1):
            expected = model.transcribe(sound, timestamps="word", chunk_length_s=length)
            pieces = streamed(model, sound, chunk_length_s=length)
            assert "".join(pieces) == expected.text
            assert tuple(streamed(model, sound, timestamps="word", chunk_length_s=length)) == expected.words
            assert (
                tuple(streamed(model, sound, timestamps="segment", chunk_length_s=length))
                == expected.segments
            )
    assert len(pieces) > 3


def grown(tokenizer, pieces: list[list[int]]) -> list[Transcript]:
    """The parts of a transcript, of vectors of a second."""
    growing = GrowingTranscript(tokenizer, (1, 1))
    return [*(growing.add(ids, [-1.0] * len(ids)) for ids in pieces), growing.add([], [], last=True)]


def test_a_stream_is_cleaned_up_as_the_whole(case):
    """Also where the clean-up joins the words of two pieces."""
    folder, _ = case
    tokenizer = CTCTokenizer(folder)
    tokenizer.vocabulary.lower, tokenizer.vocabulary.cleaning = True, Cleaning(True, times=False)
    tokens = {text: number for number, text in tokenizer.vocabulary.tokens.items()}
    draw = np.random.default_rng(4)
    alphabet = [*(tokens[text] for text in ("|", "'", "S", "N", "T", "<pad>")), tokens["|"]]
    quotes = 0
    for _ in range(200):
        ids = draw.choice(alphabet, 40).tolist()
        cuts = [0, *sorted(draw.choice(40, 5).tolist()), 40]
        pieces = [ids[a:b] for a, b in pairwise(cuts)]
        transcript = joined(grown(tokenizer, pieces))
        assert transcript.text == tokenizer.decode(ids)
        assert [(word.text, word.start, word.end) for word in transcript.words] == tokenizer.words(ids)
        quotes += " '" in tokenizer.raw(ids)
    assert quotes > 100


def test_a_segment_comes_after_its_pause(case):
    """Before the next word, and outputs of silence are not kept."""
    tokenizer = CTCTokenizer(case[0])
    blank, a, space = (
        next(i for i, t in tokenizer.vocabulary.tokens.items() if t == text) for text in ("<pad>", "A", "|")
    )
    growing = GrowingTranscript(tokenizer, (1, 10))
    assert growing.add([a, space], [-2.0, -3.0]).segments == ()
    [segment] = growing.add([blank] * 6 + [space], [0.0] * 7).segments
    assert (segment.start, segment.end, segment.text, segment.decoded.avg_logprob) == (0, 0.1, "A", -2)
    for _ in range(9):
        growing.add([blank] * 9 + [space], [0.0] * 10)
    assert len(growing.outputs) < 10


def test_text_without_spaces_comes_before_the_end(case):
    """Some languages have none."""
    tokenizer = CTCTokenizer(case[0])
    a, b, c, d = (
        next(i for i, text in tokenizer.vocabulary.tokens.items() if text == letter) for letter in "ABCD"
    )
    parts = grown(tokenizer, [[a, b], [b, c], [d]])
    assert [part.text for part in parts] == ["A", "B", "C", "D"]


def test_segments_know_their_tokens_and_their_likelihood(case, judge):
    """The mean log-probability of the likeliest tokens, by the original's logits."""
    folder, model = case
    sound = recordings()[4]
    with torch.no_grad():
        inputs = judge.feature_extractor(sound, sampling_rate=16_000, return_tensors="pt")
        logits = judge.model(**inputs).logits[0].double().numpy()
    best = logits.max(axis=-1) - np.log(np.exp(logits).sum(axis=-1))
    tokenizer, step = CTCTokenizer(folder), model.bundle.reader.facts.vector_stride
    for length in (None, 0.2):
        segments = model.transcribe(sound, timestamps="segment", chunk_length_s=length).segments
        assert len(segments) > 3
        for segment in segments:
            texts = [tokenizer.vocabulary.tokens[number] for number in segment.decoded.tokens]
            assert "".join(texts).replace("|", " ").split() == segment.text.split()
            if length is None:
                start, end = (round(time * 16_000 / step) for time in (segment.start, segment.end))
                assert segment.decoded.avg_logprob == pytest.approx(best[start:end].mean(), abs=1e-4)


def test_a_pipe_is_transcribed_while_it_is_open(case):
    """A piece is answered before the next is written, at a bounded distance."""
    _, model = case
    samples = (np.random.default_rng(5).standard_normal(32_000) * 3000).astype("<i2")
    expected = model.transcribe(samples / np.float32(2**15), chunk_length_s=0.2)
    reader, writer = os.pipe()
    with open(reader, "rb") as source, open(writer, "wb", buffering=0) as sink:
        stream = model.stream_transcript(RawPCM(source, 16_000), chunk_length_s=0.2)
        sink.write(samples[:8000].tobytes())
        text = next(stream)
        assert text
        sink.write(samples[8000:].tobytes() + b"x")  # half a sample at the end
        sink.close()
        assert text + "".join(stream) == expected
    wav = io.BytesIO()
    with wave.open(wav, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    raw = RawPCM(io.BytesIO(samples.tobytes()), 16_000)
    assert model.transcribe(raw) == model.transcribe(io.BytesIO(wav.getvalue()))
    assert sound_files.duration(RawPCM(io.BytesIO(samples.tobytes()), 16_000)) == 2


def test_batches_equal_the_original(case):
    """A batch of recordings of any length, as the checkpoint's own extractor pads and masks it.

    Norms over time amplify rounding in rows that are mostly padding.
    """
    folder, model = case
    if not model.audio.masked:
        pytest.skip("its extractor makes no mask")
    inputs = model.audio.inputs(recordings())
    logits = model.run(**inputs)["logits"]
    judge = transformers.AutoModelForCTC.from_pretrained(folder).eval()
    values, mask = (torch.from_numpy(array) for array in inputs.values())
    with torch.inference_mode():
        expected = judge(values, attention_mask=mask).logits
        lengths = judge._get_feat_extract_output_lengths(torch.tensor([*map(len, recordings())]))
    assert logits.shape == expected.shape
    bound = (2e-5 if judge.config.feat_extract_norm == "group" else 1e-5) * float(expected.abs().max())
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(logits[row, :length], expected[row, :length], rtol=0, atol=bound)


def test_a_file_of_another_rate_is_resampled(case, tmp_path):
    _, model = case
    samples = (np.sin(np.arange(9000) / 7) * 16_000).astype("<i2")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 8_000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    expected = model.audio.features(samples / np.float32(2**15), rate=8_000)
    assert expected.shape == (1, 18_000)
    np.testing.assert_array_equal(model.audio.features(tmp_path / "sound.wav"), expected)
    assert model.transcribe(tmp_path / "sound.wav")


def test_the_command_prints_the_same_texts(case, tmp_path):
    _, model = case
    files = []
    for number, sound in enumerate(recordings()[2:5]):
        files.append(tmp_path / f"{number}.wav")
        with wave.open(str(files[-1]), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes((sound * 2**14).astype("<i2").tobytes())
    command = ["transcribe", str(model.folder), *map(str, files), "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    texts = [json.loads(line)["text"] for line in result.stdout.splitlines()]
    assert texts == model.transcribe(files)
    assert len({*texts}) == 3
    result = CliRunner().invoke(main, [*command, "--language", "en"])
    assert result.exit_code == 2
    assert "language is an option of models that generate text" in result.output


def test_it_generates_and_streams_nothing(case):
    _, model = case
    for call in (model.generate, lambda sound: list(model.stream(sound))):
        with pytest.raises(InputError, match=r"\(use transcribe\); generate needs an export with --task"):
            call(recordings()[2])


def test_bad_inputs_are_named(case):
    _, model = case
    with pytest.raises(InputError, match="language is an option of models that generate text"):
        model.transcribe(recordings()[0], language="en")
    if not model.audio.masked:
        with pytest.raises(InputError, match=r"100 to 401 samples are in one batch, and the model has no m"):
            model.audio.features(recordings()[:2])
    least = 50 if model.bundle.manifest.model_type == "sew" else 30
    with pytest.raises(InputError, match=f"a sound has 20 samples at 16000 Hz, expected {least} or more"):
        model.transcribe(np.zeros(20, np.float32))
    with pytest.raises(InputError, match=r"is for automatic-speech-recognition \(use transcribe\); classify"):
        model.classify_audio(recordings()[0])
    with pytest.raises(InputError, match="no option chunk_length; expected one of timestamps"):
        model.transcribe(recordings()[0], chunk_length=3)
    for message, options in {
        "chunk_length_s is 0.0001, expected at least 0.": {"chunk_length_s": 0.0001},
        "stride_length_s needs chunk_length_s above 0": {"chunk_length_s": 0, "stride_length_s": "x"},
        "timestamps is 'char', expected segment or word": {"timestamps": "char"},
        "chunk_length_s is -1, expected seconds": {"chunk_length_s": -1},
        "stride_length_s is 'x', expected seconds": {"stride_length_s": "x"},
        r"stride_length_s is \(1, 2, 3\), expected seconds": {"stride_length_s": (1, 2, 3)},
        "pieces of 1 s have no samples beside contexts of 0.5 and 0.5 s": {
            "chunk_length_s": 1,
            "stride_length_s": 0.5,
        },
    }.items():
        with pytest.raises(InputError, match=message):
            model.transcribe(recordings()[0], **options)


def test_texts_behind_a_length_adapter_equal_the_pipeline(tmp_path):
    """The pipeline counts no adapter in the times of words: ours are as much later as vectors are fewer."""
    folder = save_recogniser(tmp_path / "in", **SHORTENED)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    judge = transformers.pipeline("automatic-speech-recognition", model=str(folder), device="cpu")
    [most] = Counter(judge(recordings()[4])["text"]).most_common(1)
    vocabulary["|"], vocabulary[most[0]] = vocabulary[most[0]], vocabulary["|"]
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    judge = transformers.pipeline("automatic-speech-recognition", model=str(folder), device="cpu")
    txexport.export(folder, tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu")
    facts = model.bundle.reader.facts
    assert (facts.least_samples, facts.vector_stride, facts.layer_stride) == (30, 80, 20)
    answers = [judge(sound, return_timestamps="word") for sound in recordings()]
    transcripts = model.transcribe(recordings(), timestamps="word")
    assert [one.text for one in transcripts] == [answer["text"] for answer in answers]
    times = [[(word.start / 4, word.end / 4, word.text) for word in one.words] for one in transcripts]
    assert times == [chunks(answer) for answer in answers]
    assert sum(map(len, times)) > 20
    last = transcripts[4].words[-1].end
    assert 0.9 < last <= recordings()[4].size / 16000 + 0.005
