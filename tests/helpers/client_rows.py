"""Rows of rows.py for other clients, with their inputs and the outputs of transformers."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers

from helpers.rows import (
    CLASSIFY,
    CONVERSE,
    DESCRIBE,
    FEATURES,
    FILL,
    GENERATE,
    HEAR,
    LABEL,
    ROWS,
    SOUNDS,
    TAG,
    TRANSLATE,
    Row,
)
from txexport import families
from txexport.bundle.manifest import GraphFile
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import cache_names
from txexport.verification.references.transformers_reference import Transformers

TOLERANCE = 1e-4
NEW_TOKENS = 10
LENGTHS = (7, 4)  # lengths of a batch's texts
ENCODER_HEADS = ("bert", "roberta")
SEQ2SEQ = ("t5", "bart", "marian")
DECODERS = ("gpt2", "llama", "qwen2")
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TOKENIZERS = {"bert": tiny_tokenizers.wordpiece, "clip": tiny_tokenizers.clip}
CONVOLUTIONS = ("resnet", "convnext", "convnextv2", "upernet")
WAVEFORMS = (
    "wav2vec2",
    "wavlm",
    "hubert",
    "data2vec-audio",
    "sew",
    "unispeech",
    "unispeech-sat",
    "wav2vec2-conformer",
    "omniasr_ctc",
)
MEL_BINS, POSITIONS = 80, 1500  # Whisper's: onnxruntime-genai accepts 3000 frames only
WHISPER = Row(
    "whisper",
    "WhisperForConditionalGeneration",
    HEAR,
    "30 s",
    {"num_mel_bins": MEL_BINS, "max_source_positions": POSITIONS, "begin_suppress_tokens": [220, 256]},
)
IMAGE_PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 30, "width": 30},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


def rows_of(families: Iterable[str], tasks: Iterable[str]) -> list[Row]:
    """The first row of each of these tasks of each family."""
    chosen: dict[tuple[str, str], Row] = {}
    for row in ROWS:
        if row.model_type in families and row.task in tasks:
            chosen.setdefault((row.model_type, row.task), row)
    return list(chosen.values())


def save_checkpoint(row: Row, folder: Path) -> None:
    """Write the row's tiny checkpoint, with a tokenizer or image processor that every client can read."""
    tiny_checkpoint.save(folder, row.model_type, row.architecture, **row.config)
    if row.task == LABEL:
        (folder / "preprocessor_config.json").write_text(json.dumps(IMAGE_PROCESSOR), encoding="utf-8")
        (folder / "tokenizer.json").unlink()
        return
    if row.task == HEAR and row.model_type == "whisper":  # so that decoders also give cross_attentions
        path = folder / "generation_config.json"
        written = json.loads(path.read_text(encoding="utf-8")) | {"alignment_heads": [[0, 1], [1, 0]]}
        path.write_text(json.dumps(written), encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 38, **SPECIAL}
    if row.task not in (GENERATE, HEAR):
        TOKENIZERS.get(row.model_type, tiny_tokenizers.byte_level)().save_pretrained(folder)
        written = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        settings = written | {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def original(row: Row, checkpoint: Path) -> Any:
    """The checkpoint in transformers: of images and texts its text model, where that alone is exported."""
    if row.task == GENERATE and row.architecture.endswith("ForConditionalGeneration"):
        source = Checkpoint(checkpoint)
        return Transformers(source, families.resolve(source, row.task, None)).model
    return getattr(transformers, row.architecture).from_pretrained(checkpoint).eval()


def ids_of(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random ids of tokens that are not special, int64."""
    return np.random.default_rng(seed).integers(5, tiny_checkpoint.VOCAB - 1, shape)


def padded(shape: tuple[int, ...], left: bool = False) -> dict[str, np.ndarray]:
    """`input_ids` and `attention_mask` (..,S) of texts of LENGTHS in turn, padded with id 1."""
    ids, mask = ids_of(shape), np.ones(shape, np.int64)
    flat_ids, flat_mask = ids.reshape(-1, shape[-1]), mask.reshape(-1, shape[-1])
    for i in range(len(flat_ids)):
        gap = shape[-1] - LENGTHS[i % len(LENGTHS)]
        part = slice(0, gap) if left else slice(shape[-1] - gap, None)
        flat_ids[i, part], flat_mask[i, part] = 1, 0
    return {"input_ids": ids, "attention_mask": mask}


def waveforms(row: Row, samples: np.ndarray) -> dict[str, np.ndarray]:
    """Samples (B,N), with the mask of a row that ends sooner if the model reads one."""
    if not (
        row.model_type in ("data2vec-audio", "omniasr_ctc") or row.config.get("feat_extract_norm") == "layer"
    ):
        return {"input_values": samples}
    mask = np.ones(samples.shape, np.int64)
    mask[-1, samples.shape[1] // 2 :] = 0
    return {"input_values": samples * mask.astype(np.float32), "attention_mask": mask}


def forward_inputs(row: Row) -> dict[str, np.ndarray]:
    """Inputs of one pass: a padded batch of two texts of unequal length, or two images or sounds."""
    batch, size = len(LENGTHS), max(LENGTHS)
    noise = np.random.default_rng(1)
    images = noise.standard_normal((batch, 3, 30, 30), np.float32)
    if row.model_type == "dpt":
        return {"pixel_values": noise.standard_normal((batch, 3, 64, 64), np.float32)}
    if row.model_type in ("vit", "beit", "data2vec-vision", "yolos", "depth_anything"):
        return {"pixel_values": images}
    if row.model_type == "vitpose":
        return {"pixel_values": noise.standard_normal((batch, 3, 48, 36), np.float32)}
    if row.model_type in ("glpn", "hiera"):
        return {"pixel_values": noise.standard_normal((batch, 3, 64, 96), np.float32)}
    if row.model_type in ("swin", "swinv2", "segformer", "maskformer", "mask2former", *CONVOLUTIONS):
        return {"pixel_values": noise.standard_normal((batch, 3, 47, 40), np.float32)}
    if row.task == DESCRIBE:
        return {"pixel_values": images, "decoder_input_ids": ids_of((batch, 5))}
    if row.model_type == "audio-spectrogram-transformer":
        sizes = tiny_checkpoint.AST["max_length"], tiny_checkpoint.AST["num_mel_bins"]
        return {"input_values": noise.standard_normal((batch, *sizes), np.float32)}
    if row.model_type == "speech_to_text":
        frames, mask = noise.standard_normal((batch, 53, 11), np.float32), np.ones((batch, 53), np.int64)
        mask[1, 31:] = 0
        return {"input_features": frames, "attention_mask": mask, "decoder_input_ids": ids_of((batch, 5))}
    if row.model_type == "moonshine":
        sounds = noise.standard_normal((batch, 3001), np.float32)
        return {"input_values": sounds, "decoder_input_ids": ids_of((batch, 5))}
    if row.model_type in WAVEFORMS:
        return waveforms(row, noise.standard_normal((batch, 999), np.float32))
    if row.model_type == "parakeet_ctc":
        frames, mask = noise.standard_normal((batch, 100, 16), np.float32), np.ones((batch, 100), np.int64)
        mask[1, 61:] = 0
        return {"input_features": frames, "attention_mask": mask}
    if row.model_type == "wav2vec2-bert":
        frames = noise.standard_normal((batch, size, 22), np.float32)
        return {"input_features": frames, "attention_mask": padded((batch, size))["attention_mask"]}
    if row.model_type in ("owlvit", "owlv2"):
        texts = padded((batch, size))
        texts["input_ids"][:, 0] = 9  # a text that begins with 0 is padding
        return {**texts, "pixel_values": images}
    if row.model_type == "clipseg":
        texts = padded((batch, size))
        for text, length in zip(texts["input_ids"], LENGTHS, strict=True):
            text[length - 1] = tiny_checkpoint.CLIPSEG["text_config"]["eos_token_id"]
        return {**texts, "pixel_values": images}
    if row.model_type == "grounding-dino":
        texts, mask = padded((batch, size)), np.ones((batch, 64, 48), np.int64)
        texts["input_ids"][:, [0, 3]], mask[1, :, 33:] = 101, 0  # where phrases end; padding of an image
        images = noise.standard_normal((batch, 3, 64, 48), np.float32)
        types = {"token_type_ids": np.zeros_like(texts["input_ids"])}
        return {**texts, **types, "pixel_values": images, "pixel_mask": mask}
    if row.model_type == "clap":
        bands = tiny_checkpoint.CLAP["audio_config"]["num_mel_bins"]
        sounds = noise.standard_normal((batch, 1, 101, bands), np.float32)
        return {**padded((batch, size)), "input_features": sounds}
    if row.model_type == "clip":
        inputs = padded((batch, size))
        for text, length in zip(inputs["input_ids"], LENGTHS, strict=True):
            text[length - 1] = tiny_checkpoint.CLIP["text_config"]["eos_token_id"]
        return {**inputs, "pixel_values": images}
    if row.task == SOUNDS:  # Whisper's
        sizes = tiny_checkpoint.WHISPER["num_mel_bins"], 2 * tiny_checkpoint.WHISPER["max_source_positions"]
        return {"input_features": noise.standard_normal((batch, *sizes), np.float32)}
    if row.model_type == "whisper":
        sounds = noise.standard_normal((batch, MEL_BINS, 2 * POSITIONS), np.float32)
        return {"input_features": sounds, "decoder_input_ids": ids_of((batch, 5))}
    inputs = padded((batch, 3, size) if row.task == "multiple-choice" else (batch, size))
    if row.model_type == "bert":
        inputs["token_type_ids"] = (np.arange(size) >= size // 2) * inputs["attention_mask"]
    if row.task == TRANSLATE:
        inputs["decoder_input_ids"] = ids_of((batch, 5), seed=2)
    return inputs


def forward_outputs(row: Row, checkpoint: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The output tensors of the task from transformers, without caches and encoder states."""
    model = original(row, checkpoint)
    with torch.no_grad():
        outputs = model(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    names = ["last_hidden_state"] if row.task == FEATURES else list(outputs)
    wanted = ("logits", "embeds", "last_hidden_state")
    names = [name for name in names if any(part in name for part in wanted) and "encoder_" not in name]
    return {name: outputs[name].numpy() for name in names}


def distance(row: Row, inputs: dict[str, np.ndarray], expected: np.ndarray, actual: np.ndarray) -> float:
    """The largest difference; for a decoder, on text tokens alone, since clients differ in padding."""
    assert actual.shape == expected.shape
    difference = np.abs(actual.astype(np.float64) - expected)
    if row.task == GENERATE:
        difference = difference[inputs["attention_mask"] == 1]
    return float(difference.max())


def assert_outputs(row: Row, checkpoint: Path, inputs: dict[str, np.ndarray], answer: Any) -> None:
    """Assert that a client's outputs, by name, are those of transformers within TOLERANCE."""
    expected = forward_outputs(row, checkpoint, inputs)
    assert expected
    for name, array in expected.items():
        assert distance(row, inputs, array, answer[name]) <= TOLERANCE, name


def assert_steps(
    row: Row, checkpoint: Path, graph: GraphFile, run: Callable[[dict[str, np.ndarray]], Any]
) -> None:
    """Assert a decoder's logits to be those of transformers, for a prompt without a past and the next step.

    `run` returns the graph's outputs by name; one row is left-padded.
    """
    ids, mask, first = ids_of((2, 8)), np.ones((2, 8), np.int64), 6
    mask[1, :3] = 0
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
    past = {
        port.name: np.zeros((len(ids), int(port.shape[1]), 0, int(port.shape[3])), np.float32)
        for port in graph.inputs
        if cache_names.is_past(port.name)
    }
    logits = []
    for start, end in ((0, first), (first, ids.shape[1])):
        new = {"input_ids": ids[:, start:end], "position_ids": positions[:, start:end]}
        outputs = run({**new, "attention_mask": mask[:, :end], **past})
        logits.append(outputs["logits"])
        past = {name: outputs[cache_names.to_present(name)] for name in past}
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    assert_outputs(row, checkpoint, inputs, {"logits": np.concatenate(logits, axis=1)})


def generate_inputs(row: Row) -> dict[str, np.ndarray]:
    """A batch for `generate`: decoder prompts are left-padded. Of images among tokens, a single prompt."""
    if row.task == CONVERSE:
        return pictured_prompt(row)
    if row.task == HEAR:
        read = ("input_", "attention_mask")
        return {name: array for name, array in forward_inputs(row).items() if name.startswith(read)}
    if row.task == DESCRIBE:
        return {"pixel_values": forward_inputs(row)["pixel_values"]}
    return padded((len(LENGTHS), max(LENGTHS)), left=row.task == GENERATE)


def pictured_prompt(row: Row) -> dict[str, np.ndarray]:
    """A prompt with two images, for the sizes of the family's usual row."""
    usual = tiny_checkpoint.FAMILIES[row.model_type][1]
    token = usual.get("image_token_id", usual.get("image_token_index"))
    vision = usual["vision_config"]
    if "num_patches" in vision:
        return _masked_prompt(token, vision["patch_size"])
    if "image_size" not in vision:
        return _packed_prompt(usual)
    merged = 2 if row.model_type == "mistral3" else usual.get("scale_factor", 1)
    side = vision["image_size"] // vision["patch_size"] // merged
    one = [token] * side**2
    ids = np.array([[7, 8, *one, 9, *one, 10, 11]])
    shape = 2, 3, vision["image_size"], vision["image_size"]
    images = np.random.default_rng(1).standard_normal(shape, np.float32)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "pixel_values": images}
    if row.model_type == "mistral3":
        inputs |= {"image_sizes": np.array([shape[2:]] * 2)}
    if "scale_factor" in usual:  # its images are tiles of one
        inputs |= {"pixel_values": images[None], "pixel_attention_mask": np.ones((1, 2, *shape[2:]), bool)}
    return inputs


def _masked_prompt(token: int, side: int) -> dict[str, np.ndarray]:
    """The same with images of two shapes, as patches with a mask."""
    shapes = np.array([[2, 6], [4, 2]])
    mask = np.arange(12) < shapes.prod(axis=1)[:, None]
    patches = np.random.default_rng(1).standard_normal((2, 12, 3 * side**2), np.float32)
    ids = np.array([[7, 8, *[token] * 3, 9, *[token] * 2, 10, 11]])
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "pixel_values": patches * mask[:, :, None],
        "pixel_attention_mask": mask.astype(np.int64),
        "spatial_shapes": shapes,
    }


def _packed_prompt(usual: dict[str, Any]) -> dict[str, np.ndarray]:
    """The same with images of two sizes, as packed patches, each behind the token that begins an image."""
    begin, token, end = (usual[f"{name}_token_id"] for name in ("vision_start", "image", "vision_end"))
    grids = np.array([[1, 6, 10], [1, 8, 4]])
    numbers = 3 * 2 * usual["vision_config"]["patch_size"] ** 2
    patches = np.random.default_rng(1).standard_normal((grids.prod(axis=1).sum(), numbers), np.float32)
    ids = np.array([[7, 8, begin, *[token] * 15, end, 9, begin, *[token] * 8, end, 10, 11]])
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "pixel_values": patches,
        "image_grid_thw": grids,
    }


