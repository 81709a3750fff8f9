"""`txexport transcribe`: formats, folders of recordings, reruns, and sounds from a pipe."""

import io
import json
import os
import subprocess
import sys
import threading
import wave

import numpy as np
import pytest
from click.testing import CliRunner
from helpers import whisper_cases
from helpers.speech import recordings, save_recogniser

import txexport
from txexport.cli.main import main
from txexport.runtime.tasks.transcript import to_srt, to_text, to_vtt

RATE = 16_000


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """A CTC model; its most frequent letter is the space between words."""
    folder = tmp_path_factory.mktemp("letters")
    vocabulary = save_recogniser(folder / "in") / "vocab.json"
    numbers = json.loads(vocabulary.read_text())
    numbers["|"], numbers["I"] = numbers["I"], numbers["|"]
    vocabulary.write_text(json.dumps(numbers))
    txexport.export(folder / "in", folder / "out", only="native")
    return txexport.load(folder / "out", device="cpu")


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    whisper_cases.save(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    return txexport.load(folder / "out", device="cpu")


def written(path, samples: np.ndarray):
    """A WAV file of samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((samples * 2**14).astype("<i2").tobytes())
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder of three recordings, one of them below it, and a file that is no sound."""
    sounds = recordings()[2:5]
    for name, sound in zip(("b.wav", "a.WAV", "day/c.wav"), sounds, strict=True):
        written(tmp_path / "recordings" / name, sound)
    (tmp_path / "recordings/notes.md").write_text("x")
    return tmp_path / "recordings"


def invoke(model, *arguments, **options) -> tuple[int, str, str]:
    command = ["transcribe", str(model.folder), *map(str, arguments)]
    result = CliRunner().invoke(main, command, **options)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("kind", ["letters", "whisper"])
def test_formats_are_those_of_the_transcript(kind, request, tmp_path):
    model = request.getfixturevalue(kind)
    file = written(tmp_path / "talk.wav", whisper_cases.sound(3.3))
    transcript = model.transcribe(file, timestamps="segment")
    assert invoke(model, file) == (0, f"{model.transcribe(file).lstrip()}\n", "")
    assert invoke(model, file, "--timestamps", "segment") == (0, to_text(transcript, "segment"), "")
    assert invoke(model, file, "--format", "srt") == (0, to_srt(transcript), "")
    assert invoke(model, file, "--format", "vtt") == (0, to_vtt(transcript), "")
    assert len(transcript.segments) > 1
    _, output, _ = invoke(model, file, "--format", "json")
    record = json.loads(output)
    assert record["sound"] == str(file)
    assert [one["start"] for one in record["segments"]] == [one.start for one in transcript.segments]
    for ending in ("srt", "vtt", "json", "txt"):  # the format is that of the file
        target = tmp_path / f"out.{ending}"
        assert invoke(model, file, "--output", target) == (0, "", "")
    assert (tmp_path / "out.srt").read_text() == to_srt(transcript)
    assert (tmp_path / "out.vtt").read_text() == to_vtt(transcript)
    assert (tmp_path / "out.txt").read_text() == f"{model.transcribe(file).lstrip()}\n"
    assert json.loads((tmp_path / "out.json").read_text())["text"] == transcript.text


def test_words_have_subtitles_of_their_own(letters, tmp_path):
    file = written(tmp_path / "talk.wav", recordings()[4])
    transcript = letters.transcribe(file, timestamps="word")
    options = file, "--timestamps", "word"
    assert invoke(letters, *options, "--format", "srt") == (0, to_srt(transcript, "word"), "")
    assert invoke(letters, *options) == (0, to_text(transcript, "word"), "")
    record = json.loads(invoke(letters, *options, "--json")[1])
    assert len(record["words"]) == len(transcript.words) > 9


def test_windows_of_whisper_come_as_they_are_decoded(whisper):
    """Together they are the transcript, and its segments know their windows."""
    samples = whisper_cases.sound(3.3)
    for options in ({}, {"timestamps": "word"}, {"chunk_length_s": 0.9}):
        expected = whisper.transcribe(samples, **{"timestamps": "segment"} | options)
        plain = options | {"timestamps": None}
        assert "".join(whisper.stream_transcript(samples, **plain)) == whisper.transcribe(samples, **plain)
        streamed = [*whisper.stream_transcript(samples, **{"timestamps": "segment"} | options)]
        assert streamed == [*(expected.words if "timestamps" in options else expected.segments)]
    assert len([*whisper.stream_transcript(samples)]) > 2
    segments = whisper.transcribe(samples, timestamps="segment", logprob_threshold=-99.0).segments
    starts = [one.decoded.seconds for one in segments]
    assert starts == sorted(starts)
    assert len({*starts}) > 2
    for one in segments:
        assert one.decoded.seconds <= one.start
        assert one.decoded.avg_logprob < 0
        times = [token for token in one.decoded.tokens if token >= whisper_cases.FIRST_TIME]
        window = 0.02 * (times[0] - whisper_cases.FIRST_TIME)
        assert one.start == pytest.approx(one.decoded.seconds + window, abs=0.011)


def test_any_option_is_set_by_its_name(whisper, tmp_path):
    file = written(tmp_path / "talk.wav", whisper_cases.sound(2.3))
    options = {"temperature": [0, 0.4], "logprob_threshold": -1, "condition_on_prev_tokens": True, "seed": 3}
    pairs = [f"{name}={json.dumps(value)}" for name, value in options.items()]
    chosen = [word for pair in pairs for word in ("--set", pair)]
    expected = whisper.transcribe(file, **options)
    assert invoke(whisper, file, *chosen) == (0, f"{expected.lstrip()}\n", "")
    assert expected != whisper.transcribe(file)


@pytest.mark.parametrize("kind", ["letters", "whisper"])
def test_a_folder_of_recordings_becomes_a_folder_of_subtitles(kind, request, folder, tmp_path):
    model, results = request.getfixturevalue(kind), tmp_path / "subtitles"
    options = folder, "--format", "srt", "--output", results
    assert invoke(model, *options) == (0, "", "")
    files = {path.relative_to(results).as_posix(): path.read_text() for path in results.rglob("*.srt")}
    sources = {"a.srt": "a.WAV", "b.srt": "b.wav", "day/c.srt": "day/c.wav"}
    expected = {
        name: model.transcribe(folder / source, timestamps="segment") for name, source in sources.items()
    }
    assert files == {name: to_srt(transcript) for name, transcript in expected.items()}
    assert len({*files.values()}) > 1
    _, output, _ = invoke(model, folder)
    headers = [line for line in output.splitlines() if line.startswith("==>")]
    assert headers == [f"==> {folder / name} <==" for name in ("a.WAV", "b.wav", "day/c.wav")]


def test_a_bad_recording_costs_a_line_and_a_rerun_does_the_rest(letters, folder, tmp_path):
    (folder / "aa.wav").write_bytes(b"RIFF")
    complete = (folder / "b.wav").read_bytes()
    (folder / "b.wav").write_bytes(complete[:-100])  # its header is right
    results = tmp_path / "texts"
    code, output, noise = invoke(letters, folder, "--output", results)
    assert (code, output) == (1, "")
    first, second, last = noise.splitlines()
    sound = folder / "aa.wav"
    assert first == f"error: input 2: sound {sound} has 4 bytes, too few for a sound; copy it again"
    assert second.startswith(f"error: input 3: sound {folder / 'b.wav'} is cut short")
    assert last == "error: skipped 2 of 4"
    assert sorted(path.name for path in results.rglob("*.txt")) == ["a.txt", "c.txt"]
    (folder / "b.wav").write_bytes(complete)
    (folder / "aa.wav").unlink()
    (results / "a.txt").write_text("corrected by hand")
    code, output, noise = invoke(letters, folder, "--output", results)
    assert (code, output, noise) == (0, "", "2 of 3 have a transcript already; --overwrite replaces them\n")
    assert (results / "b.txt").read_text() == f"{letters.transcribe(folder / 'b.wav')}\n"
    assert (results / "a.txt").read_text() == "corrected by hand"
    assert invoke(letters, folder, "--output", results, "--overwrite") == (0, "", "")
    assert (results / "a.txt").read_text() == f"{letters.transcribe(folder / 'a.WAV')}\n"
    assert not list(results.rglob(".*"))


def test_results_are_written_one_by_one(letters, folder, tmp_path):
    """Those before an error that ends the command are there."""
    (folder / "b.wav").write_bytes(b"RIFF")
    code, _, noise = invoke(letters, folder, "--output", tmp_path / "texts", "--on-error", "stop")
    assert code == 2
    assert "answered 1 before it" in noise
    assert [path.name for path in (tmp_path / "texts").iterdir()] == ["a.txt"]


def raw(count: int = 48_000) -> bytes:
    return (np.random.default_rng(5).standard_normal(count) * 3000).astype("<i2").tobytes()


def test_raw_samples_are_transcribed_from_a_pipe_while_it_is_open(letters):
    """As `arecord -f S16_LE -r 16000 -c1 -t raw | txexport transcribe BUNDLE - --raw 16000`."""
    samples = np.frombuffer(raw(), "<i2") / np.float32(2**15)
    command = [sys.executable, "-m", "txexport", "transcribe", letters.folder, "-", "--raw", str(RATE)]
    expected = letters.transcribe(samples, chunk_length_s=0.2)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*command, "--chunk-length-s", "0.2"], **pipes) as process:
        process.stdin.write(raw()[:32_000])
        process.stdin.flush()
        begun = process.stdout.read(3).decode()
        assert len(begun) == 3
        process.stdin.write(raw()[32_000:])
        process.stdin.close()
        assert begun + process.stdout.read().decode() == f"{expected}\n"
        assert process.wait(60) == 0


