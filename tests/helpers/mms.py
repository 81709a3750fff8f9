"""Tiny checkpoints as those of MMS: adapters and vocabularies of several languages."""

import json
from pathlib import Path

import tiny_checkpoint
import torch
import transformers
from safetensors.torch import save_file

from helpers.speech import LETTERS

MMS = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "adapter_attn_dim": 6}
LANGUAGES = {  # with vocabularies of unequal sizes
    "eng": LETTERS,
    "fra": (*LETTERS, *"ÀÇÉÈ"),
    "azj-script_latin": (*LETTERS[:5], *reversed(LETTERS[5:]), "Ə"),
}
ADAPTERS = {"fra": "adapter.fra.safetensors", "azj-script_latin": "adapter.azj-script_latin.bin"}


def save_mms(folder: Path) -> None:
    """A model whose weights have the adapter of English, and files of two other languages."""
    tiny_checkpoint.save(folder, "wav2vec2", **MMS)
    for seed, (language, file) in enumerate(ADAPTERS.items(), 1):
        other = tiny_checkpoint.build("wav2vec2", seed=seed, **MMS, vocab_size=len(LANGUAGES[language]))
        adapter = {name: value.detach().contiguous() for name, value in other._get_adapters().items()}
        if file.endswith("bin"):
            torch.save(adapter, folder / file)
        else:
            save_file(adapter, folder / file, metadata={"format": "pt"})
    vocabulary = {name: {text: i for i, text in enumerate(letters)} for name, letters in LANGUAGES.items()}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), target_lang="eng")
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
