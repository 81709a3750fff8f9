"""Tiny Qwen2-Audio, Voxtral and Audio Flamingo 3 with their processors, and sounds of odd lengths."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import tiny_checkpoint
import tiny_tokenizers
import transformers

import txexport

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


def user(*content: str | np.ndarray) -> dict[str, Any]:
    """A user's message of texts and sounds."""
    parts = [
        {"type": "text", "text": one} if isinstance(one, str) else {"type": "audio", "audio": one}
        for one in content
    ]
    return {"role": "user", "content": parts}


def listed(sounds: Any) -> list:
    """The sounds of a prompt, of one or of none, as a list."""
    return [] if sounds is None else sounds if isinstance(sounds, list) else [sounds]


def opened(checkpoint: Path, cache: str, folder: Path) -> txexport.Model:
    """The checkpoint exported below the folder, and loaded."""
    txexport.export(checkpoint, folder / "out", cache=cache)
    return txexport.load(folder / "out", device="cpu", threads=1)


VOXTRAL_MARK = "[BEGIN_AUDIO][AUDIO]"
SPECIAL = {0: "<unk>", 1: "<s>", 2: "</s>", 3: "[INST]", 4: "[/INST]", 11: "<pad>"}
SPECIAL |= {17: "[SYSTEM_PROMPT]", 18: "[/SYSTEM_PROMPT]", 24: "[AUDIO]", 25: "[BEGIN_AUDIO]"}
PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def save_voxtral(folder: Path, **config: Any) -> None:
    """Write a Voxtral that reads sounds in parts of a second, of 10 vectors, with Mistral's tekken.json."""
    pieces = [bytes([number]) for number in range(256)]
    pieces += [text.encode() for text in ("th", "the", " the", "at", " c", " cat", "wh")]
    names = [SPECIAL.get(rank, f"<SPECIAL_{rank}>") for rank in range(30)]
    size = len(names) + len(pieces)
    text = tiny_checkpoint.VOXTRAL["text_config"] | {"vocab_size": size, "max_position_embeddings": 512}
    tiny_checkpoint.save(folder, "voxtral", text_config=text, audio_token_id=24, **config)
    vocabulary = [
        {"rank": rank, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
        for rank, piece in enumerate(pieces)
    ]
    special = [{"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(names)]
    sizes = {"default_vocab_size": size, "default_num_special_tokens": len(names)}
    settings = sizes | {"pattern": PATTERN, "num_vocab_tokens": len(pieces), "version": "v13"}
    values = {"config": settings, "vocab": vocabulary, "special_tokens": special}
    (folder / "tokenizer.json").unlink()
    (folder / "tekken.json").write_text(json.dumps(values))
    transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1).save_pretrained(folder)


FLAMINGO_TOKEN = "<sound>"
FLAMINGO_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{% for part in message['content'] %}"
    "{% if part['type'] == 'audio' %}<sound>{% elif 'text' in part %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<|answer|>{% endif %}"
)


def save_audioflamingo3(folder: Path, **config: Any) -> None:
    """Write an Audio Flamingo 3 that reads sounds of up to 3 s in parts of a second, of 25 vectors."""
    tokenizer = tiny_tokenizers.byte_level()
    tokenizer.add_special_tokens({"additional_special_tokens": [FLAMINGO_TOKEN]})
    text = tiny_checkpoint.AUDIO_FLAMINGO3["text_config"]
    text = text | {"vocab_size": len(tokenizer), "max_position_embeddings": 512}
    token = tokenizer.convert_tokens_to_ids(FLAMINGO_TOKEN)
    tiny_checkpoint.save(folder, "audioflamingo3", text_config=text, audio_token_id=token, **config)
    extractor = transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1)
    processor = transformers.AudioFlamingo3Processor(
        extractor, tokenizer, chat_template=FLAMINGO_TEMPLATE, max_audio_len=3
    )
    processor.save_pretrained(folder)
