"""tokenizer.json as transformers 5 reads it: with the other files' settings, or rebuilt by its class.

Many classes of transformers 5 take only the vocabulary from tokenizer.json and build the rest themselves:
LlamaTokenizer puts no space after a special token, BertTokenizer lowercases unless tokenizer_config.json says
otherwise. All classes add the tokens of special_tokens_map.json, added_tokens.json and tokenizer_config.json.
A bundle's tokenizer.json has the same result without transformers.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE

from txexport.checkpoints.tokenizer_classes import byte_level, sentencepiece, translators, wordpiece
from txexport.checkpoints.tokenizer_classes.built import Built, finished
from txexport.checkpoints.tokenizer_classes.settings import Settings, gathered
from txexport.checkpoints.tokenizer_classes.tokenizer_file import VOCABULARY, TokenizerFile
from txexport.support.tokenizer_classes import GENERIC, PARAKEET, tokenizer_class

REBUILT = (  # classes that take only the vocabulary
    byte_level.CLASSES | sentencepiece.CLASSES | translators.CLASSES | wordpiece.CLASSES
)
FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")  # read beside it
DEFAULTS: dict[str, Any] = {  # defaults of a model's options, besides None
    "continuing_subword_prefix": "",
    "end_of_word_suffix": "",
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
    "max_input_chars_per_word": 100,
}
LETTERS = "a \u0378\ue000"  # two of which are in no vocabulary
PLAIN = {  # a post-processor that adds nothing
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {},
}


def as_read(text: str, files: Mapping[str, dict], config: Mapping[str, Any]) -> str | None:
    """The self-contained tokenizer.json equivalent to transformers 5's reading of a checkpoint's files.

    `text` is the checkpoint's own, `files` are those of FILES that it has, by name, as JSON, and `config` is
    config.json. None if its own is already equivalent, and for classes implemented in Python, which do not
    read it. Raises the tokenizers library's exceptions, or a KeyError or TypeError, for files that
    transformers cannot read either.
    """
    kind = tokenizer_class(files.get(FILES[0], {}), config, '"ByteLevel"' in text)
    build = BUILDERS.get(kind)
    if build is None:
        return None
    file = TokenizerFile.read(text)
    model, parts = file.model, _compared(_parts(file.tokenizer))  # before some classes change them
    options = _options(model)
    settings = gathered(files, file)
    tokenizer = finished(build(settings, file), settings, file, rebuilt=kind in REBUILT)
    tokenizer.encode(LETTERS)  # fails if the vocabulary lacks the class's unknown token
    made = _written(tokenizer)
    same_words = all(file.model.get(name) is model.get(name) for name in VOCABULARY)
    if same_words and _options(file.model) == options and _compared(made) == parts:
        return None
    kept = {name: file.values.get(name) for name in ("truncation", "padding")}
    return json.dumps(made | kept | {"model": file.model}, ensure_ascii=False)


def as_it_is(settings: Settings, file: TokenizerFile) -> Built:
    """TokenizersBackend, and ParakeetTokenizer, which differs in how it decodes."""
    return Built(file.tokenizer, settings.tokens(GENERIC))


BUILDERS = REBUILT | sentencepiece.OF_FILE | wordpiece.OF_FILE | {GENERIC: as_it_is, PARAKEET: as_it_is}


def _parts(tokenizer: Tokenizer) -> dict[str, Any]:
    """A tokenizer as JSON without its model, since a large vocabulary would be slow to write."""
    model, tokenizer.model = tokenizer.model, BPE()
    values: dict[str, Any] = json.loads(tokenizer.to_str())
    tokenizer.model = model
    del values["model"]
    return values


def _written(tokenizer: Tokenizer) -> dict[str, Any]:
    """As `_parts`, with tokens marked special if the tokenizer now treats them as special."""
    values = _parts(tokenizer)
    for token in values["added_tokens"]:
        ids = [token["id"]]
        if tokenizer.decode(ids) != tokenizer.decode(ids, skip_special_tokens=False):
            token["special"] = True
    return values


def _compared(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The result of `_parts`, without parts that have no effect."""
    result = {name: parts[name] for name in parts if name not in ("version", "truncation", "padding")}
    if result["post_processor"] == PLAIN:
        result["post_processor"] = None
    return result


def _options(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's options, without those equal to their defaults."""
    options = {name: value for name, value in model.items() if name not in VOCABULARY}
    return {
        name: value
        for name, value in options.items()
        if value is not None and not (name in DEFAULTS and value == DEFAULTS[name])
    }