@pytest.mark.parametrize("kind", ["letters", "whisper"])
def test_a_sound_on_standard_input_has_the_transcript_of_its_file(kind, request, tmp_path):
    model = request.getfixturevalue(kind)
    file = written(tmp_path / "talk.wav", whisper_cases.sound(2.5))
    sound = {"input": file.read_bytes()}
    assert invoke(model, "-", **sound) == (0, f"{model.transcribe(file).lstrip()}\n", "")
    transcript = model.transcribe(file, timestamps="segment")
    assert invoke(model, "-", "--timestamps", "segment", **sound) == (0, to_text(transcript, "segment"), "")
    assert invoke(model, "-", "--format", "srt", **sound) == (0, to_srt(transcript), "")
    invoke(model, "-", "--output", tmp_path / "out.vtt", **sound)
    assert (tmp_path / "out.vtt").read_text() == to_vtt(transcript)
    assert json.loads(invoke(model, "-", "--json", **sound)[1])["text"] == model.transcribe(file)
    code, _, noise = invoke(model, "-", input=b"no sound")
    assert code == 2
    assert noise.startswith("error: sound ")


def test_other_formats_come_through_a_pipe_too(letters, tmp_path):
    soundfile = pytest.importorskip("soundfile")
    flac = io.BytesIO()
    soundfile.write(flac, whisper_cases.sound(1.2), RATE, format="FLAC")
    (tmp_path / "talk.flac").write_bytes(flac.getvalue())
    command = [sys.executable, "-m", "txexport", "transcribe", letters.folder, "-"]
    result = subprocess.run(command, input=flac.getvalue(), stdout=subprocess.PIPE, check=True)
    assert result.stdout.decode() == f"{letters.transcribe(tmp_path / 'talk.flac')}\n"


