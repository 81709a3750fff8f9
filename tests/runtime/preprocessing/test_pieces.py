"""A stream's pieces are together the whole text, whatever the tokenizer and wherever they are cut."""

import json
import random
from types import SimpleNamespace

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from txexport.runtime.preprocessing.decoding import SPACES
from txexport.runtime.preprocessing.pieces import Pieces
from txexport.runtime.preprocessing.text import Text
from txexport.server.texts import RowText

PLAIN = ["a", "b", "we", "don", "'", "t", "n", "n't", "m", "s", "ve", "re", ".", "?", "!", ",", " ", "", "-"]
PLAIN += ["é", "猫", "🐈", "\ufffd", "<", "|", "<|1", ".00", "|>", "00", "<|0.50|>", "\u0301", "|a", "ab"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
META, WORD_PIECES = [f"▁{word}" for word in PLAIN], [f"##{word}" for word in PLAIN]
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
SPECIAL = ["<s>", "</s>", "<pad>"]
LLAMA = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
NOWHERE = decoders.Replace(Regex("^ +| +$"), "")
TIDY = {"clean_up_tokenization_spaces": True}
# A tokenizer's words and decoder, and settings, by its kind.
KINDS = {
    "byte-level BPE": ([*LETTERS, "Ġa", "çĮ«a", "ĠĠ"], decoders.ByteLevel(), {}),
    "bytes of UTF-8": (LETTERS, decoders.ByteLevel(), TIDY),
    "WordPiece": (PLAIN + WORD_PIECES, decoders.WordPiece(cleanup=False), {}),
    "WordPiece, tidy": (PLAIN + WORD_PIECES, decoders.WordPiece(), TIDY),
    "WordPiece, tidied once": (PLAIN, decoders.WordPiece(cleanup=False), TIDY),
    "Metaspace": (PLAIN + META, decoders.Metaspace(), {}),
    "Metaspace, tidy": (PLAIN + META, decoders.Metaspace(), TIDY),
    "Metaspace, never": (META, decoders.Metaspace(prepend_scheme="never"), {}),
    "byte fallback": (PLAIN + META + BYTES, decoders.Sequence([*LLAMA, decoders.Strip(" ", 1, 0)]), {}),
    "byte fallback alone": (BYTES, decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()]), {}),
    "byte fallback, no strip": (META + BYTES[190:250], decoders.Sequence(LLAMA), {}),
    "Marian": (
        PLAIN + META,
        decoders.Sequence([decoders.Replace("\0", ""), decoders.Metaspace(), decoders.Fuse(), NOWHERE]),
        TIDY,
    ),
    "CTC": ([*PLAIN, "<pad>", "|"], decoders.CTC(), {}),
    "CTC, no cleanup": ([*PLAIN, "<pad>", "|"], decoders.CTC(cleanup=False), TIDY),
    "suffixes": (PLAIN + [f"{word}</w>" for word in PLAIN], decoders.BPEDecoder(), {}),
    "words": (PLAIN, None, {}),
    "words, tidy": (PLAIN, None, TIDY),
    "a replacement across tokens": (
        PLAIN,
        decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", "c")]),
        {},
    ),
    "a pattern across tokens": (
        PLAIN,
        decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex("a.*n"), "c")]),
        {},
    ),
    "Whisper": (LETTERS, decoders.ByteLevel(), {"tokenizer_class": "WhisperTokenizer"}),
    "Whisper of words": (PLAIN, decoders.Fuse(), {"tokenizer_class": "WhisperTokenizerFast"}),
}  # fmt: skip


@pytest.fixture
def text_of(tmp_path):
    """A function from a kind to its tokenizer, as a bundle has it."""

    def get(kind: str) -> Text:
        words, decoder, settings = KINDS[kind]
        vocabulary = {word: place for place, word in enumerate(dict.fromkeys(words))}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, words[0]))
        if decoder is not None:
            tokenizer.decoder = decoder
        tokenizer.add_special_tokens(SPECIAL)
        tokenizer.add_tokens([AddedToken("<|1.00|>"), AddedToken(" x"), AddedToken("<|30.0")])
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        return Text(tmp_path)

    return get


