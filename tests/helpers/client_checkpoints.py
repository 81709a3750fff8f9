"""Tiny checkpoints with tokenizer and processor, for programs that need complete ones."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tiny_checkpoint
import tiny_tokenizers
import transformers
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from helpers.speech import MOONSHINE

SPEECH = ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "<|0.00|>", "<|0.02|>"]
SIDE, SECOND = 30, 16_000  # an image's pixels, an audio's samples


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: tools/tiny_checkpoint's sizes changed by `config`, and the family of its tokenizer.

    `together` saves the processor as transformers 5 does by default: in processor_config.json alone.
    """

    model_type: str
    architecture: str
    tokenizer: str | None = None
    config: dict = field(default_factory=dict)
    together: bool = False

    @property
    def id(self) -> str:
        """Name of the checkpoint."""
        return f"{self.model_type} {self.architecture}"

    def save(self, folder: Path) -> Path:
        """Write it to a folder, and return that."""
        transformers.utils.logging.disable_progress_bar()
        tokenizer = TOKENIZERS[self.tokenizer]() if self.tokenizer else None
        marks = _marks(self.model_type, tokenizer) if tokenizer else {}
        model = tiny_checkpoint.build(self.model_type, self.architecture, **self.config | marks)
        model.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        if self.model_type in PROCESSORS:
            self._save_processor(folder, PROCESSORS[self.model_type](), tokenizer)
        if self.tokenizer is not None:
            _change(folder / "tokenizer_config.json", {"tokenizer_class": CLASSES[self.tokenizer]})
        if self.model_type == "whisper":
            without_times = tokenizer.convert_tokens_to_ids(SPEECH[2])
            marks = {"is_multilingual": False, "no_timestamps_token_id": without_times}
            _change(folder / "generation_config.json", marks)
        return folder

    def _save_processor(
        self, folder: Path, processor: Any, tokenizer: PreTrainedTokenizerFast | None
    ) -> None:
        if self.together:
            kind = {"whisper": transformers.WhisperProcessor, "clip": transformers.CLIPProcessor}[
                self.model_type
            ]
            processor = kind(processor, tokenizer)
        processor.save_pretrained(folder)


def speech() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer as Whisper's, with task and timestamp tokens."""
    tokenizer = tiny_tokenizers.byte_level()
    tokenizer.add_special_tokens({"additional_special_tokens": SPEECH[:3]})
    tokenizer.add_tokens([AddedToken(token, special=False) for token in SPEECH[3:]])
    return tokenizer


TOKENIZERS = {
    "wordpiece": tiny_tokenizers.wordpiece,
    "byte_level": tiny_tokenizers.byte_level,
    "clip": tiny_tokenizers.clip,
    "speech": speech,
}
EDGES = {"height": SIDE, "width": SIDE}
PROCESSORS = {
    "whisper": lambda: transformers.WhisperFeatureExtractor(
        feature_size=tiny_checkpoint.WHISPER["num_mel_bins"], chunk_length=1
    ),
    "moonshine": lambda: transformers.Wav2Vec2FeatureExtractor(**MOONSHINE),
    "vit": lambda: transformers.ViTImageProcessor(size=EDGES),
    "clap": lambda: transformers.ClapFeatureExtractor(**tiny_checkpoint.CLAP_SOUNDS),
    "clip": lambda: transformers.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=EDGES),
}

# transformers.js reads the name, for the timestamps of segments and the joining of chunks.
CLASSES = {
    "wordpiece": "BertTokenizer",
    "byte_level": "TokenizersBackend",
    "clip": "CLIPTokenizer",
    "speech": "WhisperTokenizer",
}


def _marks(model_type: str, tokenizer: PreTrainedTokenizerFast) -> dict:
    """Set a config's sizes and ids to the tokenizer's."""
    marks = {"pad_token_id": tokenizer.pad_token_id}
    if model_type == "clap":
        return {"text_config": {"vocab_size": len(tokenizer), **marks}}
    if model_type == "clip":
        marks |= {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": tokenizer.bos_token_id}
        return {"text_config": {"vocab_size": len(tokenizer), **marks}}
    if model_type == "whisper":
        start = tokenizer.convert_tokens_to_ids(SPEECH[1])
        marks |= {"decoder_start_token_id": start, "max_source_positions": 50}
        marks |= {"begin_suppress_tokens": [5, 6]}
        marks |= {"eos_token_id": tokenizer.convert_tokens_to_ids(SPEECH[0])}
    return {"vocab_size": len(tokenizer), **marks}


def _change(path: Path, values: dict) -> None:
    """Set values of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def pixels(seed: int) -> np.ndarray:
    """A random image (height, width, 3) of bytes."""
    return np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), np.uint8)


def sound(seed: int) -> np.ndarray:
    """Half a second of tones and noise, at 16 kHz."""
    generator = np.random.default_rng(seed)
    times = np.arange(SECOND // 2) / SECOND
    tones = sum(np.sin(2 * np.pi * pitch * times) for pitch in generator.uniform(100, 3000, 4))
    return (0.2 * tones + 0.02 * generator.standard_normal(times.size)).astype(np.float32)
