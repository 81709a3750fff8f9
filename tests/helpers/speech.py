"""Tiny checkpoints of speech models with their processors, and recordings."""

import json
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tiny_checkpoint
import torch
import transformers
from num2words import num2words
from safetensors.torch import load_file, save_file
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import AddedToken, Tokenizer, decoders, models

LETTERS = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'")

# The pieces of a sentencepiece vocabulary; the padding token of Parakeet's is behind them.
PIECES = ("<unk>", "▁", "▁the", "▁a", "▁s", "▁of▁the", "▁we", *"esthaniordlu", "ing", "ed", "n't", "'s")
PIECES += (".", ",", "?", "'", "é", "▁▁", "2", "-")
TRAINED_PIECES = 200  # of a SentencePiece model of these texts
WORDS = [num2words(37 * number, lang=language) for number in range(300) for language in ("en", "fr", "de")]

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


def save_piece_tokenizer(
    folder: Path,
    kind: str = "ParakeetTokenizer",
    *,
    pieces: Sequence[str] = PIECES,
    decoder: object = None,
    pad: str = "<pad>",
    **settings,
) -> None:
    """A tokenizer.json as the library's converter of NeMo's models makes it; `pad` follows the pieces."""
    tokenizer = Tokenizer(models.BPE({text: number for number, text in enumerate(pieces)}, []))
    tokenizer.decoder = decoder or decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("<unk>", normalized=False), AddedToken(pad, normalized=False)])
    named = {"pad_token": pad, "unk_token": "<unk>"} | settings
    getattr(transformers, kind)(tokenizer_object=tokenizer, **named).save_pretrained(folder)


def save_parakeet(folder: Path, **settings) -> Path:
    """A Parakeet of random weights with its extractor and tokenizer, which `settings` are for."""
    return _save_pieces(
        folder, "parakeet_ctc", transformers.ParakeetFeatureExtractor(feature_size=16), settings
    )


def save_omniasr(folder: Path) -> Path:
    """An Omnilingual ASR of random weights, whose pieces have the spaces before them as they are."""
    pieces = [piece.replace("▁", " ") for piece in PIECES]
    settings = {"decoder": decoders.Fuse(), "pieces": pieces}
    return _save_pieces(folder, "omniasr_ctc", transformers.OmniASRFeatureExtractor(), settings)


def _save_pieces(folder: Path, model_type: str, extractor, settings: dict) -> Path:
    """A CTC model, its extractor and a tokenizer of pieces.

    The bias of its head takes each token's mean score away, so that its vectors differ in their likeliest.
    """
    tiny_checkpoint.save(folder, model_type)
    extractor.save_pretrained(folder)
    model = transformers.AutoModelForCTC.from_pretrained(folder).eval()
    noise = np.random.default_rng(7).standard_normal(80_000).astype(np.float32)
    with torch.no_grad():
        scores = model(**extractor(noise, sampling_rate=16_000, return_tensors="pt")).logits[0]
        model.ctc_head.bias -= scores.mean(dim=0)
    model.save_pretrained(folder)
    save_piece_tokenizer(folder, **settings)
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


def save_speech_to_text(folder: Path, *, languages: bool = False, **settings) -> Path:
    """A Speech2Text of random weights with its feature extractor and tokenizer, of one or more `languages`.

    `settings` are added to its generation_config.json.
    """
    sizes = {"vocab_size": TRAINED_PIECES, "input_feat_per_channel": 80, "max_source_positions": 300}
    tiny_checkpoint.save(folder, "speech_to_text", tie_word_embeddings=False, **sizes)
    _listen(folder)
    (folder / "tokenizer.json").unlink()
    codes = ["pt", "fr", "ru", "nl", "ro", "it", "es", "de"] if languages else []
    model = folder / "sentencepiece.bpe.model"
    SentencePieceTrainer.train(
        sentence_iterator=iter(WORDS),
        model_prefix=str(folder / "pieces"),
        model_type="unigram",
        vocab_size=TRAINED_PIECES,
        num_threads=1,
        minloglevel=2,
        user_defined_symbols=[f"<lang:{code}>" for code in codes],
        **{"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3},
    )
    (folder / "pieces.model").rename(model)
    (folder / "pieces.vocab").unlink()
    processor = SentencePieceProcessor(model_file=str(model))
    vocab = {processor.id_to_piece(number): number for number in range(processor.get_piece_size())}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    extractor = transformers.Speech2TextFeatureExtractor()
    tokenizer = transformers.Speech2TextTokenizer(
        str(folder / "vocab.json"), str(model), lang_codes="mustc" if languages else None
    )
    transformers.Speech2TextProcessor(extractor, tokenizer).save_pretrained(folder)
    config = transformers.GenerationConfig.from_pretrained(folder)
    config.update(**settings)
    config.save_pretrained(folder)
    return folder


def save_speech_encoder_decoder(folder: Path, *, masked: bool = True, **settings) -> Path:
    """A wav2vec 2.0 before an mBART, of random weights, with its feature extractor and tokenizer.

    If `masked`, the processor makes an attention mask, which both read. `settings` are added to its
    generation_config.json.
    """
    tiny_checkpoint.save(folder, "speech-encoder-decoder", decoder={"tie_word_embeddings": False})
    _listen(folder)
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=masked)
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **special)
    extractor.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = transformers.GenerationConfig.from_pretrained(folder)
    config.update(**settings)
    config.save_pretrained(folder)
    return folder


def _listen(folder: Path) -> None:
    """Scale up what cross-attention adds, so that texts differ from sound to sound."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for name, tensor in tensors.items():
        if "encoder_attn." in name and name.endswith(("v_proj.weight", "out_proj.weight")):
            tensors[name] = 6 * tensor
    save_file(tensors, file, {"format": "pt"})


def odd_recordings(seed: int = 0) -> list[np.ndarray]:
    """Eight sounds (N,) float32 of odd lengths that no model's attention takes long for."""
    draw = np.random.default_rng(seed)
    counts = (721, 1023, 1601, 2345, 3333, 4801, 7777, 16001)
    sounds = [draw.standard_normal(count) * draw.uniform(0.01, 0.3) for count in counts]
    slopes = [np.sin(np.arange(count) / draw.uniform(2, 20)) for count in counts]
    return [(sound + 0.2 * slope).astype(np.float32) for sound, slope in zip(sounds, slopes, strict=True)]


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
