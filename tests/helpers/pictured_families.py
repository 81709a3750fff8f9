"""Tiny checkpoints of families that read images among texts, with processors and chat templates."""

import json
import re
from pathlib import Path
from typing import Any

import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from transformers.models.paligemma.processing_paligemma import EXTRA_TOKENS

import txexport
from helpers import lfm2_vl_processor, pixtral_processor

TEXT = {"max_position_embeddings": 512}
TILES = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
NAMED_TILES = [f"<|img_row_{row}_col_{column}|>" for row in range(1, 11) for column in range(1, 11)]
# The token of an image's vectors, and the others of its processor.
TOKENS = {
    "idefics3": ("<image>", ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *TILES]),
    "internvl": ("<IMG_CONTEXT>", ["<img>", "</img>", "<video>"]),
    "gemma3": ("<image_soft_token>", ["<start_of_image>", "<end_of_image>"]),
    "paligemma": ("<image>", []),
    "llava_next": ("<image>", []),
    "llava_onevision": ("<image>", ["<video>"]),
    "mistral3": ("[IMG]", ["[IMG_BREAK]", "[IMG_END]"]),
    "llava": ("[IMG]", ["[IMG_BREAK]", "[IMG_END]"]),
    "lfm2_vl": ("<image>", ["<|image_start|>", "<|image_end|>", "<|img_thumbnail|>", *NAMED_TILES]),
    "mllama": ("<|image|>", []),
    "qwen2_vl": ("<|image_pad|>", ["<|vision_start|>", "<|vision_end|>", "<|video_pad|>"]),
}
PACKED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")  # families of packed patches
TOKENS |= dict.fromkeys(PACKED, TOKENS["qwen2_vl"])
TOKENS["smolvlm"] = TOKENS["idefics3"]
NAMED = {  # attributes of the tokenizer that a processor reads
    "internvl": {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    },
    "gemma3": {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    },
}
# What a prompt has in an image's place, if not the token alone.
BEGINNING = {"gemma3": "<start_of_image>"}
BEGINNING |= dict.fromkeys(PACKED, "<|vision_start|><|image_pad|><|vision_end|>")
# Families whose processors need torchvision: for videos, or for images.
FITTED = ("mistral3", "llava")  # over Pixtral's image encoder
WITHOUT_VIDEOS = ("internvl", "llava_onevision", "lfm2_vl", *FITTED, *PACKED)
SPLITTING = {  # of LFM2-VL
    "encoder_patch_size": 6,
    "min_image_tokens": 2,
    "max_image_tokens": 6,
    "tile_size": 24,
    "max_tiles": 6,
}
WHOLE = {"vision_feature_layer": -1, "vision_feature_select_strategy": "full"}  # of Pixtral as LLaVA
PIXELS = {"min_pixels": 16**2, "max_pixels": 48 * 40}
SIDE = {"height": 24, "width": 24}


INDEXED = ("gemma3", "paligemma", "llava_next", "llava_onevision", "mistral3", "mllama")
MOSAICS = {"llava_next": "LlavaNext", "llava_onevision": "LlavaOnevision"}


def template_of(family: str) -> str:
    """A chat template that writes the mark of an image for each."""
    mark = BEGINNING.get(family, TOKENS[family][0])
    return (
        "<s>{% for message in messages %}{{ message.role }}: {% if message.content is string %}"
        "{{ message.content }}{% else %}{% for part in message.content %}{% if part.type == 'image' %}"
        + mark
        + "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %} "
        "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
    )


def save(folder: Path, family: str) -> None:
    """Write a checkpoint whose images, or tiles of images, are of 24 by 24 pixels, and so of 4 vectors."""
    tokenizer = tiny_tokenizers.byte_level()
    token, others = TOKENS[family]
    tokenizer.add_special_tokens({"additional_special_tokens": [token, *others]})
    key = "image_token_index" if family in INDEXED else "image_token_id"
    ids = {key: tokenizer.convert_tokens_to_ids(token)}
    if family == "paligemma":
        tokenizer.add_tokens(EXTRA_TOKENS)
    if family in PACKED:
        names = {"vision_start": others[0], "vision_end": others[1], "video": others[2]}
        ids |= {f"{name}_token_id": tokenizer.convert_tokens_to_ids(one) for name, one in names.items()}
    others = {"vision_config": tiny_checkpoint.PIXTRAL, **WHOLE} if family == "llava" else {}
    others |= {"vision_config": {"image_size": 24}} if family == "mllama" else {}
    scored = len(tokenizer) - (family == "mllama")  # which has an embedding of its token, and no score
    text = TEXT | {"vocab_size": scored} | ({"model_type": "mistral"} if family == "llava" else {})
    tiny_checkpoint.save(folder, family, text_config=text, **others, **ids)
    tokenizer.save_pretrained(folder)
    if family in NAMED:
        file = folder / "tokenizer_config.json"
        values = json.loads(file.read_text()) | {"extra_special_tokens": NAMED[family]}
        file.write_text(json.dumps(values))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template_of(family) if family != "paligemma" else None  # as published
    if family in WITHOUT_VIDEOS:
        tokenizer.save_pretrained(folder)
        images = transformers.GotOcr2ImageProcessorPil(size=SIDE, crop_to_patches=False, max_patches=6)
        if family in MOSAICS:
            images = _mosaics(family)
        if family in FITTED:
            images = transformers.PixtralImageProcessorPil(size={"longest_edge": 50}, patch_size=5)
            pixtral_processor.save_settings(folder, merged=2 if family == "mistral3" else 1)
        if family == "lfm2_vl":
            images = lfm2_vl_processor.image_processor(**SPLITTING)
        if family in PACKED:
            images = transformers.Qwen2VLImageProcessorPil(patch_size=4, **PIXELS)
        images.save_pretrained(folder)
    elif family == "gemma3":
        images = transformers.Gemma3ImageProcessorPil(size=SIDE, do_pan_and_scan=False)
        _saved(transformers.Gemma3Processor(images, tokenizer, image_seq_length=4), folder, family)
    elif family == "llava_next":
        sizes = {"patch_size": 8, "num_additional_image_tokens": 1}
        processor = transformers.LlavaNextProcessor(
            _mosaics(family), tokenizer, vision_feature_select_strategy="default", **sizes
        )
        _saved(processor, folder, family)
    elif family == "mllama":
        images = transformers.MllamaImageProcessorPil(size=SIDE)
        _saved(transformers.MllamaProcessor(images, tokenizer), folder, family)
    elif family == "paligemma":
        images = transformers.SiglipImageProcessorPil(size=SIDE)
        images.image_seq_length = 16
        transformers.PaliGemmaProcessor(images, tokenizer).save_pretrained(folder)
    else:
        kind = {"idefics3": "Idefics3", "smolvlm": "SmolVLM"}[family]
        images = getattr(transformers, f"{kind}ImageProcessorPil")(
            size={"longest_edge": 48}, max_image_size={"longest_edge": 24}
        )
        _saved(transformers.Idefics3Processor(images, tokenizer, image_seq_len=4), folder, family)


