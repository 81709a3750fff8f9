"""A column of sounds becomes one of texts, or with times one of structs."""

import json
import wave

import numpy as np
import pytest
from helpers.speech import recordings, save_recogniser
from helpers.whisper_cases import save, sound

import txexport
from txexport.batch import Predictor
from txexport.tasks import METHODS

SOUNDS = {"letters": recordings()[2:5], "whisper": [sound(2.3), sound(0.7, 1), sound(1.5, 2)]}


@pytest.fixture(scope="module", params=SOUNDS)
def case(request, tmp_path_factory):
    """A bundle, and its sounds as files."""
    folder = tmp_path_factory.mktemp("sounds")
    if request.param == "letters":
        vocabulary = save_recogniser(folder / "in") / "vocab.json"
        numbers = json.loads(vocabulary.read_text())
        numbers["|"], numbers["I"] = numbers["I"], numbers["|"]
        vocabulary.write_text(json.dumps(numbers))
    else:
        save(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    files = []
    for number, samples in enumerate(SOUNDS[request.param]):
        files.append(folder / f"{number}.wav")
        with wave.open(str(files[-1]), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes((samples * 2**14).astype("<i2").tobytes())
    return folder / "out", files


def fields(one) -> dict:
    return {"start": one.start, "end": one.end, "text": one.text}


def test_transcripts_with_times_are_structs(case):
    bundle, files = case
    with txexport.load(bundle, device="cpu") as model:
        transcripts = model.transcribe(files, timestamps="segment")
        texts = model.transcribe(files)
    expected = [
        {"text": one.text, "segments": [*map(fields, one.segments)], "words": [], "language": one.language}
        for one in transcripts
    ]
    assert sum(len(one["segments"]) for one in expected) > 3
    timed = Predictor(bundle, "transcribe", timestamps="segment", device="cpu")
    by_name = timed({"sound": np.array([*map(str, files)])})["transcript"]
    assert [json.loads(json.dumps(row)) for row in by_name] == expected
    plain = Predictor(bundle, "transcribe", device="cpu", on_error="null")
    columns = plain({"sound": np.array([file.read_bytes() for file in files] + [b"RIFF"], object)})
    assert [*columns["transcript"]] == [*texts, None]
    assert columns["transcript_error"][3].startswith("sound file has 4 bytes, too few")


def test_arrow_has_the_type_of_the_table(case):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    bundle, files = case
    predict = Predictor(bundle, "transcribe", timestamps="segment", device="cpu", on_error="null")
    table = pyarrow.table({"sound": [*map(str, files), "gone.wav"]})
    column = predict(table)["transcript"]
    assert column.type == predict(table.slice(0, 0))["transcript"].type
    spelt = str(column.type).replace("list<item: ", "array<").replace(": ", ":").replace(", ", ",")
    assert spelt == METHODS["transcribe"].timed_type
    rows = column.to_pylist()
    assert rows[3] is None
    assert rows[0]["segments"][0]["text"]
    assert all(row["text"] for row in rows[:3])
