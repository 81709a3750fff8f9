"""A tokenizer built by a class of transformers 5, and the steps common to all classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors
from tokenizers.processors import PostProcessor

from txexport.checkpoints.tokenizer_classes.settings import Settings
from txexport.checkpoints.tokenizer_classes.tokenizer_file import TokenizerFile
from txexport.support.tokenizer_classes import SPECIAL_TOKENS

Post = Callable[["Built"], PostProcessor]


@dataclass
class Built:
    """A tokenizer before its added tokens.

    `tokens` are the special tokens by name. `extra` are those without a name, which the class takes from the
    older setting. `post` makes the post-processor once all tokens are known; without it that of
    tokenizer.json stays. `again` returns the tokens to add once more at the end, also those in the
    vocabulary.
    """

    tokenizer: Tokenizer
    tokens: dict[str, Any]
    extra: list[Any] | None = None
    post: Post | None = None
    again: Callable[[Any], AddedToken] | None = None

    def text(self, name: str) -> str:
        """A special token's text."""
        return str(self.tokens[name])

    def id(self, name: str) -> int:
        """A special token's id; the unknown token's if it is not in the vocabulary. Raises KeyError."""
        for token in (self.text(name), self.text("unk_token")):
            if (number := self.tokenizer.token_to_id(token)) is not None:
                return number
        raise KeyError(name)

    def pair(self, name: str) -> tuple[str, int]:
        """A special token's text and id."""
        return self.text(name), self.id(name)


def finished(built: Built, settings: Settings, file: TokenizerFile, rebuilt: bool) -> Tokenizer:
    """The tokenizer with its added tokens, in transformers' order, and its post-processor.

    `rebuilt` tells that the class made it anew. Raises the library's exceptions.
    """
    tokenizer = built.tokenizer
    if rebuilt and file.post_processor is not None:
        tokenizer.post_processor = file.post_processor
    padding = file.tokenizer.padding
    if padding is not None and built.tokens["pad_token"] is None:
        built.tokens["pad_token"] = padding["pad_token"]
    named = {name: built.tokens[name] for name in SPECIAL_TOKENS} | settings.named
    tokens = [token for token in named.values() if token is not None]
    _add(tokenizer, settings.added, tokens, settings.extra(built.extra))
    if built.post is not None:
        tokenizer.post_processor = built.post(built)
    if built.again is not None:
        special = [*tokens, *settings.extra(built.extra)]
        tokenizer.add_special_tokens([built.again(token) for token in special])
        if file.post_processor is None:
            tokenizer.post_processor = plain(built)
    return tokenizer


def _add(tokenizer: Tokenizer, added: dict[int, AddedToken], named: list[Any], extra: list[Any]) -> None:
    """Add the tokens listed in files and the special tokens missing from the vocabulary, each once."""
    present = tokenizer.get_added_tokens_decoder().values()
    same = {repr(token) for token in present}
    missing: list[Any] = [token for _, token in sorted(added.items()) if repr(token) not in same]
    known = {token.content for token in present} | {token.content for token in missing}
    for token in [*named, *extra]:
        if str(token) not in known and token not in missing:
            missing.append(token)
    texts = {str(token) for token in named}
    tokens = []
    for token in missing:
        if isinstance(token, str):
            token = AddedToken(token, special=True)
        elif not token.special and token.content in texts:
            token.special = True
        tokens.append(token)
    if tokens:
        tokenizer.add_tokens(tokens)


def as_given(token: Any) -> AddedToken:
    """A special token with its properties unchanged."""
    return AddedToken(token, special=True) if isinstance(token, str) else token


def anew(token: Any) -> AddedToken:
    """A special token with the default properties, which strips no spaces."""
    return AddedToken(str(token), special=True)


def plain(built: Built) -> PostProcessor:
    """The post-processor that adds nothing to a text or a pair."""
    return processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])


def template(single: str, pair: str, *names: str) -> Post:
    """The post-processor that adds special tokens; templates write each as its name in braces."""

    def post(built: Built) -> PostProcessor:
        texts = {name: built.text(name) for name in names}
        return processors.TemplateProcessing(
            single=single.format(**texts),
            pair=pair.format(**texts),
            special_tokens=[built.pair(name) for name in dict.fromkeys(names)],
        )

    return post


def roberta(end: str, start: str, trim_offsets: bool, add_prefix_space: bool) -> Post:
    """RoBERTa's post-processor, with special tokens by name."""

    def post(built: Built) -> PostProcessor:
        return processors.RobertaProcessing(
            built.pair(end), built.pair(start), trim_offsets, add_prefix_space
        )

    return post
