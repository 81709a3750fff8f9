"""A tiny Qwen2-Audio with its processor and chat template, and sounds of odd lengths."""

from pathlib import Path
from typing import Any

import numpy as np
import tiny_checkpoint
import tiny_tokenizers
import transformers

TOKEN, BEGIN, END = "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"
MARK = f"{BEGIN}{TOKEN}{END}"
RATE = 16000
LEAST = 2 * 160 + 1  # samples


def save(folder: Path, **config: Any) -> None:
    """Write a checkpoint that reads sounds of up to a second, of 25 vectors."""
    tokenizer = tiny_tokenizers.byte_level()
    tokenizer.add_special_tokens({"additional_special_tokens": [TOKEN, BEGIN, END]})
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 512}
    token = tokenizer.convert_tokens_to_ids(TOKEN)
    tiny_checkpoint.save(folder, "qwen2_audio", text_config=text, audio_token_index=token, **config)
    extractor = transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1)
    processor = transformers.Qwen2AudioProcessor(extractor, tokenizer)
    processor.save_pretrained(folder)


def sound(samples: int, seed: int = 0) -> np.ndarray:
    """A chord that swells, with noise."""
    draw = np.random.default_rng([samples, seed])
    seconds = np.arange(samples) / RATE
    tones = [np.sin(2 * np.pi * hertz * seconds) for hertz in draw.uniform(80, 4000, 3)]
    samples_of = sum(tones) * np.linspace(0.05, 0.3, samples) + draw.normal(0, 0.02, samples)
    return np.clip(samples_of, -1, 1).astype(np.float32)
