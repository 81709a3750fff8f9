"""Texts of pages and queries, as the processors of ColPali and ColQwen2 write them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, shown
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.special_tokens import special_tokens

FILE = "processor_config.json"
AUGMENTATION = 10  # padding tokens at the end of a query, which have vectors too (Faysse et al. 2024, 4.1)
BEGINNING_ITSELF = "colpali"  # its processor writes the first token; the tokenizer adds none
PREFIXES = {"visual_prompt_prefix": "Describe the image.", "query_prefix": "Question: "}
PREFIXES_OF_QWEN2 = {
    "visual_prompt_prefix": (
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>"
        "Describe the image.<|im_end|><|endoftext|>"
    ),
    "query_prefix": "Query: ",
}


@dataclass(frozen=True)
class PageTexts:
    """The files of a bundle for late interaction with pages, and the id of the token of an image's vectors.

    Raises BundleError for a setting of another type, and for a token that the tokenizer does not have.
    """

    files: BundleFiles
    token_id: int

    @property
    def _begins_itself(self) -> bool:
        return bool(self.files.config.get("model_type") == BEGINNING_ITSELF)

    def _prefix(self, name: str) -> str:
        """A setting of the processor's file. ColQwen2's processor takes null and "" for its default."""
        settings: Mapping[str, Any] = read_json(self.files.folder / FILE, missing={})
        default = (PREFIXES if self._begins_itself else PREFIXES_OF_QWEN2)[name]
        value = settings.get(name, default)
        if not self._begins_itself:
            value = value or default
        if not isinstance(value, str):
            raise BundleError(f"{FILE}: {name} is {shown(value)}, expected a text")
        return value

    def _special(self, name: str) -> str:
        token = special_tokens(self.files.folder).get(name)
        if token is None:
            raise BundleError(f"the tokenizer's files name no {name}, which is part of every query")
        return token

    @property
    def _first(self) -> str:
        return self._special("bos_token") if self._begins_itself else ""

    @property
    def image_token(self) -> str:
        """The text of a vector of an image."""
        token: str | None = self.files.text.tokenizer.id_to_token(self.token_id)
        if token is None:
            raise BundleError(f"tokenizer.json has no token {self.token_id}, which stands for images")
        return token

    def query(self, text: str) -> str:
        """The text that the model reads of a query."""
        more = self._special("pad_token") * AUGMENTATION
        return f"{self._first}{self._prefix('query_prefix')}{text}{more}\n"

    def page(self, vectors: int) -> str:
        """The text that the model reads of a page, whose image has that number of vectors."""
        prefix, token = self._prefix("visual_prompt_prefix"), self.image_token
        if self._begins_itself:
            return f"{token * vectors}{self._first}{prefix}\n"
        if prefix.count(token) != 1:
            raise BundleError(
                f"{FILE}: visual_prompt_prefix has {token} {prefix.count(token)} times, expected once"
            )
        return prefix.replace(token, token * vectors)

    def ids(self, texts: list[str]) -> list[list[int]]:
        """The token ids of such texts."""
        adds = not self._begins_itself
        return [encoding.ids for encoding in self.files.text.encode(texts, adds=adds)]
