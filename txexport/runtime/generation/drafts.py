"""Draft tokens for speculative decoding, from prompt lookup or an assistant model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from txexport.runtime.generation.sampling import softmax
from txexport.runtime.generation.search import Decoder
from txexport.runtime.preprocessing.text import pad

NGRAM = 2  # transformers' max_matching_ngram_size
ASSISTANT_TOKENS = 20  # transformers' num_assistant_tokens
TRUST = 2  # draft tokens for each token that matches
CONFIDENCE = 0.4  # transformers' assistant_confidence_threshold

Shape = Callable[[Sequence[int], Sequence[Sequence[int]], np.ndarray], np.ndarray]


class Rewindable(Decoder, Protocol):
    """The part of a cache that speculative decoding uses beside `search.Decoder`."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens in each row's cache (R)."""
        ...

    @property
    def ragged(self) -> bool:
        """Return whether rows may differ in length."""
        ...

    def read(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """input_ids (R,S), counts (R) -> logits (R,S,V) of every token."""
        ...

    def rewind(self, lengths: np.ndarray) -> None:
        """Shorten the rows' caches to `lengths` (R)."""
        ...


@dataclass(frozen=True)
class Draft:
    """Tokens proposed to follow a row and, where they were sampled, the distribution (V) of each."""

    tokens: list[int] = field(default_factory=list)
    probs: list[np.ndarray] = field(default_factory=list)


class Proposer(Protocol):
    """A source of drafts. `rows` are indices of results; `steps` counts the assistant's steps.

    `ragged` is whether rows may differ in length.
    """

    steps: int
    ragged: bool

    def propose(self, rows: Sequence[int], new: Sequence[list[int]], most: Sequence[int]) -> list[Draft]:
        """A draft of at most `most` tokens for each of `rows`, whose new tokens are `new`."""
        ...

    def select(self, on: np.ndarray) -> None:
        """Keep only these rows."""
        ...

    def judged(self, drafts: Sequence[Draft], counts: np.ndarray) -> None:
        """Report the number of tokens that each row got (R): its accepted draft tokens and one more."""
        ...


class PromptLookup:
    """Prompt lookup decoding: copies what followed an earlier occurrence of the last n-gram (Saxena 2023).

    `texts` have negative ids in place of media: these match nothing and are never copied. A longer match
    gives a longer draft, since short matches are unreliable and rejected tokens cost time.
    """

    steps, ragged = 0, True

    def __init__(self, texts: Sequence[Sequence[int]], count: int, size: int, ends: frozenset[int]):
        self.texts = [list(text) for text in texts]
        self.before = [len(text) for text in self.texts]
        self.count, self.size, self.ends = count, size, ends
        # For each row, the position after the last occurrence of an n-gram that has a token after it.
        self.places: list[dict[tuple[int, ...], int]] = [{} for _ in self.texts]
        for row, text in enumerate(self.texts):
            self._note(row, range(1, len(text)))

    def propose(self, rows: Sequence[int], new: Sequence[list[int]], most: Sequence[int]) -> list[Draft]:
        """See Proposer."""
        return [Draft(self._follow(*each)) for each in zip(rows, new, most, strict=True)]

    def select(self, on: np.ndarray) -> None:
        """See Proposer."""

    def judged(self, drafts: Sequence[Draft], counts: np.ndarray) -> None:
        """See Proposer."""

    def _note(self, row: int, positions: range) -> None:
        text, known = self.texts[row], self.places[row]
        for place in positions:
            if text[place] < 0:  # of a medium
                continue
            for size in range(1, min(self.size, place) + 1):
                known[tuple(text[place - size : place])] = place

    def _follow(self, row: int, new: list[int], most: int) -> list[int]:
        text = self.texts[row]
        old = len(text)
        text += new[old - self.before[row] :]
        self._note(row, range(old, len(text)))
        for size in range(min(self.size, len(text)), 0, -1):
            place = self.places[row].get(tuple(text[-size:]))
            if place is not None:
                return self._copied(text, place, min(self.count, most, TRUST * self._alike(text, place)))
        return []

    def _alike(self, text: list[int], place: int) -> int:
        """The length of the match between the tokens before `place` and the end of `text`."""
        enough = min(place, self.count)
        return next((n for n in range(enough) if text[place - 1 - n] != text[-1 - n]), enough)

    def _copied(self, text: list[int], place: int, count: int) -> list[int]:
        """The tokens from `place` on, up to a medium; beyond the end of the text the copy repeats itself."""
        copy: list[int] = []
        while len(copy) < count and not self.ends.intersection(copy[-1:]):
            at = place + len(copy)
            token = text[at] if at < len(text) else copy[at - len(text)]
            if token < 0:
                break
            copy.append(token)
        return copy


@dataclass(frozen=True)
class AssistantSettings:
    """Assistant settings; names and meaning as in transformers. `limit` is its longest sequence."""

    count: int
    adapts: bool
    confidence: float
    limit: int | None


class Assistant:
    """A smaller model that has read `prompts` into its cache, and drafts their continuations.

    `choose` samples, and drafts then carry their probabilities; without it decoding is greedy.
    """

    def __init__(
        self,
        cache: Rewindable,
        prompts: Sequence[Sequence[int]],
        ends: frozenset[int],
        settings: AssistantSettings,
        shape: Shape | None,
        choose: Callable[[np.ndarray, np.ndarray], np.ndarray] | None,
    ):
        self.cache, self.prompts, self.ends, self.settings = cache, prompts, ends, settings
        self.shape, self.choose = shape, choose
        self.count, self.steps, self.ragged = settings.count, 0, cache.ragged
        self.read = cache.lengths
        cache.rewind(cache.lengths - 1)  # so that there is always a token to read next

    def propose(self, rows: Sequence[int], new: Sequence[list[int]], most: Sequence[int]) -> list[Draft]:
        """See Proposer."""
        self.steps = 0
        texts = [[*self.prompts[row], *tokens] for row, tokens in zip(rows, new, strict=True)]
        drafts = [Draft() for _ in rows]
        self.read = np.array([len(text) for text in texts])
        room = self.count if self.settings.limit is None else self.settings.limit - int(self.read.max())
        tops = np.minimum(most, min(self.count, room))
        if tops.max() < 1:
            return drafts
        pending = [text[length:] for text, length in zip(texts, self.cache.lengths.tolist(), strict=True)]
        logits = self._step(pending)
        going = tops > 0
        while True:
            tokens = self._extend(drafts, np.flatnonzero(going), rows, new, logits, going)
            going &= [len(draft.tokens) < top for draft, top in zip(drafts, tops.tolist(), strict=True)]
            if not going.any():
                return drafts
            logits = self._step([[token] if on else [] for token, on in zip(tokens, going, strict=True)])

    def _step(self, pending: Sequence[Sequence[int]]) -> np.ndarray:
        """Read more tokens of each row; returns logits (R,V)."""
        self.steps += 1
        ids, _ = pad(pending, 0)
        return self.cache.step(ids, np.array([len(tokens) for tokens in pending]))

    def _extend(
        self,
        drafts: Sequence[Draft],
        positions: np.ndarray,
        rows: Sequence[int],
        new: Sequence[list[int]],
        logits: np.ndarray,
        going: np.ndarray,
    ) -> list[int]:
        """Append a token to the drafts at `positions` and update `going`; returns the tokens (R)."""
        mine = [rows[place] for place in positions.tolist()]
        scores = logits[positions]
        if self.shape is not None:
            texts = [[*new[place], *drafts[place].tokens] for place in positions.tolist()]
            scores = self.shape(mine, texts, scores)
        chosen = scores.argmax(axis=1) if self.choose is None else self.choose(scores, np.array(mine))
        probs = softmax(scores)
        tokens = [0] * len(rows)
        for place, token, share in zip(positions.tolist(), chosen.tolist(), probs, strict=True):
            tokens[place] = token
            drafts[place].tokens.append(token)
            if self.choose is not None:
                drafts[place].probs.append(share)
            # Even an unlikely token is kept, or the distribution of sampled drafts would be wrong.
            going[place] = token not in self.ends and share[token] >= self.settings.confidence
        return tokens

    def select(self, on: np.ndarray) -> None:
        """See Proposer."""
        self.cache.select(on)
        self.read = self.read[on]

    def judged(self, drafts: Sequence[Draft], counts: np.ndarray) -> None:
        """See Proposer."""
        self.cache.rewind(self.read + counts - 1)
        if self.settings.adapts:
            right = all(len(draft.tokens) < n for draft, n in zip(drafts, counts.tolist(), strict=True))
            self.count = self.count + 2 if right else max(1, self.count - 1)
