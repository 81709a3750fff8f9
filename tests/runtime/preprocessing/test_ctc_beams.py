"""The beam search over CTC's outputs, beside every alignment of short sounds."""

import itertools
import math
from itertools import groupby

import numpy as np
import pytest

from txexport.runtime.preprocessing import ctc_beams
from txexport.runtime.preprocessing.ctc_beams import BeamSearch, log_sum

LABELS = ["", " ", "a", "b"]
EVERYTHING = 10**6


class Words:
    """A language model of pairs of words, with a state, an end, and scores of beginnings."""

    start = "start"

    def word(self, state, word):
        return -len(word) - 0.5 * (state == word) + 0.3 * (word == "ab"), word

    def last_word(self, state, word):
        return self.word(state, word)[0] - 0.7 * (word == "b")

    def beginning(self, part):
        return -0.2 * len(part)


def log_probs(count: int, seed: int, sharp: float = 1.0, labels: int = len(LABELS)) -> np.ndarray:
    logits = sharp * np.random.default_rng(seed).standard_normal((count, labels))
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def every_text(outputs: np.ndarray) -> dict[str, float]:
    """The log-probability of each text: the sum over its alignments."""
    texts: dict[str, float] = {}
    for path in itertools.product(range(outputs.shape[1]), repeat=len(outputs)):
        text = " ".join("".join(LABELS[token] for token, _ in groupby(path)).split())
        score = float(outputs[range(len(path)), path].sum())
        texts[text] = log_sum(texts[text], score) if text in texts else score
    return texts


@pytest.fixture
def unlimited(monkeypatch):
    monkeypatch.setattr(ctc_beams, "LEAST_TOKEN", -math.inf)
    monkeypatch.setattr(ctc_beams, "LEAST_BEAM", -math.inf)


def searched(outputs: np.ndarray, width: int, scores=None, piece: int = 10**6, labels=LABELS):
    search, tokens = BeamSearch(labels, width, scores), []
    for first in range(0, len(outputs), piece):
        search.add(outputs[first : first + piece])
        tokens += search.settle()
    rest, texts = search.finish()
    return [*tokens, *rest], texts


@pytest.mark.parametrize("seed", range(5))
def test_without_limits_every_text_has_the_sum_of_its_alignments(seed, unlimited):
    outputs = log_probs(6, seed)
    expected = every_text(outputs)
    _, texts = searched(outputs, EVERYTHING, piece=2)
    assert {" ".join(text) for text, _, _ in texts} == expected.keys()
    for text, score, log_prob in texts:
        assert math.isclose(log_prob, expected[" ".join(text)], abs_tol=1e-9)
        assert score == log_prob
    scores = [score for _, score, _ in texts]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("seed", range(5))
def test_a_language_model_scores_whole_words(seed, unlimited):
    outputs, model = log_probs(5, seed), Words()
    for text, score, log_prob in searched(outputs, EVERYTHING, model)[1]:
        if not text:
            continue
        state, total = model.start, log_prob
        for word in text[:-1]:
            more, state = model.word(state, word)
            total += more
        last = model.last_word(state, text[-1])
        # A text that ends with a space has its last word before the end, and an empty one there.
        ended = model.word(state, text[-1])[0] + model.last_word(text[-1], "")
        assert any(math.isclose(score, total + one, abs_tol=1e-9) for one in (last, ended))


@pytest.mark.parametrize("seed", range(20))
def test_the_alignment_is_one_of_the_text(seed):
    outputs = log_probs(60, seed, sharp=2.5)
    for scores in (None, Words()):
        tokens, texts = searched(outputs, 8, scores, piece=7)
        assert len(tokens) == len(outputs)
        assert "".join(LABELS[token] for token, _ in groupby(tokens)).split() == texts[0][0]
        assert len(texts) > 1


@pytest.mark.parametrize("seed", range(10))
def test_pieces_do_not_change_the_search(seed, monkeypatch):
    """Also where words are forgotten between them."""
    outputs = log_probs(120, seed, sharp=2)
    expected = searched(outputs, 8, Words())
    monkeypatch.setattr(ctc_beams, "BLOCK", 7)
    assert searched(outputs, 8, Words(), piece=11) == expected


def test_beams_find_a_likelier_text_than_the_likeliest_tokens():
    """Two alignments of "a" together are likelier than the one of blanks (Graves 2012, figure 7.7)."""
    outputs = np.log(np.array([[0.6, 1e-9, 0.4, 1e-9], [0.6, 1e-9, 0.4, 1e-9]]))
    assert outputs.argmax(axis=-1).tolist() == [0, 0]
    [(text, score, _), *_] = searched(outputs, 4)[1]
    assert text == ["a"]
    assert math.isclose(score, math.log(0.64), abs_tol=1e-6)


def test_tokens_may_begin_with_a_space():
    """As pieces of a subword vocabulary do."""
    labels = ["", " a", "b", " ab", "c"]
    outputs = log_probs(40, 1, sharp=3, labels=5)
    tokens, texts = searched(outputs, 10, labels=labels)
    assert texts[0][0] == "".join(labels[token] for token, _ in groupby(tokens)).split()
    assert len(texts[0][0]) > 4


def test_memory_is_bounded_where_beams_never_agree(monkeypatch):
    """The best beam settles text that is older than the limit; then no beam has another."""
    monkeypatch.setattr(ctc_beams, "MOST_OPEN", 40)
    outputs = log_probs(1, 0)
    outputs = np.log(np.tile([[0.02, 0.02, 0.48, 0.48]], (400, 1)) + 1e-3 * np.exp(log_probs(400, 3)))
    search, most, count = BeamSearch(LABELS, 20), 0, 0
    for first in range(0, 400, 10):
        search.add(outputs[first : first + 10])
        count += len(search.settle())
        most = max(most, search.count - search.settled)
    assert most <= 40
    assert count > 300
    longest = max(len(ctc_beams._chain(beam.run)) for beam in search.beams)
    assert longest <= 60


def test_words_that_no_beam_has_are_forgotten(monkeypatch):
    """Within a piece too: a recording may be one."""
    counts = []

    def forget(search):
        counts.append(1)
        forgotten(search)

    forgotten = BeamSearch._forget
    monkeypatch.setattr(BeamSearch, "_forget", forget)
    monkeypatch.setattr(ctc_beams, "BLOCK", 10)
    search = BeamSearch(LABELS, 5, Words())
    search.add(log_probs(1000, 2, sharp=3))
    assert len(counts) == 101
    assert len(search.text) > 50
    waiting, count = [ctc_beams._chain(search.beams[0].history)[-1]], 0
    while waiting:
        count += 1
        waiting += waiting.pop().after.values()
    assert count < 60


def test_silence_is_settled():
    quiet = np.log(np.tile([[0.97, 0.01, 0.01, 0.01]], (50, 1)))
    search = BeamSearch(LABELS, 1)
    search.add(quiet)
    assert search.settle() == [0] * 50
    assert search.finish() == ([], [([], search.beams[0].score, search.beams[0].log_prob)])
