"""Special tokens by name are those of the tokenizer that transformers makes of the same files."""

import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer

from txexport.runtime.preprocessing.special_tokens import special_tokens
from txexport.support.tokenizer_classes import ALIASES, CLASSES, GENERIC, MISNAMED, OF_MODEL, SPECIAL_TOKENS

WORD_PIECE = {
    "Bert",
    "ConvBert",
    "DPRContextEncoder",
    "DPRQuestionEncoder",
    "DPRReader",
    "DistilBert",
    "Electra",
    "Lxmert",
    "MobileBert",
    "SqueezeBert",
    "MPNet",
    "Splinter",
}
UNIGRAM = {
    "Albert",
    "BigBird",
    "Barthez",
    "Camembert",
    "DebertaV2",
    "FNet",
    "LayoutXLM",
    "MBart",
    "MBart50",
    "Nllb",
    "Pegasus",
    "RemBert",
    "T5",
    "XGLM",
    "XLMRoberta",
    "XLNet",
}
TOKENS = {name: row for name, row in CLASSES.items() if row.special_tokens}  # those that have any
GENERIC_MODELS = {model_type for model_type, name in OF_MODEL.items() if name == GENERIC}
WORDS = ["<u>", "<unk>", "a", "b", "[CLS]", "[SEP]"]


def tokenizer(kind: str | None, byte_level: bool) -> Tokenizer:
    """A small tokenizer of the model that a class asks for."""
    name = (kind or "").removesuffix("Fast").removesuffix("Tokenizer")
    if name in WORD_PIECE or name == "Funnel":
        return Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    if name in UNIGRAM:
        return Tokenizer(models.Unigram([(word, 0.0) for word in WORDS], unk_id=1))
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(WORDS)}, [], unk_token="<unk>"))
    if byte_level:
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    return made


def compare(folder, settings, *, config=None, named=None, byte_level=False, padding=False) -> None:
    """Hold our special tokens of such files to transformers'."""
    made = tokenizer(settings.get("tokenizer_class"), byte_level)
    if padding:
        made.enable_padding(pad_token="b", pad_id=3)
    made.save(str(folder / "tokenizer.json"))
    files = {"tokenizer_config": settings, "config": config or {"model_type": "llama"}}
    files |= {} if named is None else {"special_tokens_map": named}
    for name, values in files.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    expected = AutoTokenizer.from_pretrained(folder).special_tokens_map
    assert special_tokens(folder) == expected


@pytest.mark.parametrize("fast", ["", "Fast"])
@pytest.mark.parametrize("name", [*TOKENS, *ALIASES])
def test_what_a_class_has_by_default(name, fast, tmp_path):
    compare(tmp_path, {"tokenizer_class": name + fast})


@pytest.mark.parametrize("byte_level", [False, True])
@pytest.mark.parametrize(
    "kind", [None, "LlamaTokenizer", "PreTrainedTokenizerFast", "GPT2TokenizerFast", "Strange"]
)
@pytest.mark.parametrize(
    "family", [*sorted(GENERIC_MODELS | MISNAMED), "llama", "gpt2", "gemma2", "smollm3", "deepseek_v3"]
)
def test_the_class_that_a_family_takes(family, kind, byte_level, tmp_path):
    settings = {} if kind is None else {"tokenizer_class": kind}
    compare(tmp_path, settings, config={"model_type": family}, byte_level=byte_level)


@pytest.mark.parametrize("family", [name for name, kind in OF_MODEL.items() if kind in TOKENS])
def test_the_class_of_a_family_that_names_none(family, tmp_path):
    made = tokenizer(OF_MODEL[family], False)
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert special_tokens(tmp_path) == AutoTokenizer.from_pretrained(tmp_path).special_tokens_map


ADDED = {
    "2": {
        "content": "a",
        "special": True,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }
}
OBJECT = {
    "__type": "AddedToken",
    "content": "a",
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "single_word": False,
}
PLACES = {
    "settings": ({"bos_token": "a", "eos_token": "b"}, None),
    "an object": ({"bos_token": OBJECT}, None),
    "the map": ({}, {"bos_token": "a"}),
    "an object of the map": ({}, {"bos_token": {"content": "a", "lstrip": False, "normalized": True}}),
    "both": ({"bos_token": "b", "pad_token": "b"}, {"bos_token": "a"}),
    "both, and added tokens": ({"bos_token": "b", "added_tokens_decoder": ADDED}, {"bos_token": "a"}),
    "the map beside added tokens": ({"added_tokens_decoder": ADDED}, {"bos_token": "a"}),
    "null": ({"bos_token": None, "unk_token": None}, None),
    "null in the map": ({"bos_token": "a"}, {"bos_token": None}),
    "others": ({"image_token": "a", "add_bos_token": True, "audio_token": None}, None),
    "others of the map": ({}, {"image_token": "a", "additional_special_tokens": ["b"]}),
    "extra": ({"extra_special_tokens": {"image_token": "a", "boi_token": "b"}}, None),
    "a list of extra": ({"extra_special_tokens": ["a"], "bos_token": "b"}, None),
}  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["PreTrainedTokenizerFast", "GPT2Tokenizer", "LlamaTokenizer", "Qwen2Tokenizer", "GemmaTokenizer"]
)
@pytest.mark.parametrize("place", PLACES)
def test_where_a_token_may_stand(place, kind, tmp_path):
    settings, named = PLACES[place]
    compare(tmp_path, {"tokenizer_class": kind} | settings, named=named)


@pytest.mark.parametrize("kind", ["PreTrainedTokenizerFast", "Qwen2Tokenizer"])
@pytest.mark.parametrize("settings", [{}, {"pad_token": "a"}, {"pad_token": None}])
def test_the_token_that_fills_rows(settings, kind, tmp_path):
    compare(tmp_path, {"tokenizer_class": kind} | settings, padding=True)


def test_a_class_that_config_names(tmp_path):
    compare(tmp_path, {}, config={"model_type": "llama", "tokenizer_class": "GPT2Tokenizer"})


def test_no_files(tmp_path):
    assert special_tokens(tmp_path) == {}


def test_names_are_those_of_the_library():
    assert (
        list(SPECIAL_TOKENS)
        == AutoTokenizer.from_pretrained.__globals__["TokenizersBackend"].SPECIAL_TOKENS_ATTRIBUTES
    )
