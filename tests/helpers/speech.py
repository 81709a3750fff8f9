"""Tiny checkpoints of speech models with their processors, and recordings."""

import json
import wave
from pathlib import Path

import numpy as np
import tiny_checkpoint
import transformers

LETTERS = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'")

MOONSHINE = {"do_normalize": False, "return_attention_mask": True}


def save_recogniser(folder: Path, model_type: str = "wav2vec2", *, masked: bool = False, **config) -> Path:
    """A CTC model of random weights, whose vectors differ in their likeliest letters, and its processor.

    If `masked`, the processor makes an attention mask, which the model reads.
    """
    tiny_checkpoint.save(folder, model_type, **config)
    (folder / "vocab.json").write_text(json.dumps({text: number for number, text in enumerate(LETTERS)}))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=masked)
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    return folder


def save_moonshine(folder: Path, **settings) -> Path:
    """A Moonshine of random weights with the feature extractor of the published ones.

    `settings` are added to its generation_config.json.
    """
    tiny_checkpoint.save(folder, "moonshine", eos_token_id=220)
    transformers.Wav2Vec2FeatureExtractor(**MOONSHINE).save_pretrained(folder)
    config = transformers.GenerationConfig.from_pretrained(folder)
    config.update(**settings)
    config.save_pretrained(folder)
    return folder


def recordings(seed: int = 0) -> list[np.ndarray]:
    """Sounds (N,) float32 of odd lengths."""
    draw = np.random.default_rng(seed)
    sounds = [0.1 * draw.standard_normal(count) for count in (100, 401, 1600, 3333, 16001)]
    sounds += [np.sin(np.arange(5000) / 7), np.zeros(2000), np.cumsum(draw.standard_normal(7001)) / 300]
    return [sound.astype(np.float32) for sound in sounds]


def write_wav(path: Path, sound: np.ndarray, rate: int = 16000) -> Path:
    """A sound (N,) between -1 and 1 as a file of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, sound.size, "NONE", ""))
        file.writeframes((sound.clip(-1, 1) * 32767).astype("<i2").tobytes())
    return path
