"""The table of tokenizer classes agrees with transformers, and selects a checkpoint's class."""

import json

import pytest
import transformers
from transformers.models.auto import tokenization_auto

from txexport import families
from txexport.checkpoints.tokenizer_classes import BUILDERS
from txexport.runtime.preprocessing.token_types import gives_types
from txexport.support.tokenizer_classes import (
    ALIASES,
    CLASSES,
    GENERIC,
    LLAMA,
    MISNAMED,
    OF_MODEL,
    WHISPER,
    tokenizer_class,
)

NEWEST = int(transformers.__version__.split(".")[0]) >= 5
pytestmark = pytest.mark.skipif(not NEWEST, reason="version 4 has other classes")

FOUND = tokenization_auto.tokenizer_class_from_name
NAMES = [
    None,
    "MyTokenizer",
    GENERIC,
    LLAMA,
    "BertTokenizer",
    "DistilBertTokenizer",
    "Phi3Tokenizer",
    WHISPER,
]
CTC = "Wav2Vec2CTCTokenizer"
OTHER_KINDS = {"Pop2PianoTokenizer", "RagTokenizer"}  # that need a library, or are two tokenizers


def test_classes_of_model_types():
    library = tokenization_auto.TOKENIZER_MAPPING_NAMES
    unread = (None, CTC)  # it has no tokenizer.json: CTCTokenizer reads its vocab.json
    own = {name: library[name] for name in families.names() if library.get(name) not in unread}
    # The first without the package of that name; the others are other names of the classes.
    common = {"MistralCommonBackend": GENERIC, "MobileBertTokenizer": "BertTokenizer"}
    common["BartTokenizer"] = common["MvpTokenizer"] = "RobertaTokenizer"
    assert {name: common.get(kind, kind) for name, kind in own.items()} == OF_MODEL
    assert {*families.names()} & tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS == MISNAMED


def test_every_class_of_the_library_has_a_row():
    """A class without one is read as the class that uses tokenizer.json unchanged."""
    assert [name for name in CLASSES if FOUND(name) is None] == []
    assert {name: FOUND(name) for name in ALIASES} == {name: FOUND(kind) for name, kind in ALIASES.items()}
    assert [name for name in BUILDERS if name not in CLASSES] == []
    helpers = {"Auto", "Basic", "Character", "Mecab", "Wordpiece"}
    every = {name for name in dir(transformers) if name.endswith("Tokenizer")}
    every -= {f"{name}Tokenizer" for name in helpers} | {"PreTrainedTokenizer"}
    assert every - {*CLASSES, *ALIASES} == set()


@pytest.mark.parametrize("name", sorted({*CLASSES, *ALIASES} - OTHER_KINDS))
def test_a_class_that_tells_the_second_text_from_the_first(name):
    wanted = "token_type_ids" in FOUND(name).model_input_names
    assert gives_types({"tokenizer_class": name}, {}) == wanted


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """The class that AutoTokenizer selects without reading tokenizer.json; None where it fails."""
    base = transformers.PreTrainedTokenizerBase
    monkeypatch.setattr(base, "from_pretrained", classmethod(lambda cls, *_, **__: cls))

    def choose(settings: dict, config: dict, byte_level: bool) -> type | None:
        part = {"type": "ByteLevel"} if byte_level else None
        for name, values in {
            "tokenizer_config": settings,
            "config": config,
            "tokenizer": {"pre_tokenizer": part, "model": {}},
        }.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(values))
        try:
            return transformers.AutoTokenizer.from_pretrained(tmp_path)
        except (AttributeError, ValueError):
            return None

    return choose


@pytest.mark.parametrize("code", [None, {"AutoTokenizer": ["x.Y", None]}])
@pytest.mark.parametrize(
    "model_type", [None, "llama", "gpt2", "bert", "distilbert", "mistral", *sorted(MISNAMED)]
)
def test_the_class_that_reads_a_checkpoint(model_type, code, chosen):
    compared = 0
    for name in NAMES:
        for fast in ("", "Fast"):
            for place in ("settings", "config"):
                for byte_level in (False, True):
                    files = {"settings": {} if code is None else {"auto_map": code}, "config": {}}
                    files["config"] |= {} if model_type is None else {"model_type": model_type}
                    files[place] |= {} if name is None else {"tokenizer_class": name + fast}
                    wanted = chosen(**files, byte_level=byte_level)
                    if wanted is None:
                        continue
                    found = tokenizer_class(**files, byte_level=byte_level)
                    assert FOUND(found) == wanted, (files, byte_level)
                    assert gives_types(**files) == ("token_type_ids" in wanted.model_input_names), files
                    compared += 1
    assert compared >= 20


def test_a_pair_of_texts_for_a_model_put_together_by_hand():
    assert gives_types({}, {"model_type": "txexport"})
    assert not gives_types({"tokenizer_class": "PreTrainedTokenizerFast"}, {"model_type": "txexport"})
