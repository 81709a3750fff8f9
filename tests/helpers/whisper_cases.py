"""A tiny Whisper whose timestamps vary, beside transformers."""

import json
from pathlib import Path

import numpy as np
import tiny_checkpoint
import torch
import transformers
from tokenizers import AddedToken, Tokenizer

END, START, ENGLISH, FRENCH, TRANSCRIBE, TRANSLATE, BEFORE_PROMPT, NO_SPEECH, NO_TIMESTAMPS = range(311, 320)
FIRST_TIME = NO_TIMESTAMPS + 1
SPECIAL = (  # in the order of Whisper's vocabulary: text, the end, and then the others
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|fr|>",
    "<|transcribe|>",
    "<|translate|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)
RATE = 16000


def generation_settings(**changes) -> dict:
    """generation_config.json of a model whose windows often end early."""
    return {
        "decoder_start_token_id": START,
        "lang_to_id": {"<|en|>": ENGLISH, "<|fr|>": FRENCH},
        "task_to_id": {"transcribe": TRANSCRIBE, "translate": TRANSLATE},
        "no_timestamps_token_id": NO_TIMESTAMPS,
        "prev_sot_token_id": BEFORE_PROMPT,
        "is_multilingual": True,
        "suppress_tokens": [7, 8, *range(START, NO_TIMESTAMPS)],
        "begin_suppress_tokens": [9, END],
        "sequence_bias": [[[END], 6.0]],
        "max_initial_timestamp_index": 10,
        "eos_token_id": END,
        "pad_token_id": END,
        "alignment_heads": [[0, 1], [1, 0], [1, 2]],
    } | changes


def save(folder: Path, seconds: int = 1, seed: int = 0, settings: dict | None = None, **config) -> None:
    """Write a checkpoint that reads windows of `seconds`, with a processor and a tokenizer."""
    positions = 50 * seconds
    vocab_size = FIRST_TIME + positions + 1
    sizes = {"max_source_positions": positions, "max_target_positions": 64, "vocab_size": vocab_size}
    ids = {"decoder_start_token_id": START, "eos_token_id": END, "bos_token_id": END, "pad_token_id": END}
    tiny_checkpoint.save(
        folder, "whisper", seed=seed, **{"tie_word_embeddings": False} | sizes | ids | config
    )
    _vary(folder)
    extractor = transformers.WhisperFeatureExtractor(
        feature_size=config.get("num_mel_bins", 11), chunk_length=seconds
    )
    extractor.save_pretrained(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([AddedToken(f"extra{i}") for i in range(tokenizer.get_vocab_size(), END)])
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(f"<|{i * 0.02:.2f}|>") for i in range(positions + 1)])
    assert tokenizer.token_to_id("<|0.00|>") == FIRST_TIME
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"tokenizer_class": "WhisperTokenizer", "eos_token": SPECIAL[0], "bos_token": SPECIAL[0]}
    (folder / "tokenizer_config.json").write_text(json.dumps(names | {"unk_token": SPECIAL[0]}))
    written = generation_settings(**(settings or {}))
    (folder / "generation_config.json").write_text(json.dumps(written))


def _vary(folder: Path) -> None:
    """Change the weights so that tokens depend more on the sound, the position and earlier tokens."""
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder)
    decoder = model.model.decoder
    with torch.no_grad():
        decoder.layer_norm.bias.zero_()
        decoder.layer_norm.weight.fill_(1)
        decoder.embed_positions.weight.mul_(9)
        decoder.embed_tokens.weight.mul_(3)
        for layer in decoder.layers:
            layer.encoder_attn.out_proj.weight.mul_(4)
            layer.encoder_attn.k_proj.weight.mul_(3)
        if not model.config.tie_word_embeddings:
            model.proj_out.weight.mul_(3)
    model.save_pretrained(folder)


def sound(seconds: float, seed: int = 0) -> np.ndarray:
    """A melody with noise, which changes within a second."""
    rng = np.random.default_rng(seed)
    n = round(seconds * RATE)
    pitches = np.repeat(rng.uniform(100, 4000, n // 2500 + 1), 2500)[:n]
    loud = np.repeat(rng.uniform(0.01, 0.8, n // 4000 + 1), 4000)[:n]
    return (np.sin(np.cumsum(pitches) * 2 * np.pi / RATE) * loud + rng.normal(0, 0.02, n)).astype(np.float32)


class Original:
    """transformers' model, extractor and tokenizer of a checkpoint."""

    def __init__(self, folder: Path):
        self.model = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
        self.extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
        self.folder = folder

    def features(self, samples: np.ndarray) -> torch.Tensor:
        """Features as the pipeline makes them."""
        long = len(samples) > self.extractor.n_samples
        how = {"truncation": False, "padding": "longest"} if long else {}
        inputs = self.extractor(samples, sampling_rate=RATE, return_tensors="pt", **how)
        return inputs.input_features

    def prompt_ids(self, prompt: str) -> torch.Tensor:
        """The tokens of a prompt."""
        tokenizer = transformers.WhisperTokenizer.from_pretrained(self.folder)
        return tokenizer.get_prompt_ids(prompt, return_tensors="pt")

    def generate(self, samples: np.ndarray, **options) -> dict:
        """The answer of `generate` with its segments."""
        options = {"return_timestamps": True, "return_segments": True, "task": "transcribe"} | options
        with torch.no_grad():
            return self.model.generate(self.features(samples), **options)


def write_words_only(folder: Path) -> None:
    """Change the weights of a checkpoint so that it writes tokens that begin with a space."""
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    spaced = [token for token in range(END) if len(text := tokenizer.decode([token])) > 1 and text[0] == " "]
    norm, head = model.model.decoder.layer_norm, model.proj_out
    with torch.no_grad():
        norm.bias.fill_(1)
        head.weight -= head.weight.mean(dim=1, keepdim=True)
        head.weight[spaced] += 1
    model.save_pretrained(folder)