def drawn(draw: random.Random, size: int) -> list[int]:
    """Ids of any words, of a few that come again and again, of one, or of neighbours, as of bytes."""
    length, few = draw.randrange(30), draw.choices(range(size), k=3)
    choice = draw.randrange(4)
    if choice == 0:
        return draw.choices(range(size), k=length)
    if choice == 1:
        return draw.choices(few, k=length)
    if choice == 2:
        return [draw.choice([few[0], draw.randrange(size)]) for _ in range(length)]
    start = draw.randrange(size)
    return [min(size - 1, start + draw.randrange(12)) for _ in range(length)]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_the_whole_text(kind, text_of):
    text, draw = text_of(kind), random.Random(kind)
    size = text.tokenizer.get_vocab_size()
    rows = [drawn(draw, size) for _ in range(1500)] + [[one] for one in range(size)] + [[]]
    for row, expected in zip(rows, text.decode(rows), strict=True):
        pieces = Pieces(text)
        found = [*(pieces.add(token) for token in row), pieces.rest()]
        assert "".join(found) == expected, (row, found)
        assert pieces.rest() == ""


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_come_as_tokens_do(kind, text_of):
    """Nothing is held back for long: of words that are whole, most of the text is there before the end."""
    text = text_of(kind)
    words = [
        text.tokenizer.token_to_id(word) for word in ("a", "we", "▁we", "##we", "we</w>", "|") for _ in "ab"
    ]
    row = [word for word in words if word is not None] * 20
    if not row:  # of bytes alone, any of which may be the first of what is none
        row = [text.tokenizer.token_to_id("<0x61>")] * 40
    pieces = Pieces(text)
    told = "".join(pieces.add(token) for token in row)
    if "across tokens" in kind or kind == "byte fallback alone":
        assert told == ""
    else:
        assert len(told) > len(text.decode([row])[0]) - 12


def test_texts_of_spaces_are_cleaned_as_they_are_whole(text_of):
    """Of what the patterns are made of, in any order: one that goes out makes room for the next."""
    text, draw = text_of("WordPiece, tidied once"), random.Random(1)
    letters = sorted({letter for spaced in SPACES for letter in spaced})
    for _ in range(4000):
        whole = "".join(
            draw.choice([*letters, " ", " ", "'", draw.choice(SPACES)]) for _ in range(draw.randrange(16))
        )
        cuts = sorted(draw.choices(range(len(whole) + 1), k=3))
        pieces, found = Pieces(text), ""
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            found += pieces._settled(whole[start:end])
        assert found + pieces.rest() == text.cleaning.clean(whole), (whole, cuts)


def test_a_long_text_that_cannot_settle_is_no_attack(text_of):
    text = text_of("words, tidy")
    pieces, quote = Pieces(text), text.tokenizer.token_to_id("'")
    found = [pieces.add(quote) for _ in range(1500)]
    assert "".join(found) + pieces.rest() == text.decode([[quote] * 1500])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_string_ends_the_text_in_the_same_place(kind, text_of):
    """As the server streams a row: whole, or step by step, cut before the first stop string."""
    text, draw = text_of(kind), random.Random(kind)
    for _ in range(300):
        row = drawn(draw, text.tokenizer.get_vocab_size())
        [whole] = text.decode([row])
        stops = [whole[at : at + 1 + draw.randrange(3)] for at in draw.choices(range(len(whole) + 1), k=2)]
        stops = [stop for stop in stops if stop] or ["a"]
        grown = text.decode([row[:place] for place in range(1, len(row) + 1)])  # a row ends at its first stop
        stopped = (place for place, said in enumerate(grown, 1) if any(stop in said for stop in stops))
        row = row[: next(stopped, len(row))]
        [whole] = text.decode([row])
        running = SimpleNamespace(result=SimpleNamespace(tokens=[]), done=False, closed=False)
        rows = RowText(text, running, stops)
        told = ""
        for token in row:
            running.result.tokens.append(token)
            told += rows.more() if draw.random() < 0.7 else ""
        running.done = True
        told += rows.more()
        ends = [at for stop in stops if (at := whole.find(stop)) >= 0]
        assert told == (whole[: min(ends)] if ends else whole)
