"""Words of token ids with times, as in openai/whisper (tokenizer.py, timing.py)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from txexport.runtime.preprocessing.decoding import BROKEN
from txexport.runtime.preprocessing.text import Text
from txexport.runtime.tasks.transcript import Word

WITHOUT_SPACES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})  # languages that write none between words
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
OPENING = "\"'“¡¿([{-"  # belongs to the word after it
CLOSING = "\"'.。,，!！?？:：”)]}、"  # to the word before it


@dataclass(frozen=True)
class TimedToken:
    """A token of text; `start` and `end` are in seconds, None where times are not asked for."""

    token: int
    start: float | None = None
    end: float | None = None

    def continues(self, other: "TimedToken") -> bool:
        """Return whether `other` is the same token, read again no earlier."""
        if self.token != other.token or self.start is None or self.end is None:
            return self.token == other.token
        return (self.start, self.end) <= (other.start, other.end)


@dataclass
class _Word:
    text: str
    tokens: list[TimedToken] = field(default_factory=list)

    def take(self, other: "_Word") -> None:
        """Append another word, which becomes empty."""
        self.text, self.tokens = self.text + other.text, self.tokens + other.tokens
        other.text, other.tokens = "", []


def words_of(tokens: Sequence[TimedToken], text: Text, spaced: bool = True) -> list[Word]:
    """The words of tokens; where a language is not `spaced`, each character that tokens complete is one."""
    parts = _characters(tokens, text)
    parts = _between_spaces(parts) if spaced else parts
    _merge_opening(parts)
    _merge_closing(parts)
    return [Word(one.tokens[0].start, one.tokens[-1].end, one.text) for one in parts if one.text]


def _characters(tokens: Sequence[TimedToken], text: Text) -> list[_Word]:
    """The shortest runs of tokens that are decoded to complete characters."""
    [full] = text.decode([[one.token for one in tokens]])
    parts: list[_Word] = []
    run: list[TimedToken] = []
    done = 0
    for token in tokens:
        run.append(token)
        [decoded] = text.decode([[one.token for one in run]])
        broken = done + decoded.find(BROKEN)
        if BROKEN not in decoded or broken >= len(full) or full[broken] == BROKEN:
            parts.append(_Word(decoded, run))
            run, done = [], done + len(decoded)
    return parts


def _between_spaces(characters: Sequence[_Word]) -> list[_Word]:
    """Runs joined up to the next space or punctuation mark."""
    parts: list[_Word] = []
    for one in characters:
        if not parts or one.text.startswith(" ") or one.text.strip() in PUNCTUATION:
            parts.append(one)
        else:
            parts[-1].take(one)
    return parts


def _merge_opening(parts: Sequence[_Word]) -> None:
    """Join opening punctuation to the word after it, which takes its place."""
    following = len(parts) - 1
    for place in range(len(parts) - 2, -1, -1):
        mark, word = parts[place], parts[following]
        if mark.text.startswith(" ") and mark.text.strip() in OPENING:
            word.text, word.tokens = mark.text + word.text, mark.tokens + word.tokens
            mark.text, mark.tokens = "", []
        else:
            following = place


def _merge_closing(parts: Sequence[_Word]) -> None:
    """Join closing punctuation to the word before it."""
    before = 0
    for place in range(1, len(parts)):
        if not parts[before].text.endswith(" ") and parts[place].text in CLOSING:
            parts[before].take(parts[place])
        else:
            before = place
