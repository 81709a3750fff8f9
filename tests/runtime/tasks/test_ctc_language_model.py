"""Beams of CTC models and their n-gram language models, beside pyctcdecode and transformers' pipeline."""

import json
import math
import shutil
import sys

import numpy as np
import pytest
import transformers
from click.testing import CliRunner
from helpers import ctc_beams
from helpers.ctc_beams import CASES, FILE, LABELS, ROWS, TEXTS
from helpers.language_model import save_language_model, sentences
from helpers.speech import recordings, save_recogniser, write_wav

import txexport
from txexport.cli.main import main
from txexport.errors import BundleError, InputError, MissingLibraryError, UnsupportedError
from txexport.runtime.preprocessing.ctc_beams import BeamSearch
from txexport.runtime.preprocessing.ctc_tokenizer import CTCTokenizer
from txexport.runtime.preprocessing.ngram_language_model import NgramLanguageModel, read_labels

WITHOUT = [name for name, (_, weights) in CASES.items() if weights is None]
BEAMS = 15
# Of odd lengths, and short: with random weights, most tokens of every vector are likely.
SOUNDS = [
    sound[:count]
    for sound, count in zip(recordings(), (100, 401, 900, 1333, 1601, 1200, 999, 1717), strict=True)
]


def kenlm():
    pytest.importorskip("kenlm", reason="needs the extra ctc-lm")