def _mosaics(family: str) -> Any:
    """The image processor of a family whose tiles are a mosaic."""
    sizes = {"size": {"shortest_edge": 24}, "crop_size": SIDE} if family == "llava_next" else {"size": SIDE}
    kind = getattr(transformers, f"{MOSAICS[family]}ImageProcessorPil")
    return kind(image_grid_pinpoints=tiny_checkpoint.CANVASES, **sizes)


def _saved(processor: Any, folder: Path, family: str) -> None:
    processor.chat_template = template_of(family)
    processor.save_pretrained(folder)


def processor_of(folder: Path, family: str) -> Any:
    """The library's processor, without the part for videos, for which some need torchvision."""
    if family in FITTED:
        return pixtral_processor.processor(folder, merged=2 if family == "mistral3" else 1)
    if family == "lfm2_vl":
        return lfm2_vl_processor.processor(folder)
    if family not in WITHOUT_VIDEOS:
        return transformers.AutoProcessor.from_pretrained(folder, backend="pil")
    from transformers.models.internvl.processing_internvl import InternVLProcessor
    from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor
    from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
    from transformers.models.qwen2_vl.processing_qwen2_vl import Qwen2VLProcessor
    from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor

    kinds = {"internvl": InternVLProcessor, "qwen2_vl": Qwen2VLProcessor, "qwen2_5_vl": Qwen2_5_VLProcessor}
    kinds["llava_onevision"] = LlavaOnevisionProcessor
    kinds |= dict.fromkeys(("qwen3_vl", "qwen3_5"), Qwen3VLProcessor)
    processor = kinds[family].__new__(kinds[family])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor.image_processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    processor.tokenizer, processor.video_processor, processor.image_seq_length = tokenizer, None, 4
    processor.chat_template = tokenizer.chat_template
    names = {"image_token": TOKENS[family][0], "video_token": TOKENS[family][1][-1]}
    if family == "llava_onevision":
        processor.num_image_tokens, processor.vision_feature_select_strategy = 9, "full"
        processor.vision_aspect_ratio = "anyres_max_2"
    if family == "internvl":
        names |= {"start_image_token": "<img>", "end_image_token": "</img>"}
    for name, token in names.items():
        setattr(processor, name, token)
        setattr(processor, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
    marks = (f"(?P<{kind}>{re.escape(names[f'{kind}_token'])})" for kind in ("image", "video"))
    processor.multimodal_pattern = re.compile("|".join(marks))
    return processor


def saved(family: str, factory: Any) -> Path:
    """A new folder of `factory`, pytest's tmp_path_factory, with a checkpoint."""
    folder = factory.mktemp(family)
    save(folder, family)
    return folder


def exported(checkpoint: Path, cache: str, factory: Any) -> Path:
    """A bundle of a checkpoint with a kind of cache, without graphs for other clients."""
    folder = factory.mktemp("bundle") / "out"
    txexport.export(checkpoint, folder, cache=cache, only="native")
    return folder


def loaded(folder: Path) -> txexport.Model:
    """A bundle's model on one thread."""
    return txexport.load(folder, device="cpu", threads=1)


def original_of(checkpoint: Path, family: str) -> tuple[Any, Any]:
    """The library's processor and model."""
    network = transformers.AutoModelForImageTextToText.from_pretrained(checkpoint).eval()
    return processor_of(checkpoint, family), network


def new_text(original: tuple[Any, Any], inputs: dict[str, Any], **options: Any) -> str:
    """The text that the library's model generates after `inputs`."""
    processor, network = original
    with torch.no_grad():
        row = network.generate(**inputs, **options)[0, inputs["input_ids"].shape[1] :]
    return processor.tokenizer.decode(row, skip_special_tokens=True)


def message(*content: Any) -> dict[str, Any]:
    """A user's message of texts and images."""
    parts = [
        {"type": "text", "text": one} if isinstance(one, str) else {"type": "image", "image": one}
        for one in content
    ]
    return {"role": "user", "content": parts}
