"""tokenizer.json as transformers 5 reads it: with the settings beside it, and anew where its class says so.

Many classes of transformers 5 take of tokenizer.json the vocabulary alone, and build the rest by themselves:
LlamaTokenizer puts no space behind a special token, BertTokenizer reads in lower case unless
tokenizer_config.json says otherwise. All classes add what special_tokens_map.json, added_tokens.json and
tokenizer_config.json name. Whoever reads a bundle's tokenizer.json alone gets the same, without transformers.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from txexport.checkpoints.tokenizer_classes import byte_level, sentencepiece, translators, wordpiece
from txexport.checkpoints.tokenizer_classes.built import Built, finished
from txexport.checkpoints.tokenizer_classes.names import class_of
from txexport.checkpoints.tokenizer_classes.settings import Settings, TokenizerFile, gathered

CLASSES = (  # that build anew
    byte_level.CLASSES | sentencepiece.CLASSES | translators.CLASSES | wordpiece.CLASSES
)
FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")  # read beside it
NOTHING = {  # of a model's JSON, what says the same as leaving it out
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": "",
    "end_of_word_suffix": "",
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}
LETTERS = "a \u0378\ue000"  # of which two are in no vocabulary
LEFT_OUT = ("version", "truncation", "padding")
PLAIN = {  # a post-processor that adds nothing
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {},
}


def as_read(text: str, files: Mapping[str, dict], config: Mapping[str, Any]) -> str | None:
    """The tokenizer.json that says of itself what transformers 5 makes of a checkpoint's files.

    `text` is the checkpoint's own, `files` are those of FILES that it has, by name, as JSON, and `config` is
    config.json. None where it says all by itself, and for classes of Python alone, which do not read it.
    Raises what the tokenizers library does, or a KeyError or TypeError, for files that transformers cannot
    read either.
    """
    kind = class_of(files.get(FILES[0], {}), config, '"ByteLevel"' in text)
    if kind is None:
        return None
    file = TokenizerFile.read(text)
    before = _compared(json.loads(file.tokenizer.to_str()))  # which some classes change
    settings = gathered(files, file)
    build = (CLASSES | wordpiece.OF_FILE).get(kind, as_it_is)
    built = build(settings, file)
    tokenizer = finished(built, settings, file, rebuilt=kind in CLASSES)
    tokenizer.encode(LETTERS)  # which fails where the class finds no word for what it does not know
    made = _written(tokenizer) | {name: file.values.get(name) for name in ("truncation", "padding")}
    if _compared(made) == before:
        return None
    return json.dumps(made, ensure_ascii=False)


def as_it_is(settings: Settings, file: TokenizerFile) -> Built:
    """TokenizersBackend."""
    return Built(file.tokenizer, settings.tokens({}))


def _written(tokenizer: Tokenizer) -> dict[str, Any]:
    """A tokenizer as JSON, where tokens are special that it takes for such, whatever they were since."""
    values = json.loads(tokenizer.to_str())
    for token in values["added_tokens"]:
        ids = [token["id"]]
        if tokenizer.decode(ids) != tokenizer.decode(ids, skip_special_tokens=False):
            token["special"] = True
    return values


def _compared(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a tokenizer.json holds, without what makes no difference."""
    result = {name: value for name, value in values.items() if name not in LEFT_OUT}
    if result["post_processor"] == PLAIN:
        result["post_processor"] = None
    model = result["model"]
    result["model"] = {
        name: value
        for name, value in model.items()
        if name not in NOTHING or value not in (None, NOTHING[name])
    }
    return result
