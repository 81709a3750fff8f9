"""The recipes of the shipped checkpoints: their data, the held-out split, and that they run."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys

import _documentation
import _espeak
import _library
import _loop
import _notices
import _speech
import click
import completer
import finder
import listener
import numpy as np
import picture_reader
import proofreader
import pytest
import reader
import segmenter
import tagger
import torch
import translator
from _documentation import Sentence
from _speech import Utterance
from helpers.fonts import fonts
from helpers.project import ROOT
from num2words import num2words

import txexport

RECIPES = ROOT / "tools/train"
PRETRAINED = ROOT / "models/pretrained"


def test_numbers_held_out_are_none_of_those_learned():
    lines = (PRETRAINED / "number-translator/heldout.jsonl").read_text(encoding="utf-8").splitlines()
    drawn = translator.numbers(np.random.default_rng(5), 20_000)
    learned = {num2words(number) for number in drawn if not translator.held_out(number)}
    assert not learned & {json.loads(line)["english"] for line in lines}
    assert len(learned) > 5000
    assert 0.03 < np.mean([translator.held_out(number) for number in drawn if number >= 1000]) < 0.07
    assert {number % 10 for number in drawn if translator.held_out(number)} == set(range(10))


def test_every_number_of_digits_is_as_frequent():
    digits = [len(str(number)) for number in translator.numbers(np.random.default_rng(5), 9000)]
    assert max(abs(np.bincount(digits)[1:] - 1000)) < 5 * 1000**0.5


def test_texts_held_out_are_spoken_in_no_training_data():
    spoken = json.loads((ROOT / "tests/data/speech/texts.json").read_text(encoding="utf-8"))
    assert all(_speech.held_out(entry["text"]) for entry in spoken.values())
    random = np.random.default_rng(5)
    texts = [_speech.sentence(random) for _ in range(5000)]
    assert {letter for text in texts for letter in text} <= {*listener.TOKENS, " "}
    assert 0.03 < np.mean([_speech.held_out(text) for text in texts if text.count(" ") >= 2]) < 0.07
    vocabulary = {word for text in texts if not _speech.held_out(text) for word in text.split()}
    assert {word for text in texts for word in text.split()} == vocabulary


def test_voices_held_out_are_those_of_the_recordings(tmp_path):
    folder = tmp_path / "voices/!v"
    folder.mkdir(parents=True)
    for name in ("Hugo", "iven", "iven3", "klatt", "klatt4", "f1", "random7"):
        (folder / name).touch()
    assert _speech.variants(tmp_path, held=True) == ["Hugo", "iven", "iven3"]
    assert _speech.variants(tmp_path, held=False) == ["f1", "klatt", "klatt4"]


def test_batches_hold_speech_between_noise_normalised():
    utterances = [
        Utterance(
            f"text {i}", "voice", np.full(6000 + 400 * i, 9000, np.int16), np.array([(0, 0), (6, 5000)])
        )
        for i in range(100)
    ]
    batches = listener.Batches(utterances)
    sounds, texts, marks = batches.batch(np.random.default_rng(0))
    assert sounds.shape[0] == len(texts) == len({*texts}) > 1
    assert all(0 <= start < end <= sounds.shape[1] for (_, start), (_, end) in marks)
    assert all(5000 / 1.2 <= end - start <= 5000 / 0.85 for (_, start), (_, end) in marks)
    assert sounds.mean(-1).abs().max() < 1e-4
    assert (sounds.std(-1) - 1).abs().max() < 1e-3
    assert sounds.equal(batches.batch(np.random.default_rng(0)).sounds)


def test_flat_start_spreads_the_letters_of_each_word_over_it():
    first, stride = listener.FIELD / 2, listener.STRIDE
    marks = np.array([(0, first + 2 * stride), (3, first + 8 * stride), (6, first + 14 * stride)])
    labels = "".join("-" if i == 0 else listener.TOKENS[i] for i in listener.flat_labels("go six", marks, 17))
    assert labels == "--ggoo||ssiixx---"


def test_stride_and_field_are_those_of_the_convolutions(tmp_path):
    model = listener.create(tmp_path)
    lengths = model._get_feat_extract_output_lengths
    field, stride = listener.FIELD, listener.STRIDE
    assert [int(lengths(field + more)) for more in (-1, 0, stride - 1, stride)] == [0, 1, 1, 2]
    convolution = model.wav2vec2.feature_extractor.conv_layers[0].conv
    sound = np.sin(2 * np.pi * 1000 / listener.RATE * np.arange(1600), dtype=np.float32)
    energies = convolution(torch.from_numpy(sound)[None, None]).square().mean(-1)[0]
    bands = (energies[: listener.BANDS] + energies[listener.BANDS :]).argsort(descending=True)
    mel = 2595 * np.log10(1 + 1000 / 700)
    mels = np.linspace(2595 * np.log10(1 + 80 / 700), 2595 * np.log10(1 + 7000 / 700), listener.BANDS)
    assert abs(mels - mel).argmin() in bands[:2]


def test_espeak_speaks_in_the_voice_that_is_asked_for(tmp_path):
    if not shutil.which("espeak-ng"):
        pytest.skip("espeak-ng, of Debian, not installed")
    data = _speech.prepare_voices(tmp_path)
    text = "the eighth of february"
    voices = [f"{dialect}+{name}" for dialect in _speech.DIALECTS for name in ("random0", "random199", "f1")]
    speeches = [_espeak.speak(data, text, voice, 170, 50, 0) for voice in voices]
    assert len({speech.samples.tobytes() for speech in speeches}) == len(voices)
    for speech in speeches:
        assert [start for start, _ in speech.starts] == [0, 4, 11, 14]
        samples = [sample for _, sample in speech.starts]
        assert samples == sorted({*samples})
        assert samples[-1] < speech.samples.size
    with pytest.raises(click.ClickException, match=r"no voice 'af\+f1'"):
        _espeak.speak(data, text, "af+f1", 170, 50, 0)


def test_library_is_split_by_file():
    names = list(_library.sources())
    assert len(names) > 200
    assert all(not name.startswith(("test/", "site-packages/")) for name in names)
    share = np.mean([_loop.held_out(name) for name in names])
    assert 0.02 < share < 0.09


def test_trigram_knows_what_it_has_seen():
    train = np.array([1, 2, 3, 4] * 50 + [7, 2, 3, 5])
    windows = np.array([[1, 2, 3, 4], [1, 2, 3, 9]])
    seen, unseen = np.exp(completer.trigram(train, windows))
    assert seen[2] > 0.95
    assert 0 < unseen[2] < 0.01
    every = np.array([[1, 2, word] for word in range(completer.VOCAB)])
    assert np.exp(completer.trigram(train, every)[:, 1]).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("said", "text", "code"),
    [
        ("If ``axis`` is None, see :func:`~numpy.sum`.", "If axis is None, see sum.", ["axis", "sum"]),
        (
            "Returns [`~utils.ModelOutput`] or `tuple`.",
            "Returns ModelOutput or tuple.",
            ["ModelOutput", "tuple"],
        ),
        ("See `the guide <https://a.b/c>`_ and [this](https://d.e).", "See the guide and this.", []),
        ("An *optional* :term:`estimator`, **not** copied.", "An optional estimator, not copied.", []),
        (
            "Calls :meth:`the method <Model.fit>` of x * y * z.",
            "Calls the method of x * y * z.",
            ["the method"],
        ),
    ],
)
def test_markup_is_taken_out_and_code_kept_beside(said, text, code):
    sentence = _documentation.unmark(said)
    assert sentence.text == text
    assert [text[start:end] for start, end in sentence.code] == code


@pytest.mark.parametrize(
    "said", ["The sum :math:`x + y`.", "A loose ` is here.", "Costs $n$ steps.", "See |this|_."]
)
def test_what_does_not_read_as_prose_is_left_out(said):
    assert _documentation.unmark(said) is None


DOCSTRING = """Fit the model to what was seen.

