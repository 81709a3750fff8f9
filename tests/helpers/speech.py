"""Tiny checkpoints of speech models with their processors, and recordings."""

import json
from pathlib import Path

import numpy as np
import tiny_checkpoint
import transformers

LETTERS = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'")


def save_recogniser(folder: Path, model_type: str = "wav2vec2", **config) -> Path:
    """A CTC model of random weights, whose vectors differ in their likeliest letters, and its processor."""
    tiny_checkpoint.save(folder, model_type, **config)
    (folder / "vocab.json").write_text(json.dumps({text: number for number, text in enumerate(LETTERS)}))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    extractor = transformers.Wav2Vec2FeatureExtractor()
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    return folder


def recordings(seed: int = 0) -> list[np.ndarray]:
    """Sounds (N,) float32 of odd lengths."""
    draw = np.random.default_rng(seed)
    sounds = [0.1 * draw.standard_normal(count) for count in (100, 401, 1600, 3333, 16001)]
    sounds += [np.sin(np.arange(5000) / 7), np.zeros(2000), np.cumsum(draw.standard_normal(7001)) / 300]
    return [sound.astype(np.float32) for sound in sounds]
