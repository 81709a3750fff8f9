"""onnxruntime-genai: generation from a bundle's genai_config.json."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai as genai

PACKAGES = ["onnxruntime-genai"]


@cache
def load(bundle: Path, overlay: str = "{}") -> Any:
    """The model, with the JSON settings of `overlay` over those of genai_config.json."""
    config = genai.Config(str(bundle))
    config.overlay(overlay)
    return genai.Model(config)


def search(model: Any, rows: int, settings: dict[str, Any]) -> Any:
    """A generator for a batch of `rows`."""
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(batch_size=rows, **settings)
    return genai.Generator(model, parameters)


def sequences(generator: Any, rows: int) -> dict[str, Any]:
    """`sequences`: the ids of each row, without the token that ended them."""
    while not generator.is_done():
        generator.generate_next_token()
    return {"sequences": [[int(token) for token in generator.get_sequence(row)] for row in range(rows)]}


def generate(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], settings: dict[str, Any], overlay: str = "{}"
) -> dict[str, Any]:
    """`sequences` of prompts `input_ids` (B,S), padded on the right, or of one with images."""
    rows = len(arrays["input_ids"])
    generator = search(load(bundle, overlay), rows, settings)
    read(generator, bundle, arrays)
    return sequences(generator, rows)


def read(generator: Any, bundle: Path, arrays: dict[str, np.ndarray]) -> None:
    """Read prompts `input_ids` (B,S); with images, one prompt, its `pixel_values` and `image_grid_thw`."""
    ids = arrays["input_ids"].astype(np.int32)
    model = json.loads((bundle / "genai_config.json").read_text(encoding="utf-8"))["model"]
    if "vision" not in model:
        generator.append_tokens(ids)
        return
    inputs = genai.NamedTensors()
    inputs["input_ids"] = ids
    if "pixel_values" in arrays:
        inputs["num_image_tokens"] = np.array([np.sum(ids == model["image_token_id"])], np.int64)
        for name in ("pixel_values", "image_grid_thw"):
            inputs[name] = arrays[name]
    generator.set_inputs(inputs)


def converse(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], prompt: str, images: list[str], new: int
) -> dict[str, Any]:
    """`sequences` of a prompt of text and the images of files, and at most `new` tokens after it.

    The other values are the inputs that its processor makes, by name.
    """
    model = load(bundle)
    opened = genai.Images.open(*images) if images else None
    inputs = model.create_multimodal_processor()(prompt, images=opened)
    arrays = {name: np.array(inputs[name].as_numpy()) for name in inputs.keys()}  # noqa: SIM118 (no dict)
    length = arrays["input_ids"].shape[1] + new
    generator = search(model, 1, {"max_length": length, "do_sample": False})
    generator.set_inputs(inputs)
    return {**arrays, **sequences(generator, 1)}


def chunked(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], settings: dict[str, Any]
) -> dict[str, Any]:
    """`sequences` of a prompt in chunks, each (1,S)."""
    generator = search(load(bundle), 1, settings)
    for ids in arrays.values():
        generator.append_tokens(ids.astype(np.int32))
    return sequences(generator, 1)


def taken_back(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], settings: dict[str, Any], new: int, kept: int
) -> dict[str, Any]:
    """`sequences` of `input_ids` (1,S) and `new` tokens, rewound to `kept`, then `rest` (1,S)."""
    generator = search(load(bundle), 1, settings)
    generator.append_tokens(arrays["input_ids"].astype(np.int32))
    for _ in range(new):
        generator.generate_next_token()
    generator.rewind_to(kept)
    generator.append_tokens(arrays["rest"].astype(np.int32))
    return sequences(generator, 1)


def transcribe(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], settings: dict[str, Any]
) -> dict[str, Any]:
    """`sequences` of audio's `input_features` (B,mel,3000), after prompts `input_ids` (B,S)."""
    rows = len(arrays["input_ids"])
    generator = search(load(bundle), rows, settings)
    inputs = genai.NamedTensors()
    inputs["input_features"] = arrays["input_features"]
    inputs["input_ids"] = arrays["input_ids"].astype(np.int32)
    generator.set_inputs(inputs)
    return sequences(generator, rows)


def logits(bundle: Path, task: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`logits` (B,S,V) of a prompt `input_ids` (B,S), with images or without."""
    rows, length = arrays["input_ids"].shape
    generator = search(load(bundle), rows, {"max_length": length + 1, "do_sample": False})
    read(generator, bundle, arrays)
    return {"logits": np.array(generator.get_output("logits"))}


def tokens(bundle: Path, task: str, arrays: dict[str, np.ndarray], texts: list[str]) -> dict[str, Any]:
    """`ids` of each text by its tokenizer, and the `texts` of those ids."""
    tokenizer = genai.Tokenizer(load(bundle))
    ids = [[int(token) for token in tokenizer.encode(text)] for text in texts]
    return {"ids": ids, "texts": [tokenizer.decode(np.array(row, np.int32)) for row in ids]}