Parameters
----------
alpha : float, default=1.0
    How strong the penalty is. Must be positive.

    More on this.
names : list of str

Example
-------
>>> Model(alpha=2).fit(seen)

Args:
    labels (`torch.LongTensor`, *optional*):
        Which class each of the texts is of.
    rate (int): how often `labels` are
        looked at.
"""


def test_sentences_are_those_of_prose():
    assert [sentence.text for sentence in _documentation.sentences(DOCSTRING)] == [
        "Fit the model to what was seen.",
        "How strong the penalty is.",
        "Which class each of the texts is of.",
    ]


def test_documentation_held_out_is_nowhere_else(monkeypatch):
    monkeypatch.setattr(_documentation, "LIBRARIES", ["networkx"])
    kept, out = ([s.text for s in part] for part in _documentation.split())
    assert len(kept) == len(set(kept)) > 3000
    assert len(out) == len(set(out)) > 100
    assert not set(kept) & set(out)


def test_tags_say_which_words_are_code():
    sentence = Sentence("Set n_jobs to a or b + 1.", ((4, 10), (14, 15), (19, 24)))
    places = [match.span() for match in re.finditer(reader.WORD, sentence.text)]
    found = tagger.tags(places, sentence.code)
    assert found == [0, 1, 0, 1, 0, 1, 2, 2, 0]
    assert tagger.spans(places, found) == sentence.code
    assert tagger.f1([sentence], [((4, 10), (14, 18))]) == pytest.approx(
        {"accuracy": 1 / 4, "precision": 1 / 2, "recall": 1 / 3, "f1": 2 / 5}
    )


def test_reader_s_words_are_numbered_by_the_alphabet():
    """The trainer numbers them in the order of its hash table, which differs in each run."""
    texts = ["Where the axis is None, every_axis of x is summed.", "Sums are of the given dtype."]
    tokenizer = reader.make_tokenizer(texts)
    words = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    assert words == reader.SPECIAL + sorted(words[len(reader.SPECIAL) :])
    assert tokenizer.encode("every_axis of q").tokens[-2] == "[UNK]"


def test_swapped_words_are_the_same_words():
    text = "The first of the axes is left out."
    for seed in range(20):
        other = proofreader.swapped(text, np.random.default_rng(seed))
        apart = [
            i for i, pair in enumerate(zip(text.split(), other.split(), strict=True)) if len(set(pair)) > 1
        ]
        assert sorted(text.split()) == sorted(other.split())
        assert len(apart) == 2
        assert apart[1] == apart[0] + 1 < 7
    assert proofreader.swapped("So it is.", np.random.default_rng(0)) == "So it is."


def card(name: str) -> str:
    return (PRETRAINED / name / "README.md").read_text(encoding="utf-8")


def notice(name: str) -> str:
    return (PRETRAINED / name / "NOTICE.txt").read_text(encoding="utf-8")


@pytest.mark.xdist_group("notices")  # which share the libraries' docstrings
@pytest.mark.parametrize("name", ["code-tagger", "proofreader"])
def test_sentences_go_along_with_the_licences_of_their_libraries(name):
    lines = (PRETRAINED / name / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    assert notice(name) == _notices.of_documentation(json.loads(line)["text"] for line in lines)
    assert "Copyright (c) 2004-2025, NetworkX Developers" in notice(name)


def test_passages_go_along_with_the_licence_of_python():
    assert "Copyright (c) 2015-2021 MagicStack Inc." in notice("python-completer")
    if f"with Python {platform.python_version()} " not in card("python-completer"):
        pytest.skip("another Python than the recipe's, whose licence names other years")
    assert notice("python-completer") == _notices.of_library()


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("code-tagger", _loop.NOTICE),
        ("proofreader", _loop.NOTICE),
        ("python-completer", _loop.NOTICE),
        ("number-translator", translator.EXAMPLES),
        ("listener", listener.EXAMPLES),
        ("page-finder", finder.EXAMPLES),
        ("page-segmenter", segmenter.EXAMPLES),
        ("picture-reader", picture_reader.EXAMPLES),
    ],
)
def test_cards_say_what_the_licence_is(name, examples):
    assert f"\n\n{_loop.licence(examples)}\n\n" in card(name)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A reader that the two fine-tunings may start from."""
    folder = tmp_path_factory.mktemp("base") / "reader"
    subprocess.run([sys.executable, str(RECIPES / "reader.py"), str(folder), "--steps", "5"], check=True)
    return folder


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """The listener's options for little speech, which both of its runs share."""
    if missing := [name for name in ("espeak-ng", "flite") if not shutil.which(name)]:
        pytest.skip(f"{' and '.join(missing)}, of Debian, not installed")
    folder = tmp_path_factory.mktemp("speech")
    return ["--utterances", "300", "--cache", str(folder), "--recordings", str(folder / "recordings")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Options for few pages, which the runs of the finder and of the segmenter share."""
    pytest.importorskip("pycocotools")
    fonts()
    folder = tmp_path_factory.mktemp("pages")
    few = ["--pages", "20", "--tested", "4"]
    return [*few, "--cache", str(folder), "--example", str(folder / "example")]


RUN = ["translator", "completer", "reader", "tagger", "proofreader", "listener", "finder", "segmenter"]
RUN += ["picture_reader"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RUN)
def test_recipe_runs_and_goes_on_after_a_kill(recipe, tmp_path, request):
    """From a clean folder: a checkpoint that the library loads, and the same one after a kill."""
    more = ["--steps", "40"]
    if recipe in ("tagger", "proofreader"):
        more += ["--base", str(request.getfixturevalue("base"))]
    if recipe == "listener":
        more += request.getfixturevalue("speech")
    if recipe in ("finder", "segmenter"):
        more += request.getfixturevalue("pages")
    if recipe == "picture_reader":
        fonts()
        more += ["--tested", "1", "--example", str(tmp_path.parent / "receipts")]

    def command(folder):
        return [sys.executable, str(RECIPES / f"{recipe}.py"), str(folder), *more]

    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True)
    hurried = dict(os.environ, PYTHONPATH=str(RECIPES))
    code = f"import _loop, {recipe}; _loop.SAVE_SECONDS = 0; {recipe}.main()"
    killed = [sys.executable, "-c", code, str(tmp_path / "killed"), *more]
    with subprocess.Popen(killed, stdout=subprocess.PIPE, env=hurried, text=True) as process:
        while not (tmp_path / "killed.part/training.pt").exists():
            assert process.poll() is None
        process.kill()
    assert not (tmp_path / "killed").exists()
    subprocess.run(command(tmp_path / "killed"), check=True, capture_output=True)
    one, two = (tmp_path / name / "model.safetensors" for name in ("whole", "killed"))
    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "whole"]
    txexport.export(tmp_path / "whole", tmp_path / "bundle")
