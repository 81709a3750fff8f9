"""Texts of CTC's token ids, as the tokenizer classes of transformers decode them; S vectors of a sound."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from txexport.runtime.preprocessing.ctc_vocabulary import Labels, vocabulary


class Part(NamedTuple):
    """A text without spaces, or a space: with its first vector and the one after its last."""

    text: str
    start: int
    end: int


class CTCTokenizer:
    """The decoder of a CTC head's token ids. Equal tokens in a row are one; blanks have no text.

    Where ids go on from earlier ones, `begun` says whether those had a token. Raises errors as `vocabulary`.
    """

    def __init__(self, folder: Path):
        self.vocabulary = vocabulary(folder)

    @classmethod
    def of_labels(cls, labels: Sequence[str]) -> "CTCTokenizer":
        """The tokenizer of tokens with these texts: "" is the blank, and a space ends a word."""
        tokenizer = cls.__new__(cls)
        tokenizer.vocabulary = Labels(labels)
        return tokenizer

    def labels(self, count: int) -> list[str]:
        """The texts of the first `count` tokens: "" of the blank, and a space of the delimiter of words.

        Raises InputError for tokens that are pieces of words.
        """
        return self.vocabulary.labels(count)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the likeliest token ids (S) of a sound's vectors."""
        return self._finished(self.raw(ids))

    def join(self, texts: Iterable[str]) -> str:
        """The text of words, cleaned up as the checkpoint's settings say."""
        return self._finished(self.vocabulary.space.join(texts))

    def _finished(self, text: str) -> str:
        """A whole text after `raw`: stripped and cleaned up."""
        return self.vocabulary.cleaned(text.strip() if self.vocabulary.strips else text)

    def raw(self, ids: Sequence[int], begun: bool = False) -> str:
        """The text of token ids before it is stripped and cleaned up."""
        return "".join(part.text for part in self._parts(ids, begun))

    def words(self, ids: Sequence[int], begun: bool = False) -> list[Part]:
        """The words of the same ids; as in the original neither in lower case nor cleaned up."""
        space = self.vocabulary.space
        groups = groupby(self._parts(ids, begun), key=lambda part: part.text == space)
        runs = [list(group) for is_space, group in groups if not is_space]
        return [Part("".join(part.text for part in run), run[0].start, run[-1].end) for run in runs]

    def settled(self, ids: Sequence[int], by_word: bool, begun: bool = False) -> int:
        """The number of ids, from the first, whose text further ids cannot change.

        They end before the last space. Without a space they end before the last token, or with `by_word`
        before the first; without tokens all are settled.
        """
        parts = self._parts(ids, begun)
        spaces = [part.start for part in parts if part.text == self.vocabulary.space]
        if spaces:
            return spaces[-1]
        if not parts:
            return len(ids)
        return parts[0 if by_word else -1].start

    def tokens(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The tokens of ids: of equal ones in a row the first, without blanks."""
        return tuple(number for number, _, _ in self._runs(ids))

    def _runs(self, ids: Sequence[int]) -> list[tuple[int, int, int]]:
        """Tokens that are no blanks, each with its first vector and the one after its last."""
        runs, end = [], 0
        for _, group in groupby(ids, key=self.vocabulary.key):
            number, *others = group
            start, end = end, end + 1 + len(others)
            if not self.vocabulary.is_blank(number):
                runs.append((number, start, end))
        return runs

    def _parts(self, ids: Sequence[int], begun: bool) -> list[Part]:
        """The parts of the text."""
        parts = []
        for index, (number, start, end) in enumerate(self._runs(ids)):
            first = not (index or begun)
            parts += [Part(text, start, end) for text in self.vocabulary.texts(number, first=first)]
        return parts
