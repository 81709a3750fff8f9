"""Prompts with images: their texts, and the tiles of the images in them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from txexport.bundle import read_json
from txexport.contracts.tile_grid import SINGLE, grid_of, vectors_of
from txexport.errors import BundleError, InputError, counted, shown
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing import chat
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.chat_messages import messages_of, text_of
from txexport.runtime.preprocessing.chat_templates import templates_of
from txexport.runtime.preprocessing.image_fitting import Fitted
from txexport.runtime.preprocessing.image_mosaics import Mosaic, in_square, in_tiles
from txexport.runtime.preprocessing.image_packing import Packing, Patches
from txexport.runtime.preprocessing.image_splits import SplitImage, Splitting
from txexport.runtime.preprocessing.image_tiles import Canvas, Tiled, Tiles
from txexport.runtime.preprocessing.opened_images import opened
from txexport.runtime.preprocessing.padded_tiles import PaddedTiles
from txexport.runtime.preprocessing.picture_texts import (
    BEGIN,
    of_canvas,
    of_gemma,
    of_mllama,
    of_paligemma,
    of_rows,
    of_split,
    of_tiles,
)
from txexport.runtime.preprocessing.special_tokens import special_tokens

Pieces: TypeAlias = Tiles | Patches | SplitImage  # an image as a processor reads it in a prompt


@dataclass(frozen=True)
class PicturePrompts:
    """The files of a bundle whose prompts have images, the id of their token, and the vectors of a tile.

    The latter are None where images of any size are read, which have as many as their size says. `most` is
    that of a mosaic of tiles, and `square` the side in pixels of the square that a vector covers in an image
    of any size.
    """

    files: BundleFiles
    token_id: int
    vectors: int | None
    most: int | None = None
    square: int = 0

    @property
    def token(self) -> str:
        """The text that stands for an image. Raises BundleError where the tokenizer has none."""
        token: str | None = self.files.text.tokenizer.id_to_token(self.token_id)
        if token is None:
            raise BundleError(
                f"{self.files.folder}: tokenizer.json has no token {self.token_id}, which stands for images"
            )
        return token

    @cached_property
    def _settings(self) -> Mapping[str, Any]:
        """The settings of processor_config.json."""
        settings: Mapping[str, Any] = read_json(self.files.folder / "processor_config.json", missing={})
        return settings

    @property
    def _begins(self) -> bool:
        """True for Gemma 3, in whose prompts an image is the token that begins one."""
        return bool(self.files.config.get("model_type") == "gemma3")

    @property
    def begins_itself(self) -> bool:
        """True for PaliGemma, whose prompts have their first token behind images; the tokenizer adds none."""
        return bool(self.files.config.get("model_type") == "paligemma")

    @property
    def _crossed(self) -> bool:
        """True for Llama 3.2, whose decoder attends to images: one token tells where each stands."""
        return isinstance(self.files.images.size, PaddedTiles)

    @property
    def rewrites(self) -> bool:
        """True where the processor changes prompts without images too."""
        return not self.adds_tokens or self._crossed

    @property
    def adds_tokens(self) -> bool:
        """True unless the processor writes all special tokens itself, or leaves them to the chat template."""
        return not (self.begins_itself or isinstance(self.files.images.size, Splitting))

    @property
    def mark(self) -> str:
        """The text of an image in prompts before they are expanded."""
        return BEGIN if self._begins else self.token

    def tiles(self, images: Sequence[Any]) -> list[Pieces]:
        """The images of a prompt as the processor reads them. Raises InputError for an invalid one."""
        size = self.files.images.size
        if isinstance(size, Mosaic):
            return [self._mosaic(image, size, len(images) == 1) for image in images]
        if isinstance(size, Fitted):
            return [self.files.images.fitted(image, self.square) for image in images]
        if isinstance(size, Splitting):
            return [self.files.images.split(image) for image in images]
        read = self.files.images.patches if isinstance(size, Packing) else self.files.images.tiles
        return [read(image) for image in images]

    def _mosaic(self, source: Any, size: Mosaic, single: bool) -> Tiles:
        """An image as a whole and in tiles, or as one tile if it is not the `single` one of a prompt."""
        assert self.vectors is not None
        images = self.files.images
        image = opened(source, images.on_white)
        if not single and self.most is not None:
            return Tiles(images.values_of(in_square(image, size, images.resample)), grid=SINGLE)
        sides = image.height, image.width
        grid = grid_of(sides, size.canvases, size.tile, math.isqrt(self.vectors), self.most)
        return Tiles(images.values_of(in_tiles(image, size, images.resample)), grid=grid)

    def expanded(self, text: str, images: Sequence[Pieces]) -> str:
        """A prompt's text with as many tokens for each image as it has vectors.

        Raises InputError unless the text has one token for each image.
        """
        if self.begins_itself:
            text = of_paligemma(
                text, self.mark, len(images), special_tokens(self.files.folder).get("bos_token", "")
            )
        if self._crossed:
            text = of_mllama(text, self.mark, special_tokens(self.files.folder).get("bos_token", ""))
        if not images:
            return text
        first, *parts = text.split(self.mark)
        if len(parts) != len(images):
            times = counted(len(parts), "time")
            raise InputError(f"a prompt has {self.token} {times}, expected {len(images)}, one for each image")
        texts = [self._text(one) for one in images]
        return first + "".join(f"{one}{part}" for one, part in zip(texts, parts, strict=True))

    def _text(self, tiles: Pieces) -> str:
        """The text that stands for an image."""
        if isinstance(tiles, Patches):
            return self.token * tiles.vectors
        if isinstance(tiles, SplitImage):
            return of_split(self.token, tiles, bool(self._settings.get("use_image_special_tokens", True)))
        if self._crossed:
            return self.token
        if self.square:
            rows, columns = (side // self.square for side in tiles.values.shape[2:])
            return of_rows(self.token, rows, columns, self._settings)
        assert self.vectors is not None
        if tiles.grid is not None:
            return self.token * vectors_of(tiles.grid, math.isqrt(self.vectors))
        size, vectors = self.files.images.size, self.token * self.vectors
        if self._begins:
            return of_gemma(vectors)
        if isinstance(size, Canvas):
            return of_canvas(vectors, tiles)
        return of_tiles(vectors, tiles) if isinstance(size, Tiled) else vectors

    def chat(self, conversation: Conversation, images: Sequence[Any]) -> tuple[str, list[Pieces], bool]:
        """The text of a conversation, the tiles of `images`, and True if the tokenizer adds a first token.

        It does unless the template has written it, as in transformers' processors. `without_images` gives the
        messages and images.
        """
        tiles = self.tiles(images)
        folder = self.files.folder
        if self.begins_itself:
            plain = not templates_of(folder, read_json(folder / "tokenizer_config.json", missing={}))
            text = self._single(conversation) if plain else chat.prompt(folder, conversation)
            return self.expanded(text, tiles), tiles, False
        text = chat.prompt(folder, conversation)
        first = special_tokens(folder).get("bos_token")
        adds = self.adds_tokens and not (first and text.startswith(first))
        return self.expanded(text, tiles), tiles, adds

    def _single(self, conversation: Conversation) -> str:
        """The only message of a conversation, of a checkpoint without a chat template.

        Raises InputError for several messages, one that is not the user's, content that is neither a text nor
        parts, and options of a template.
        """
        [message, *others] = messages_of(conversation.messages) or [{}]
        if others or message.get("role") != "user":
            raise InputError("the checkpoint has no chat template: pass exactly one message of the user")
        options = {
            "tools": conversation.tools,
            "chat_template": conversation.template,
            "chat_template_kwargs": conversation.template_kwargs,
            "continue_final_message": conversation.continues,
        }
        if unusable := [name for name, value in options.items() if value]:
            raise InputError(
                f"the checkpoint has no chat template, so {', '.join(unusable)} cannot be used; "
                "leave them out"
            )
        content = message.get("content", [])
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise InputError(f"a message's content is {shown(content)}, expected a text or a list of parts")
        return "".join(self.mark if part == {"type": "image"} else text_of(part) for part in content)