def test_names_of_recordings_come_from_a_file(letters, folder, tmp_path):
    (tmp_path / "list").write_bytes(f"{folder / 'b.wav'}\n\xff\n".encode("latin-1"))
    code, output, noise = invoke(letters, "--file", tmp_path / "list", "--on-error", "skip")
    assert code == 1
    assert output == f"==> {folder / 'b.wav'} <==\n{letters.transcribe(folder / 'b.wav')}\n"
    assert noise.splitlines()[0].endswith("list is not UTF-8: byte 0 is 0xff")


def test_wrong_options_are_one_line(letters, whisper, folder, tmp_path):
    file = folder / "b.wav"
    written(tmp_path / "other/b.wav", recordings()[2])
    (tmp_path / "empty").mkdir()
    for message, model, arguments in (
        ("give --json or --format srt, not both", letters, (file, "--json", "--format", "srt")),
        (
            "subtitles of several sounds are several files; give --output FOLDER",
            letters,
            (folder, "--format", "srt"),
        ),
        ("--raw is for standard input; give - in place of SOUNDS", letters, (file, "--raw", "16000")),
        ("would both be written to", letters, (file, tmp_path / "other/b.wav", "--output", tmp_path / "out")),
        (f"folder {tmp_path / 'empty'} has no sound files", letters, (tmp_path / "empty",)),
        ("language is an option of models that generate text", letters, (file, "--language", "en")),
        ("chunk_length_s is -1.0, expected seconds from 0", letters, (file, "--chunk-length-s", "-1")),
        ("language 'xx' is not known", whisper, (file, "--language", "xx")),
        ("rate", letters, ("-", "--raw", "999999")),
        ("sound gone.wav cannot be read", letters, ("gone.wav",)),
        ("a.wav is an address on the web; download it", letters, ("https://example.com/a.wav",)),
    ):
        code, output, noise = invoke(model, *arguments, input=raw(9))
        assert (code, output.strip()) == (2, ""), message
        assert message in noise
        assert noise.count("\n") == 1


