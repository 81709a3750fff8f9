"""Runtimes on models that read an image among a text, for `workers.py`: see vision_workers.py.

A case is one image of noise before 20 words, another one in each run: a bundle keeps the vectors of images
that it has seen. Reading its pixels is part of the time, as in an application.
"""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Case = dict
Run = Callable[[Case], list[int]]
FLOAT32 = "float32"
SHOWN = {"smolvlm": "<image>", "qwen2_vl": "<|vision_start|> <|image_pad|> <|vision_end|>"}


RUNS = count()


def image(case: Case) -> "Image":
    """The image of a run, the same for every runtime."""
    from PIL import Image

    shape = case["source"], case["wide"], 3
    return Image.fromarray(np.random.default_rng(next(RUNS)).integers(0, 256, shape, np.uint8))


def config_of(checkpoint: Path) -> dict[str, Any]:
    """The values of config.json."""
    values: dict[str, Any] = json.loads((checkpoint / "config.json").read_text())
    return values


def prompt_of(checkpoint: Path) -> str:
    """The place of the image, and 20 words."""
    return " ".join([SHOWN[config_of(checkpoint)["model_type"]], *(f"<{100 + 7 * i}>" for i in range(20))])


def numbers(text: str) -> list[int]:
    """The tokens of a text, whose names are their numbers."""
    return [int(one) for one in text.replace("<", " ").replace(">", " ").split() if one.isdigit()]


def txexport(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """A bundle, on ONNX Runtime."""
    import txexport

    if not folder.exists():
        txexport.export(checkpoint, folder, dtype=dtype, only="native")
    model = txexport.load(folder, device="cpu", threads=threads, dtype=dtype)
    prompt = prompt_of(checkpoint)

    def run(case: Case) -> list[int]:
        return numbers(model.generate(prompt, images=image(case), max_new_tokens=case["new"]))

    return run


def transformers(checkpoint: Path, folder: Path, threads: int) -> Run:
    """PyTorch with transformers."""
    import torch

    from txexport.checkpoints import transformers_loading

    torch.set_num_threads(threads)
    [name] = config_of(checkpoint)["architectures"]
    return _as_transformers(checkpoint, transformers_loading.model_from_pretrained(name, checkpoint).eval())


def openvino(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """OpenVINO, by optimum-intel: weights in int8 or int4 by default settings, or products in bfloat16."""
    from optimum.intel import OVModelForVisualCausalLM

    weights = {"int8": {"bits": 8}, "int4": {"bits": 4}}.get(dtype)
    if not folder.exists():
        OVModelForVisualCausalLM.from_pretrained(
            checkpoint, export=True, compile=False, load_in_8bit=False, quantization_config=weights
        ).save_pretrained(folder)
    precision = "bf16" if dtype == "bfloat16" else "f32"
    options = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": str(threads)}
    return _as_transformers(checkpoint, OVModelForVisualCausalLM.from_pretrained(folder, ov_config=options))


def _as_transformers(checkpoint: Path, model) -> Run:
    """Cases for a model with the methods of transformers."""
    from txexport.checkpoints import transformers_loading

    prompt, packed = prompt_of(checkpoint), config_of(checkpoint)["model_type"] == "qwen2_vl"
    processor = transformers_loading.from_pretrained(
        "AutoImageProcessor" if packed else "AutoProcessor", checkpoint
    )
    tokenizer = transformers_loading.from_pretrained("AutoTokenizer", checkpoint)

    def run(case: Case) -> list[int]:
        if packed:  # whose processor needs torchvision, for videos
            inputs = processor([image(case)], return_tensors="pt")
            vectors = int(inputs["image_grid_thw"].prod()) // processor.merge_size**2
            text = prompt.replace("<|image_pad|>", "<|image_pad|>" * vectors)
            inputs = {**tokenizer(text, return_tensors="pt"), **inputs}
            inputs["mm_token_type_ids"] = (inputs["input_ids"] == model.config.image_token_id).int()
        else:
            inputs = processor(text=prompt, images=[image(case)], return_tensors="pt")
        outputs = model.generate(**inputs, max_new_tokens=case["new"], do_sample=False)
        length = inputs["input_ids"].shape[1]
        return numbers(tokenizer.batch_decode(outputs[:, length:], skip_special_tokens=True)[0])

    return run


ALL = [txexport, transformers, openvino]
RUNTIMES = {run.__name__: run for run in ALL}
