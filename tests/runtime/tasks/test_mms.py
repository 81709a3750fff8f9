"""MMS: the adapter of a language, loaded by transformers as the guide says, then exported."""

import json

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers.speech import LETTERS, recordings
from safetensors.torch import save_file

import txexport

MMS = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "adapter_attn_dim": 6}
LANGUAGES = {"eng": LETTERS, "fra": (*LETTERS, *"ÀÇÉÈ")}  # with vocabularies of unequal sizes


def save_mms(folder) -> None:
    """A model whose files have the adapter of English, one of French, and both vocabularies."""
    tiny_checkpoint.save(folder, "wav2vec2", **MMS)
    french = tiny_checkpoint.build("wav2vec2", seed=1, **MMS, vocab_size=len(LANGUAGES["fra"]))
    save_file(
        {name: value.detach().contiguous() for name, value in french._get_adapters().items()},
        folder / "adapter.fra.safetensors",
        metadata={"format": "pt"},
    )
    vocabulary = {name: {text: i for i, text in enumerate(letters)} for name, letters in LANGUAGES.items()}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), target_lang="eng")
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_of_a_language_equal_the_original(language, tmp_path):
    source, exported = tmp_path / "mms", tmp_path / "in"
    save_mms(source)
    original = transformers.Wav2Vec2ForCTC.from_pretrained(
        source, target_lang=language if language != "eng" else None, ignore_mismatched_sizes=True
    ).eval()
    original.save_pretrained(exported)
    processor = transformers.AutoProcessor.from_pretrained(source, target_lang=language)
    processor.save_pretrained(exported)
    txexport.export(exported, tmp_path / "out")
    model = txexport.load(tmp_path / "out", device="cpu")
    sounds, texts = recordings(), []
    for sound in sounds:
        inputs = processor(sound, sampling_rate=16_000, return_tensors="pt")
        with torch.inference_mode():
            texts.append(processor.decode(original(**inputs).logits[0].argmax(dim=-1)))
    assert model.transcribe(sounds) == texts
    assert len({*texts}) > 5
    assert model.run(**model.audio.inputs(sounds))["logits"].shape[2] == max(len(LANGUAGES[language]), 32)
    assert np.array_equal(model.audio.inputs(sounds)["attention_mask"].sum(1), [*map(len, sounds)])