def test_an_output_does_not_replace_its_sound(letters, tmp_path):
    sound = tmp_path / "a.wav"
    written(sound, recordings()[0])
    before = sound.read_bytes()
    for name, message in (
        ("a.wav", "would replace an input"),
        ("a.docx", "ends in '.docx', expected"),
    ):
        code, _, noise = invoke(letters, sound, "--output", tmp_path / name)
        assert code == 2
        assert message in noise
    listed = tmp_path / "list"
    listed.write_text(f"{sound}\n")
    code, _, noise = invoke(letters, "--file", listed, "--format", "text", "--output", sound)
    assert (code, "would replace an input" in noise) == (2, True)
    code, _, noise = invoke(letters, "-", "--output", tmp_path / "a.docx", input=raw(9))
    assert (code, "ends in '.docx'" in noise) == (2, True)
    assert {path.name for path in tmp_path.iterdir()} == {"a.wav", "list"}
    assert invoke(letters, sound, "--json", "--output", tmp_path / "a.jsonl")[0] == 0
    assert json.loads((tmp_path / "a.jsonl").read_text())
    assert sound.read_bytes() == before


def test_a_transcript_replaces_a_file_only_with_overwrite(letters, tmp_path):
    sound, mine = written(tmp_path / "a.wav", recordings()[0]), tmp_path / "mine.txt"
    mine.write_text("my own notes")
    content = {"input": sound.read_bytes()}
    for command in ((sound,), ("-",)):
        code, _, noise = invoke(letters, *command, "--output", mine, **content)
        assert (code, mine.read_text()) == (2, "my own notes")
        assert f"--output {mine} exists; --overwrite replaces it" in noise
    assert invoke(letters, sound, "--output", mine, "--overwrite") == (0, "", "")
    assert mine.read_text() == f"{letters.transcribe(sound)}\n"
    (tmp_path / "empty.txt").touch()  # as mktemp makes it
    assert invoke(letters, sound, "--output", tmp_path / "empty.txt") == (0, "", "")


def test_a_named_pipe_is_opened_once(letters, folder, tmp_path):
    """As a shell's <(command) is: what one reader has read, no other gets."""
    pipe, content = tmp_path / "pipe", (folder / "b.wav").read_bytes()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writer.start()
    assert invoke(letters, pipe) == (0, f"{letters.transcribe(folder / 'b.wav')}\n", "")
    writer.join(10)
    assert not writer.is_alive()