def save(folder, **config):
    """A recogniser whose most frequent letter is the space between words, and its labels."""
    vocabulary = save_recogniser(folder, **config) / "vocab.json"
    numbers = json.loads(vocabulary.read_text())
    numbers["|"], numbers["I"] = numbers["I"], numbers["|"]
    vocabulary.write_text(json.dumps(numbers))
    special = {"<pad>": "", "|": " ", "<unk>": "⁇"}
    return [special.get(text, text) for text in sorted(numbers, key=numbers.__getitem__)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    save(folder / "in")
    txexport.export(folder / "in", folder / "out")
    return txexport.load(folder / "out", device="cpu")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint with a language model."""
    folder = tmp_path_factory.mktemp("language-model")
    labels = save(folder / "in")
    save_language_model(folder / "in", labels, sentences(300, "ABCDEGHILMNORSTU"))
    (folder / "in/language_model/.hidden").write_text("x")
    txexport.export(folder / "in", folder / "out")
    return folder


@pytest.fixture(scope="module")
def model(checkpoint):
    return txexport.load(checkpoint / "out", device="cpu")


def log_softmax(row):
    return row - np.log(np.exp(row).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("case", CASES)
def test_texts_times_and_scores_are_those_of_pyctcdecode(case, tmp_path):
    width, weights = CASES[case]
    scores = None
    if weights is not None:
        kenlm()
        save_language_model(tmp_path, LABELS, TEXTS, **weights)
        scores = NgramLanguageModel(tmp_path)
    tokenizer = CTCTokenizer.of_labels(LABELS)
    for row, expected in zip(ROWS, json.loads(FILE.read_text("utf-8"))[case], strict=True):
        search, tokens = BeamSearch(LABELS, width, scores), []
        for first in range(0, len(row), 9):
            search.add(log_softmax(row[first : first + 9]))
            tokens += search.settle()
        rest, texts = search.finish()
        assert [[*word] for word in tokenizer.words([*tokens, *rest])] == expected["words"]
        assert [" ".join(text) for text, _, _ in texts[: ctc_beams.MOST]] == [
            text for text, _, _ in expected["texts"]
        ]
        for (_, *ours), (_, *theirs) in zip(texts, expected["texts"], strict=False):
            assert np.allclose(ours, theirs, rtol=0, atol=1e-4 if weights else 1e-9)  # KenLM has float32


def test_the_recorded_texts_are_read():
    recorded = json.loads(FILE.read_text("utf-8"))
    assert recorded.keys() == CASES.keys()
    best = {name: [row["texts"][0][0] for row in rows] for name, rows in recorded.items()}
    assert sum(a != b for a, b in zip(best["beams"], best["language model"], strict=True)) > 5
    assert sum(len(row["texts"]) for row in recorded["many beams"]) > 100


def times(transcript):
    return [(word.start, word.end, word.text) for word in transcript.words]


PIECES = [{}, {"chunk_length_s": 0.05}, {"chunk_length_s": 0.0501, "stride_length_s": (0.013, 0.004)}]


@pytest.mark.parametrize("options", PIECES, ids=str)
def test_texts_and_times_equal_the_pipeline(options, checkpoint, model):
    kenlm()
    pytest.importorskip("pyctcdecode", reason="needs pyctcdecode, which does not install beside NumPy 2")
    processor = transformers.Wav2Vec2ProcessorWithLM.from_pretrained(checkpoint / "in")
    judge = transformers.pipeline(
        "automatic-speech-recognition",
        model=str(checkpoint / "in"),
        tokenizer=processor.tokenizer,
        feature_extractor=processor.feature_extractor,
        decoder=processor.decoder,
        device="cpu",
    )
    texts = set()
    for sound in SOUNDS:
        decoder = {"beam_width": BEAMS}
        answer = judge(sound.copy(), return_timestamps="word", decoder_kwargs=decoder, **options)
        transcript = model.transcribe(sound, timestamps="word", num_beams=BEAMS, **options)
        assert transcript.text == answer["text"]
        assert times(transcript) == [(*chunk["timestamp"], chunk["text"]) for chunk in answer["chunks"]]
        texts.add(answer["text"])
    assert len(texts) > 4


def test_a_language_model_is_used_by_default(model, plain):
    kenlm()
    sound = SOUNDS[3]
    text = model.transcribe(sound)
    known = {word for line in sentences(300, "ABCDEGHILMNORSTU") for word in line.split()}
    assert text
    assert {*text.split()} <= known
    assert text == model.transcribe(sound, num_beams=100)
    greedy = model.transcribe(sound, num_beams=1)
    assert greedy == plain.transcribe(sound) != text
    assert not {*greedy.split()} <= known
    assert model.transcribe(sound, alpha=0.0, beta=-50.0, num_beams=BEAMS).count(" ") < text.count(" ")
    parts = [*model.stream_transcript(sound, num_beams=BEAMS, chunk_length_s=0.02)]
    assert len(parts) > 1
    assert "".join(parts) == model.transcribe(sound, num_beams=BEAMS, chunk_length_s=0.02)


def test_the_bundle_has_the_files_of_the_language_model(checkpoint):
    listed = json.loads((checkpoint / "out/txexport.json").read_text())["companions"]
    names = {
        "alphabet.json",
        *(f"language_model/{name}" for name in ("2-gram.arpa", "attrs.json", "unigrams.txt")),
    }
    assert names <= listed.keys()
    assert "language_model/.hidden" not in listed
    for name in names:
        assert (checkpoint / "out" / name).read_bytes() == (checkpoint / "in" / name).read_bytes()


def test_without_the_library_the_error_names_the_extra(model, monkeypatch, checkpoint):
    monkeypatch.setitem(sys.modules, "kenlm", None)
    other = txexport.load(checkpoint / "out", device="cpu")
    with pytest.raises(MissingLibraryError, match=r"language model.*num_beams=1.*kenlm.*'\.\[ctc-lm\]'"):
        other.transcribe(SOUNDS[0])
    assert other.transcribe(SOUNDS[0], num_beams=1) == model.transcribe(SOUNDS[0], num_beams=1)


def test_beams_without_a_language_model(plain):
    sound = SOUNDS[2]
    options = {"num_beams": BEAMS, "timestamps": "word"}
    transcript = plain.transcribe(sound, num_return_sequences=5, **options)
    scores = [one.score for one in transcript.hypotheses]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert scores == [one.log_prob for one in transcript.hypotheses]
    assert transcript.hypotheses[0].text == transcript.text == plain.transcribe(sound, num_beams=BEAMS)
    assert transcript.text != plain.transcribe(sound)
    assert [word.text for word in transcript.words] == transcript.text.split()
    assert [one.text for one in transcript.segments]
    assert plain.transcribe(sound, **options).hypotheses == ()
    assert plain.transcribe([sound, sound], num_beams=BEAMS) == [transcript.text] * 2


def test_the_log_probability_of_a_segment_is_of_its_tokens(plain):
    """With one beam more than none, segments are likely as their tokens are."""
    [segment] = plain.transcribe(SOUNDS[1], num_beams=2, timestamps="segment").segments
    assert -math.inf < segment.decoded.avg_logprob < 0
    tokenizer = CTCTokenizer(plain.bundle.files.folder)
    assert tokenizer.decode([x for token in segment.decoded.tokens for x in (token, 0)]) == segment.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 0}, "num_beams is 0, expected a whole number from 1 to 1,000"),
        ({"num_beams": 1001}, "num_beams is 1001"),
        ({"num_beams": True}, "num_beams is True"),
        (
            {"num_beams": 2, "num_return_sequences": 3, "timestamps": "word"},
            "sequences is 3.* 1 to 2",
        ),
        ({"num_beams": 2, "num_return_sequences": 2}, "num_return_sequences above 1 needs timestamps"),
        ({"alpha": 0.5, "num_beams": 2}, "alpha and beta need a checkpoint with a language model"),
        ({"beta": math.nan}, "beta is nan, expected a number"),
        ({"beam_width": 3}, "there is no option beam_width; expected one of .*num_beams"),
        ({"length_penalty": 1.0}, "length_penalty is an option of models that generate"),
    ],
)
def test_invalid_options_are_named(options, message, plain):
    with pytest.raises(InputError, match=message):
        plain.transcribe(SOUNDS[0], **options)


def test_weights_without_beams_are_refused(model):
    with pytest.raises(InputError, match="alpha and beta need num_beams above 1"):
        model.transcribe(SOUNDS[0], num_beams=1, alpha=0.5)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"is_bpe": True}, UnsupportedError, "is_bpe is True.*num_beams=1"),
        ({"labels": ["a", "a", ""]}, BundleError, "expected different labels"),
        ({"labels": ["a", "b"]}, BundleError, "expected different labels with ''"),
        ({"labels": "ab"}, BundleError, "labels is 'ab', expected a list of texts"),
        ({"labels": ["", "a b"]}, BundleError, "expected labels of UTF-8 without spaces"),
        ({"labels": ["", "\ud800"]}, BundleError, "expected labels of UTF-8"),
    ],
)
def test_an_invalid_alphabet_is_refused(change, error, message, tmp_path):
    (tmp_path / "alphabet.json").write_text(json.dumps({"labels": ["", " "], "is_bpe": False} | change))
    with pytest.raises(error, match=message):
        read_labels(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("attrs.json", '{"alpha": "x"}', "alpha is 'x', expected a number"),
        ("attrs.json", '{"alpha": 1, "beta": 1, "unk_score_offset": -1}', "score_boundary is None"),
        ("attrs.json", None, "attrs.json is missing"),
        ("unigrams.txt", None, "unigrams.txt cannot be read"),
        ("2-gram.arpa", None, "has 0 files of .arpa"),
        ("3-gram.bin", "x", "has 2 files of .arpa"),
        ("2-gram.arpa", "\\data\\\nngram 1=99\n", "cannot be read by KenLM"),
        ("2-gram.arpa", "", "cannot be read by KenLM"),
    ],
)
def test_damaged_files_of_a_language_model_are_refused(file, content, message, tmp_path):
    kenlm()
    save_language_model(tmp_path, LABELS, TEXTS)
    path = tmp_path / "language_model" / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(BundleError, match=message):
        NgramLanguageModel(tmp_path)


def test_a_language_model_of_other_tokens_is_refused(checkpoint, tmp_path):
    shutil.copytree(checkpoint / "in", tmp_path / "in")
    values = json.loads((tmp_path / "in/alphabet.json").read_text())
    values["labels"].append("ß")
    (tmp_path / "in/alphabet.json").write_text(json.dumps(values))
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    with pytest.raises(BundleError, match=r"alphabet.json has \d+ labels, expected \d+"):
        txexport.load(tmp_path / "out", device="cpu").transcribe(SOUNDS[0])


def test_the_command_has_beams(plain, tmp_path):
    path = write_wav(tmp_path / "sound.wav", SOUNDS[2])
    folder = str(plain.bundle.files.folder)
    expected = plain.transcribe(path, num_beams=BEAMS, num_return_sequences=2, timestamps="segment")
    text = CliRunner().invoke(main, ["transcribe", folder, str(path), "--num-beams", str(BEAMS)])
    assert text.output == f"{expected.text}\n"
    options = ["--num-beams", str(BEAMS), "--set", "num_return_sequences=2", "--format", "json"]
    answer = CliRunner().invoke(main, ["transcribe", folder, str(path), *options])
    assert json.loads(answer.output)["hypotheses"] == [
        {"text": one.text, "score": one.score, "log_prob": one.log_prob} for one in expected.hypotheses
    ]
