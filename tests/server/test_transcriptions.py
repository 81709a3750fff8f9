"""Transcriptions and translations of sounds, as OpenAI's client asks for and reads them."""

import io
import json
import re
import sys
import time
import wave

import httpx
import numpy as np
import openai
import pytest
from helpers import whisper_cases
from helpers.serving import running, wait_until
from helpers.speech import recordings, save_moonshine, save_parakeet, save_recogniser, save_speech_to_text
from openai.types.audio import TranscriptionVerbose, TranslationVerbose
from transformers.models.whisper.tokenization_whisper import LANGUAGES

from txexport.exporter import export
from txexport.runtime.preprocessing import sound_files
from txexport.runtime.tasks import speech_recognition
from txexport.runtime.tasks.transcript import to_srt, to_vtt
from txexport.server import language_names, transcriptions
from txexport.server.served import Limits

LIMITS = Limits(cache_tokens=4096, max_new_tokens=50, max_waiting=9, max_body=10**6, timeout=60)
RATE = 16_000


def wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as stream:
        stream.setparams((1, 2, RATE, 0, "NONE", ""))
        stream.writeframes((samples * 2**14).astype("<i2").tobytes())
    return file.getvalue()


LONG = wav(whisper_cases.sound(3.3))  # several windows of the Whisper model
SHORT = wav(whisper_cases.sound(0.7, seed=3))
WORDS = wav(recordings()[4])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address and the models of a server of two CTC models and three of sequences."""
    folder = tmp_path_factory.mktemp("speech")
    vocabulary = save_recogniser(folder / "letters") / "vocab.json"
    numbers = json.loads(vocabulary.read_text())
    numbers["|"], numbers["I"] = numbers["I"], numbers["|"]  # likely, so that there are many words
    vocabulary.write_text(json.dumps(numbers))
    whisper_cases.save(folder / "whisper")
    save_moonshine(folder / "moonshine", max_length=9)
    save_parakeet(folder / "pieces")
    save_speech_to_text(folder / "translated", languages=True, max_length=9, suppress_tokens=[1])
    names = ("letters", "pieces", "whisper", "moonshine", "translated")
    bundles = {name: folder / f"{name}-bundle" for name in names}
    for name, bundle in bundles.items():
        export(folder / name, bundle, only="native")
    with running(bundles, LIMITS) as (address, served):
        yield address, served


@pytest.fixture(scope="module")
def audio(server):
    return openai.OpenAI(base_url=f"{server[0]}/v1", api_key="any", max_retries=0).audio


@pytest.fixture(scope="module")
def model_of(server):
    return lambda name: server[1][name].model


def ask(audio, model: str, sound: bytes, **options):
    return audio.transcriptions.create(model=model, file=("a.wav", sound), **options)


def sent(server, path="transcriptions", **fields) -> httpx.Response:
    """The answer to a form as it is sent."""
    return httpx.post(
        f"{server[0]}/v1/audio/{path}", files={"file": ("a.wav", LONG)}, data={"model": "whisper", **fields}
    )


@pytest.mark.parametrize("name", ["letters", "pieces", "whisper"])
@pytest.mark.parametrize("sound", [LONG, SHORT])
def test_formats_are_those_of_the_transcript(name, sound, audio, model_of):
    expected = model_of(name).transcribe(io.BytesIO(sound), timestamps="segment")
    text = model_of(name).transcribe(io.BytesIO(sound))
    answer = ask(audio, name, sound)
    assert answer.text == text
    assert answer.usage.seconds == pytest.approx((len(sound) - 44) / 2 / RATE)
    assert ask(audio, name, sound, response_format="text") == f"{text}\n"
    assert ask(audio, name, sound, response_format="srt") == to_srt(expected)
    assert ask(audio, name, sound, response_format="vtt") == to_vtt(expected)
    assert to_srt(expected).count("-->") > 0


@pytest.mark.parametrize("name", ["letters", "whisper"])
def test_verbose_json_is_what_the_client_parses(name, audio, model_of, server):
    expected = model_of(name).transcribe(io.BytesIO(LONG), timestamps="segment")
    answer = ask(audio, name, LONG, response_format="verbose_json")
    assert isinstance(answer, TranscriptionVerbose)
    TranscriptionVerbose.model_validate(answer.model_dump(), strict=True)
    assert (answer.text, answer.duration) == (expected.text, pytest.approx(3.3))
    assert answer.task == "transcribe"
    assert answer.language == ("unknown" if name == "letters" else LANGUAGES[expected.language])
    assert [one.id for one in answer.segments] == list(range(len(expected.segments)))
    for segment, parsed in zip(expected.segments, answer.segments, strict=True):
        assert (parsed.text, parsed.start) == (segment.text, segment.start)
        assert parsed.end == (max(segment.start, 3.3) if segment.end is None else segment.end)
        assert 0 <= parsed.seek / 100 <= parsed.start
        assert 0 <= parsed.no_speech_prob < 1
        assert parsed.compression_ratio > 0
        assert parsed.temperature == 0
        assert parsed.avg_logprob < 0
        assert len(parsed.tokens) > 0
    assert len(answer.segments) > 1
    assert answer.words is None


@pytest.mark.parametrize("name", ["letters", "pieces", "whisper"])
def test_words_have_times(name, audio, model_of):
    expected = model_of(name).transcribe(io.BytesIO(WORDS), timestamps="word")
    options = {"response_format": "verbose_json", "timestamp_granularities": ["word"]}
    answer = ask(audio, name, WORDS, **options)
    assert [(one.word, one.start, one.end) for one in answer.words] == [
        (one.text.strip(), one.start, one.end) for one in expected.words
    ]
    assert len(answer.words) > 1
    assert answer.segments is None
    both = ask(audio, name, WORDS, **options | {"timestamp_granularities": ["word", "segment"]})
    assert both.words == answer.words
    assert len(both.segments) == len(expected.segments)


@pytest.mark.parametrize("name", ["letters", "whisper", "moonshine", "translated"])
@pytest.mark.parametrize("sound", [LONG, SHORT])
def test_a_stream_is_the_text_in_pieces(name, sound, audio, model_of):
    options = {"chunk_length_s": 0.2} if name == "letters" else {}
    stream = [*ask(audio, name, sound, stream=True, extra_body=options)]
    assert {one.type for one in stream[:-1]} == {"transcript.text.delta"}
    assert stream[-1].type == "transcript.text.done"
    text = "".join(one.delta for one in stream[:-1])
    assert text == stream[-1].text == model_of(name).transcribe(io.BytesIO(sound), **options)
    # In the running batch, tokens that are ready together are one piece: how many depends on the machine.
    batched = name in ("moonshine", "translated") or (name == "whisper" and sound is SHORT)
    assert len(stream) > (1 if batched else 2)


@pytest.mark.parametrize("name", ["letters", "whisper"])
def test_beams_are_the_models(name, audio, model_of):
    text = ask(audio, name, SHORT, extra_body={"num_beams": 3}).text
    assert text == model_of(name).transcribe(io.BytesIO(SHORT), num_beams=3)
    assert text != ask(audio, name, SHORT).text


@pytest.mark.filterwarnings("ignore:deprecated")  # of OpenAI's client
def test_translations_are_english(audio, model_of, server):
    model = model_of("whisper")
    expected = model.transcribe(io.BytesIO(LONG), task="translate", timestamps="segment")
    create = audio.translations.create
    assert create(model="whisper", file=("a.wav", LONG)).text == expected.text
    assert create(model="whisper", file=("a.wav", LONG), response_format="srt") == to_srt(expected)
    answer = create(model="whisper", file=("a.wav", LONG), response_format="verbose_json")
    TranslationVerbose.model_validate(answer.model_dump(), strict=True)
    assert answer.language == "english"
    assert sent(server, "translations", response_format="verbose_json").json()["task"] == "translate"
    with pytest.raises(openai.BadRequestError, match="letters transcribes and does not translate"):
        create(model="letters", file=("a.wav", LONG))


def test_language_prompt_and_temperature_are_the_models_options(audio, model_of):
    model = model_of("whisper")
    for options in ({"language": "fr"}, {"prompt": "the cat"}, {"language": "en", "prompt": "a dog"}):
        expected = model.transcribe(io.BytesIO(LONG), timestamps="segment", **options)
        answer = ask(audio, "whisper", LONG, response_format="verbose_json", **options)
        assert answer.text == expected.text
        assert answer.language == LANGUAGES[expected.language]
    for temperature, options in ((0.5, {"temperature": 0.5}), (0, transcriptions.FALLBACK)):
        expected = model.transcribe(io.BytesIO(LONG), seed=4, **options)
        answer = ask(audio, "whisper", LONG, temperature=temperature, extra_body={"seed": 4})
        assert answer.text == expected
    options = {"temperature": 0, "response_format": "verbose_json", "extra_body": {"seed": 4}}
    temperatures = {one.temperature for one in ask(audio, "whisper", LONG, **options).segments}
    assert temperatures <= {*transcriptions.FALLBACK["temperature"]}
    assert max(temperatures) > 0


def test_other_formats_are_read_through_soundfile(audio, model_of, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    for kind in ("FLAC", "OGG", "MP3"):
        file = io.BytesIO()
        soundfile.write(file, whisper_cases.sound(1.2), RATE, format=kind)
        expected = model_of("letters").transcribe(io.BytesIO(file.getvalue()))
        assert ask(audio, "letters", file.getvalue()).text == expected
    monkeypatch.setitem(sys.modules, "soundfile", None)
    message = r"sound file is not a PCM WAV file.*; convert it to one: this server reads no other format"
    with pytest.raises(openai.BadRequestError) as caught:
        ask(audio, "letters", file.getvalue())
    assert re.fullmatch(message, caught.value.body["message"])
    assert caught.value.param == "file"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"response_format": "xml"}, 'response_format is "xml", expected "json" or "text" or "srt"'),
        ({"temperature": "2"}, "temperature is 2.0, expected a number from 0 to 1"),
        ({"temperature": "warm"}, 'temperature is "warm", expected a number'),
        ({"temperature": "nan"}, "temperature is NaN, expected a number"),
        ({"stream": "maybe"}, 'stream is "maybe", expected true or false'),
        ({"stream": "true", "response_format": "srt"}, "stream is not served with response_format srt"),
        ({"timestamp_granularities[]": "word"}, "timestamp_granularities needs response_format verbose_json"),
        (
            {"timestamp_granularities[]": "letter", "response_format": "verbose_json"},
            'timestamp_granularities is ["letter"], expected a list of "segment" or "word"',
        ),
        ({"language": "xx"}, "language 'xx' is not known"),
        ({"seed": "1.5"}, 'seed is "1.5", expected a whole number'),
        ({"include[]": "logprobs"}, 'no field "include"; expected some of model'),
    ],
)
def test_wrong_fields_are_refused_in_one_line(fields, message, server):
    answer = sent(server, **fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_a_sound_of_days_is_refused_before_it_is_transcribed(server, audio, monkeypatch):
    monkeypatch.setattr(transcriptions, "LONGEST", 3.0)
    with pytest.raises(openai.BadRequestError, match="a sound is longer than 3 seconds; cut it"):
        ask(audio, "letters", LONG)
    assert sound_files.duration(io.BytesIO(LONG), 4) == pytest.approx(3.3)


def test_a_client_that_leaves_frees_the_model(server, audio, monkeypatch):
    """After the part that is being made; the next request does not wait for the rest."""
    parts, counted = speech_recognition.parts, []

    def slow(*arguments, **options):
        for part in parts(*arguments, **options):
            counted.append(part)
            time.sleep(0.2)
            yield part

    monkeypatch.setattr(speech_recognition, "parts", slow)
    form = {"files": {"file": ("a.wav", LONG)}, "data": {"model": "letters", "chunk_length_s": "0.1"}}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server[0]}/v1/audio/transcriptions", **form, timeout=0.7)
    wait_until(lambda: len(counted) > 0)
    time.sleep(0.5)
    count = len(counted)
    assert count < 20
    monkeypatch.undo()
    assert ask(audio, "letters", SHORT).text
    assert len(counted) <= count + 1


def test_requests_are_counted_by_endpoint(server):
    sent(server, "translations")
    text = httpx.get(f"{server[0]}/metrics").text
    assert 'txexport_requests_total{endpoint="translations",status="200"}' in text


def test_a_key_and_a_size_are_needed_as_elsewhere(server):
    bundle = server[1]["letters"].model.folder
    limits = Limits(cache_tokens=4096, max_new_tokens=50, max_waiting=9, max_body=2**15, timeout=60)
    with running({"letters": bundle}, limits, keys=["k"]) as (address, _):
        for name in ("transcriptions", "translations"):
            form = {"files": {"file": ("a.wav", LONG)}, "data": {"model": "letters"}}
            url = f"{address}/v1/audio/{name}"
            assert httpx.post(url, **form).status_code == 401
            assert httpx.post(url, **form, headers={"authorization": "Bearer k"}).status_code == 413


def test_languages_have_the_names_of_whisper():
    assert language_names.LANGUAGES == LANGUAGES


def test_a_language_of_a_translation_is_its_first_token(audio, model_of):
    model = model_of("translated")
    expected = {one: model.transcribe(io.BytesIO(LONG), language=one) for one in ("fr", "de")}
    for language, text in expected.items():
        assert ask(audio, "translated", LONG, language=language).text == text
    assert len({*expected.values()}) == 2
    with pytest.raises(openai.BadRequestError, match="language is 'en', expected one of de, es"):
        ask(audio, "translated", LONG, language="en")


def test_a_model_without_times_says_so(audio, model_of):
    """Its text is that of `transcribe`, at a temperature of 0 and above too; times, languages are refused."""
    model = model_of("moonshine")
    for options in ({}, {"temperature": 0}, {"temperature": 0.9, "seed": 3}):
        expected = model.transcribe(io.BytesIO(LONG), **options)
        extra = {"seed": options["seed"]} if "seed" in options else {}
        chosen = {name: value for name, value in options.items() if name != "seed"}
        assert ask(audio, "moonshine", LONG, extra_body=extra, **chosen).text == expected
    for options, message in (
        ({"response_format": "srt"}, "timestamps is an option"),
        ({"language": "fr"}, "language is 'fr'"),
        ({"prompt": "a"}, "prompt is an option"),
    ):
        with pytest.raises(openai.BadRequestError, match=message):
            ask(audio, "moonshine", LONG, **options)
