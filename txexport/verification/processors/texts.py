"""Seeded texts for a tokenizer: usual ones, and unusual ones that break tokenizers."""

import random
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache

from txexport.runtime.preprocessing.text import Item

SEED = 0
PER_CATEGORY = 6  # characters of each Unicode category, at most
LAST = 0x2FA1F  # of the planes with letters; above are tags and private use
LONG = 3000  # words of the longest text
WRITTEN = (
    "",
    " ",
    "   ",
    "\n",
    "\t \n",
    "Hello, world!",
    "  two spaces in front, and behind  ",
    "one\ntwo\r\nthree\tfour\u00a0five\u3000six\u2028seven\u200beight",
    "The QUICK brown Fox, don't you've we'll I'M it'S .",
    "Straße naïve CAFÉ cafe\u0301 ÀÉÎÕÜ Åå Ǆ ﬁ ﬃ ½ ① ＡＢＣ İstanbul ΣΑΣ",
    "漢字とカナ 한국어 텍스트 ภาษาไทย العربية עברית हिन्दी",
    "🙂 👩‍👩‍👧 🇫🇷 👍🏽 ☃️",
    "def f(x):\n    return x ** 2  # 1,234.5e-6 == 0xFF",
    "https://example.org/a_b?c=d&e=%20#f user@example.org",
    "``quoted'' \"twice\" 'once' «guillemets» … — –",
    "0 1 12 123 1234 12345 1234567890 ٣٤٥ Ⅷ",
    " ".join("abcdefg"[i] * length for i, length in enumerate((17, 33, 64, 99, 100, 101, 300))),
    "[INST] hi [/INST] <|user|> </s><s> <unk> [MASK] ##x ▁x Ġx <0x0A> <extra_id_0> <mask>",
    "\x00\x01\x7f\x85\ufffd\ufeff\u202e",
)


@cache
def characters() -> dict[str, tuple[str, ...]]:
    """Characters of every Unicode category except surrogates, the same on every machine."""
    by_category: dict[str, list[str]] = {}
    for number in range(LAST):
        letter = chr(number)
        by_category.setdefault(unicodedata.category(letter), []).append(letter)
    by_category.setdefault("Co", []).append(chr(sys.maxunicode - 2))
    by_category.pop("Cs", None)
    draw = random.Random(SEED)
    return {
        name: tuple(draw.sample(letters, min(PER_CATEGORY, len(letters))))
        for name, letters in by_category.items()
    }


def texts(special: Sequence[str], words: Sequence[str], *, quick: bool) -> list[str]:
    """Some hundreds of texts, or some dozens if `quick`.

    `special` are special tokens: each occurs alone, within words and between spaces. `words` are other tokens
    of the vocabulary.
    """
    draw = random.Random(SEED)
    all_letters = [letter for letters in characters().values() for letter in letters]
    result = [*WRITTEN]
    for letters in characters().values():
        result.append(" ".join(f"{letter}a b{letter}" for letter in letters) + "".join(letters))
    for token in draw.sample(special, min(len(special), 4 if quick else 30)):
        result += [
            token,
            f"a{token}b {token}{token} c",
            f"  {token} x  {token}\n",
            f"É{token.swapcase()} {token}. ",
        ]
    for _ in range(10 if quick else 150):
        result.append("".join(draw.choices([*all_letters, *"abc XYZ 019 ,.'-_", " "], k=draw.randint(1, 30))))
    for _ in range(10 if quick else 150):
        separator = draw.choice((" ", "", "  ", "\n", "-"))
        result.append(separator.join(draw.choices([*words, *special], k=draw.randint(1, 20))))
    result.append(" ".join(draw.choices([*words, "word", "Word,"], k=200 if quick else LONG)))
    return result


def pairs(singles: Sequence[str], *, quick: bool) -> Sequence[Item]:
    """Pairs of a text and the third after it, except the longest texts; a third of them if `quick`."""
    short = [text for text in singles if len(text) < 200]
    return [*zip(short, short[3:], strict=False)][:: 3 if quick else 1]
