"""The checkpoints whose exports are judged: tiny, seeded, of many kinds of model."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tiny_checkpoint

ENCODER, DECODER, SEQ2SEQ, IMAGES, PAIRS, SOUND, SPEECH = (
    "encoder",
    "decoder",
    "encoder-decoder",
    "images",
    "texts and images",
    "sound",
    "speech",
)
WINDOW = 36  # tokens: short texts are right without it
LONGER = {"sliding_window": WINDOW, "max_position_embeddings": 80}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


@dataclass(frozen=True)
class Source:
    """A checkpoint: family, class, kind of model, and the settings that differ from tiny_checkpoint's."""

    model_type: str
    architecture: str
    kind: str
    config: dict[str, Any] = field(default_factory=dict)


SOURCES = {
    "bert": Source("bert", "BertModel", ENCODER),
    "bert-labels": Source("bert", "BertForSequenceClassification", ENCODER, {"num_labels": 5}),
    "roberta": Source("roberta", "RobertaForMaskedLM", ENCODER),
    "mpnet": Source("mpnet", "MPNetModel", ENCODER),
    "deberta": Source("deberta-v2", "DebertaV2Model", ENCODER),
    "albert": Source("albert", "AlbertModel", ENCODER),
    "distilbert": Source("distilbert", "DistilBertForTokenClassification", ENCODER, {"num_labels": 5}),
    "gpt2": Source("gpt2", "GPT2LMHeadModel", DECODER),
    "llama": Source("llama", "LlamaForCausalLM", DECODER, {"rope_parameters": LLAMA3, "rms_norm_eps": 1e-3}),
    "qwen2": Source("qwen2", "Qwen2ForCausalLM", DECODER),
    "mistral": Source("mistral", "MistralForCausalLM", DECODER, LONGER),
    "gemma2": Source("gemma2", "Gemma2ForCausalLM", DECODER, LONGER),
    "t5": Source("t5", "T5ForConditionalGeneration", SEQ2SEQ, {"relative_attention_max_distance": 20}),
    "bart": Source("bart", "BartForConditionalGeneration", SEQ2SEQ, HEADS | {"scale_embedding": True}),
    "marian": Source("marian", "MarianMTModel", SEQ2SEQ, HEADS),
    "vit": Source("vit", "ViTForImageClassification", IMAGES, {"num_labels": 5}),
    "clip": Source("clip", "CLIPModel", PAIRS),
    "wav2vec2": Source("wav2vec2", "Wav2Vec2ForCTC", SOUND),
    "wav2vec2-masked": Source("wav2vec2", "Wav2Vec2ForCTC", SOUND, {"feat_extract_norm": "layer"}),
    "whisper": Source(
        "whisper",
        "WhisperForConditionalGeneration",
        SPEECH,
        HEADS | {"num_mel_bins": 80, "max_source_positions": 1500},
    ),
}


def save(name: str, folder: Path, seed: int = 0) -> None:
    """Write the checkpoint of that name, in a form that transformers 4 and 5 read alike."""
    source = SOURCES[name]
    tiny_checkpoint.save(folder, source.model_type, source.architecture, seed, **source.config)
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    if "rope_parameters" in config:  # transformers 4 knows two settings in its place
        rope = dict(config["rope_parameters"])
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = None if rope == {"rope_type": "default"} else rope
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
