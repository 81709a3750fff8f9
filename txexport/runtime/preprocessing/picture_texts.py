"""The text that stands for an image in a prompt, as transformers' processors write it."""

from collections.abc import Mapping
from typing import Any

from txexport.runtime.preprocessing.image_splits import SplitImage
from txexport.runtime.preprocessing.image_tiles import Tiles

START, END = "<img>", "</img>"
BEGIN, FINISH = "<start_of_image>", "<end_of_image>"
BORDER, WHOLE = "<fake_token_around_image>", "<global-img>"

OPEN, CLOSE, OVERVIEW = "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"


def of_split(token: str, image: SplitImage, bordered: bool) -> str:
    """LFM2-VL's text for an image: the tokens of its tiles and of the whole, with names if `bordered`."""
    names = [
        f"<|img_row_{row}_col_{column}|>"
        for row in range(1, image.rows + 1)
        for column in range(1, image.columns + 1)
    ]
    borders = [*names, OVERVIEW if names else ""] if bordered else [""] * len(image.parts)
    vectors = "".join(
        border + token * part.vectors for border, part in zip(borders, image.parts, strict=False)
    )
    return f"{OPEN}{vectors}{CLOSE}" if bordered else vectors


def of_rows(token: str, rows: int, columns: int, settings: Mapping[str, Any]) -> str:
    """Pixtral's text for an image: the tokens of each row, then one that ends the row, or the image.

    `settings` are those of processor_config.json.
    """
    row = token * columns
    between, last = (
        settings.get("image_break_token", "[IMG_BREAK]"),
        settings.get("image_end_token", "[IMG_END]"),
    )
    return f"{row}{between}" * (rows - 1) + f"{row}{last}"


def of_tiles(vectors: str, tiles: Tiles) -> str:
    """Idefics3's text for an image: the tokens of each tile's `vectors`, its row and column before them."""
    overview = f"{BORDER}{WHOLE}{vectors}{BORDER}"
    if not tiles.rows:
        return overview
    lines = [
        "".join(f"{BORDER}<row_{row}_col_{column}>{vectors}" for column in range(1, tiles.columns + 1))
        for row in range(1, tiles.rows + 1)
    ]
    return "".join(f"{line}\n" for line in lines) + f"\n{overview}"


def of_canvas(vectors: str, tiles: Tiles) -> str:
    """InternVL's text for an image: the tokens of the `vectors` of all its tiles, between two others."""
    return f"{START}{vectors * len(tiles.values)}{END}"


def of_gemma(vectors: str) -> str:
    """Gemma 3's text for an image: its tokens between two others, as a paragraph."""
    return f"\n\n{BEGIN}{vectors}{FINISH}\n\n"


def of_paligemma(text: str, mark: str, images: int, first: str) -> str:
    """PaliGemma's prompt: its images, the token `first` behind the last of them, the text, and a new line.

    Images precede a text that has no `mark` of one.
    """
    if mark not in text:
        text = mark * images + text
    end = text.rfind(mark) + len(mark) if mark in text else 0
    return f"{text[:end]}{first}{text[end:]}\n"


def of_mllama(text: str, mark: str, first: str) -> str:
    """Llama 3.2's prompt: its first images, then the token `first`, unless the text has it."""
    if first in text:
        return text
    rest = text
    while rest.startswith(mark):
        rest = rest.removeprefix(mark)
    return f"{text[: len(text) - len(rest)]}{first}{rest}"
