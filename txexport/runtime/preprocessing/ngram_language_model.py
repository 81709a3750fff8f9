"""The n-gram language model of a CTC checkpoint, in the files of pyctcdecode and transformers."""

import copy
import math
from bisect import bisect_left
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, UnsupportedError, first_line, needed_for, shown
from txexport.support.paths import ALPHABET, LANGUAGE_MODEL

SETTINGS, UNIGRAMS = f"{LANGUAGE_MODEL}/attrs.json", f"{LANGUAGE_MODEL}/unigrams.txt"
MODELS = (".arpa", ".bin", ".binary")  # endings of KenLM's file
WEIGHTS = ("alpha", "beta", "unk_score_offset")
NATURAL = math.log(10)  # KenLM's logarithms are decimal
USUAL = 6  # letters; an unknown word that is longer has a lower score


def has_language_model(folder: Path) -> bool:
    """Tell whether a bundle has a language model."""
    return (folder / LANGUAGE_MODEL).is_dir()


def read_labels(folder: Path) -> list[str]:
    """The texts of the tokens, by id: "" is the blank, and a space ends a word.

    Raises BundleError for a damaged alphabet.json, UnsupportedError for one of subwords.
    """
    values = read_json(folder / ALPHABET)
    labels = values.get("labels")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise BundleError(f"{ALPHABET}: labels is {shown(labels)}, expected a list of texts")
    if values.get("is_bpe") is not False:
        raise UnsupportedError(
            f"{ALPHABET}: is_bpe is {shown(values.get('is_bpe'))}; a language model of subwords is not "
            "supported, leave it out with num_beams=1"
        )
    if len({*labels}) < len(labels) or "" not in labels:
        raise BundleError(f"{ALPHABET}: expected different labels with '', the blank, among them")
    wrong = next((label for label in labels if not label.isascii() and not _is_text(label)), None)
    if wrong is not None or any(" " in label and label != " " for label in labels):
        raise BundleError(f"{ALPHABET}: expected labels of UTF-8 without spaces, and the space itself")
    return labels


def _is_text(label: str) -> bool:
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return True


class NgramLanguageModel:
    """Scores of words as pyctcdecode's LanguageModel computes them, by KenLM (Heafield 2011).

    A word's score is alpha times its log-probability, plus beta. Raises BundleError for missing or damaged
    files, MissingLibraryError without KenLM.
    """

    def __init__(self, folder: Path):
        with needed_for("the checkpoint's language model (num_beams=1 decodes without it)"):
            import kenlm
        self.kenlm = kenlm
        settings = read_json(folder / SETTINGS)
        self.alpha, self.beta, self.unknown = (_number(settings, name) for name in WEIGHTS)
        self.bounded = settings.get("score_boundary")
        if not isinstance(self.bounded, bool):
            raise BundleError(f"{SETTINGS}: score_boundary is {shown(self.bounded)}, expected true or false")
        self.model = self._opened(_model_file(folder / LANGUAGE_MODEL))
        self.words = sorted({word for word in _unigrams(folder / UNIGRAMS) if word in self.model})
        self.known = {*self.words}

    def weighted(self, alpha: float | None, beta: float | None) -> "NgramLanguageModel":
        """The same model with other weights, where they are not None."""
        other = copy.copy(self)
        other.alpha = self.alpha if alpha is None else alpha
        other.beta = self.beta if beta is None else beta
        return other

    def _opened(self, file: Path) -> Any:
        config = self.kenlm.Config()
        config.show_progress, config.arpa_complain = False, self.kenlm.ARPALoadComplain.NONE
        try:
            return self.kenlm.Model(str(file), config)
        except Exception as error:  # of several kinds, each for what KenLM cannot read
            raise BundleError(f"{file} cannot be read by KenLM: {first_line(error)}") from None

    @property
    def start(self) -> Any:
        """The state before the first word."""
        state = self.kenlm.State()
        if self.bounded:
            self.model.BeginSentenceWrite(state)
        else:
            self.model.NullContextWrite(state)
        return state

    def word(self, state: Any, word: str) -> tuple[float, Any]:
        """The score of a word after a state, and the state after it."""
        score, following = self._word(state, word)
        return self._weighted(score), following

    def last_word(self, state: Any, word: str) -> float:
        """The score of a word after a state, at the end of the text."""
        score, following = self._word(state, word)
        if self.bounded:
            score += self.model.BaseScore(following, "</s>", self.kenlm.State())
        return self._weighted(score)

    def beginning(self, part: str) -> float:
        """The score of the beginning of a word: below 0 if no word begins with it."""
        position = bisect_left(self.words, part)
        if position < len(self.words) and self.words[position].startswith(part):
            return 0.0
        return self.unknown * max(len(part), USUAL) / USUAL

    def _word(self, state: Any, word: str) -> tuple[float, Any]:
        following = self.kenlm.State()
        score = self.model.BaseScore(state, word, following)
        if (self.known and word not in self.known) or word not in self.model:
            score += self.unknown
        return score, following

    def _weighted(self, score: float) -> float:
        return self.alpha * score * NATURAL + self.beta


def _number(settings: dict, name: str) -> float:
    value = settings.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e6:
        raise BundleError(f"{SETTINGS}: {name} is {shown(value)}, expected a number")
    return float(value)


def _model_file(folder: Path) -> Path:
    files = sorted(file for file in folder.iterdir() if file.suffix in MODELS)
    if len(files) != 1:
        raise BundleError(f"{folder} has {len(files)} files of {', '.join(MODELS)}, expected one")
    return files[0]


def _unigrams(file: Path) -> list[str]:
    """The words that may be recognised, one a line."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise BundleError(f"{file} cannot be read as text: {error}") from None
