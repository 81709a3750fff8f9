"""Texts of a CTC head's outputs: by the likeliest tokens, or by a beam search; S vectors, V tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import LOGITS
from txexport.errors import BundleError, InputError, shown
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.ctc_beams import BeamSearch, WordScores
from txexport.runtime.preprocessing.ctc_tokenizer import CTCTokenizer
from txexport.runtime.preprocessing.ngram_language_model import has_language_model, read_labels
from txexport.runtime.tasks.ctc_stream import GrowingTranscript
from txexport.runtime.tasks.transcript import Hypothesis, Transcript
from txexport.support.arguments import is_whole
from txexport.support.paths import ALPHABET

WITH_MODEL = 100  # beams, as in pyctcdecode
MOST_BEAMS = 1000


@dataclass(frozen=True)
class BeamOptions:
    """Options of the search for the likeliest texts.

    `num_beams` is the number of texts that are followed, by default 100 if the checkpoint has a language
    model, or else 1, the likeliest token of each vector, without the language model. As many as
    `num_return_sequences` texts with their scores are the `hypotheses` of a Transcript. `alpha` is the weight
    of the language model and `beta` the score of each word, by default those of its attrs.json.
    """

    num_beams: int | None = None
    num_return_sequences: int | None = None
    alpha: float | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        for name, most in (("num_beams", MOST_BEAMS), ("num_return_sequences", self.num_beams or MOST_BEAMS)):
            value = getattr(self, name)
            if value is not None and not (is_whole(value, 1) and value <= most):
                raise InputError(f"{name} is {shown(value)}, expected a whole number from 1 to {most:,}")
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if value is not None and not _is_weight(value):
                raise InputError(f"{name} is {shown(value)}, expected a number")

    @property
    def several(self) -> int:
        """The number of texts that are returned."""
        return self.num_return_sequences or 1


NAMES = tuple(field.name for field in fields(BeamOptions))


def beam_options(options: Mapping[str, Any], timestamps: Any) -> BeamOptions:
    """The options of the search among those of `transcribe`. Raises InputError."""
    result = BeamOptions(**{name: options[name] for name in NAMES if name in options})
    if result.several > 1 and timestamps is None:
        raise InputError(
            'num_return_sequences above 1 needs timestamps="segment" or "word": texts alone have no scores'
        )
    return result


class Decoder(Protocol):
    """The transcript of logits that come in pieces."""

    def add(self, logits: np.ndarray) -> Transcript:
        """Return the part that the logits (S,V) of a piece complete."""
        ...

    def finish(self) -> Transcript:
        """Return the rest."""
        ...


class Decoding:
    """The way in which a bundle's outputs are decoded.

    Raises InputError for options that do not fit the bundle, and errors as NgramLanguageModel and
    CTCTokenizer.
    """

    def __init__(self, bundle: LoadedBundle, options: BeamOptions):
        folder, width = bundle.files.folder, bundle.sessions[roles.MODEL].width(LOGITS)
        with_model = has_language_model(folder)
        self.several = options.several
        self.beams = options.num_beams or (WITH_MODEL if with_model else options.several)
        self.scores: WordScores | None = None
        if (options.alpha, options.beta) != (None, None) and not (with_model and self.beams > 1):
            kind = "num_beams above 1" if with_model else "a checkpoint with a language model"
            raise InputError(f"alpha and beta need {kind}; leave them out")
        if with_model and self.beams > 1:
            self.labels = read_labels(folder)
            if len(self.labels) != width:
                raise BundleError(f"{ALPHABET} has {len(self.labels):,} labels, expected {width:,}")
            self.scores = bundle.files.language_model.weighted(options.alpha, options.beta)
            self.tokenizer = CTCTokenizer.of_labels(self.labels)
            return
        self.tokenizer = CTCTokenizer(folder)
        if self.beams > 1:
            self.labels = self.tokenizer.labels(width)
            if "" not in self.labels:
                raise BundleError("no token of the vocabulary is the blank, which num_beams above 1 needs")

    def decoder(self, step: tuple[int, int]) -> Decoder:
        """A decoder for one sound; `step` are the samples of a vector, and their rate."""
        growing = GrowingTranscript(self.tokenizer, step)
        if self.beams == 1:
            return GreedyDecoder(growing)
        search = BeamSearch(self.labels, self.beams, self.scores)
        return BeamDecoder(growing, search, self.several)


class GreedyDecoder:
    """The likeliest token of every vector."""

    def __init__(self, growing: GrowingTranscript):
        self.growing = growing

    def add(self, logits: np.ndarray) -> Transcript:
        """See Decoder."""
        highest = logits.max(axis=-1, initial=-np.inf)
        log_probs = -np.log(np.exp(logits - highest[:, None]).sum(axis=-1))  # of the likeliest tokens
        return self.growing.add(logits.argmax(axis=-1).tolist(), log_probs.tolist())

    def finish(self) -> Transcript:
        """See Decoder."""
        return self.growing.add([], [], last=True)


class BeamDecoder:
    """The likeliest text by a search; the transcript grows by what all beams agree on."""

    def __init__(self, growing: GrowingTranscript, search: BeamSearch, several: int):
        self.growing, self.search, self.several = growing, search, several
        self.open = np.empty((0, len(search.labels)))  # log-probabilities of vectors that are not settled

    def add(self, logits: np.ndarray) -> Transcript:
        """See Decoder."""
        if not len(logits):
            return Transcript("")
        shifted = logits - logits.max(axis=-1, keepdims=True)
        log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        self.open = np.concatenate([self.open, log_probs])
        self.search.add(log_probs)
        return self._grown(self.search.settle(), last=False)

    def finish(self) -> Transcript:
        """See Decoder."""
        tokens, texts = self.search.finish()
        transcript = self._grown(tokens, last=True)
        if self.several == 1:
            return transcript
        join = self.growing.tokenizer.join
        best = [Hypothesis(join(text), score, log_prob) for text, score, log_prob in texts[: self.several]]
        return replace(transcript, hypotheses=tuple(best))

    def _grown(self, tokens: Sequence[int], last: bool) -> Transcript:
        log_probs = self.open[np.arange(len(tokens)), [*tokens]] if tokens else self.open[:0, 0]
        self.open = self.open[len(tokens) :]
        return self.growing.add(tokens, log_probs.tolist(), last)


def _is_weight(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return bool(number and abs(value) < 1e6)