def generate_settings(row: Row, beams: int) -> dict[str, Any]:
    """Settings of transformers' generate: NEW_TOKENS tokens, greedy."""
    settings: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "num_beams": beams}
    if row.task == DESCRIBE:  # the tiny config.json has none
        settings |= {"decoder_start_token_id": 3, "pad_token_id": 1, "eos_token_id": 2}
    return settings


def sequences(
    row: Row, checkpoint: Path, inputs: dict[str, np.ndarray], settings: dict[str, Any]
) -> np.ndarray:
    """(B,S) ids by transformers' generate."""
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
    if row.model_type == "paligemma":  # whose processor says which tokens are a prompt's; clients do not
        tensors["token_type_ids"] = torch.zeros_like(tensors["input_ids"])
    if "image_grid_thw" in inputs:
        token = tiny_checkpoint.FAMILIES[row.model_type][1]["image_token_id"]
        tensors["mm_token_type_ids"] = (tensors["input_ids"] == token).int()
    return original(row, checkpoint).generate(**tensors, **settings).numpy()


def pipeline_inputs(row: Row, folder: Path) -> tuple[Any, dict[str, Any]] | None:
    """Inputs and settings of the task's pipeline, or None where a tiny model cannot run it."""
    text = "the cat sat on the mat"
    if row.task == FILL:
        return text.replace("sat", "[MASK]" if row.model_type == "bert" else "<mask>"), {"top_k": 3}
    if row.task == "question-answering":
        return {"question": "the cat sat on what?", "context": f"{text} and the dog lay"}, {}
    if row.task == LABEL:
        path = folder / "image.png"
        from PIL import Image

        pixels = np.random.default_rng(3).integers(0, 256, (40, 50, 3), np.uint8)
        Image.fromarray(pixels).save(path)
        return str(path), {"top_k": 5}
    if row.task in (GENERATE, TRANSLATE):
        return [text, "the dog"], {"max_new_tokens": NEW_TOKENS, "do_sample": False}
    return ([text, "the dog"], {}) if row.task in (FEATURES, CLASSIFY, TAG) else None


def assert_same(actual: Any, expected: Any) -> None:
    """Assert that nested lists and dicts are equal, with numbers within TOLERANCE."""
    assert type(actual) is type(expected), (actual, expected)
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(actual[key], value)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for pair in zip(actual, expected, strict=True):
            assert_same(*pair)
    elif isinstance(expected, float):
        assert abs(actual - expected) <= TOLERANCE, (actual, expected)
    else:
        assert actual == expected
