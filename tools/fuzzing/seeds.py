"""Seeds of mutants: tiny checkpoints of each family and task with their files, and bundles."""

import io
import json
import struct
from pathlib import Path

import numpy as np
import soundfile
import tiny_adapter
import tiny_checkpoint
import tiny_gguf
import tiny_pickled
import tiny_quantised
import tiny_tokenizers
import torch
import transformers
from PIL import Image
from safetensors.numpy import load_file, save_file

from fuzzing.seed_processors import beside
from fuzzing.seed_tokenizers import many_languages, marian, python, words
from txexport.exporter import export
from txexport.verification import attest, verify

SOUND_FORMATS = ("FLAC", "OGG", "MP3")
IMAGE_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "EPS", "PCX", "TGA", "SGI")
CANARY = b"{}"  # content of a file outside of all readers' folders

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
    "{{ '[' + m['role'] + '] ' + m.content | trim }}{% endfor %}{% if add_generation_prompt %} the{% endif %}"
)
IMAGE = len(tiny_tokenizers.byte_level())  # the id of a token after those of a tokenizer
LABELS = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}
TIME_DELAYS = {"tdnn_dim": [8, 9], "tdnn_kernel": [3, 2], "tdnn_dilation": [1, 2], "xvector_output_dim": 7}
WORDS = len(tiny_tokenizers.clip())

# Checkpoints of tasks: model_type, architecture, tokenizer, config.
TASKS: dict[str, tuple[str, str, str | None, dict]] = {
    "classifier": ("bert", "BertForSequenceClassification", "wordpiece", LABELS),
    "reranker": ("bert", "BertForSequenceClassification", "wordpiece", {"num_labels": 1}),
    "tagger": ("bert", "BertForTokenClassification", "wordpiece", {"num_labels": 5}),
    "reader": ("roberta", "RobertaForQuestionAnswering", "byte_level", {}),
    "chooser": ("bert", "BertForMultipleChoice", "wordpiece", {}),
    "pretrained": ("bert", "BertForPreTraining", "wordpiece", {}),
    "sentences": ("bert", "BertModel", "wordpiece", {}),
    "tokens": ("bert", "BertModel", "wordpiece", {}),
    "decoder": ("gpt2", "GPT2LMHeadModel", "byte_level", {}),
    "sharded": ("llama", "LlamaForCausalLM", "byte_level", {}),
    "speech": ("whisper", "WhisperForConditionalGeneration", "byte_level", {"max_source_positions": 50}),
    "captions": ("vision-encoder-decoder", "VisionEncoderDecoderModel", "byte_level", {}),
    "seen": ("llava", "LlavaForConditionalGeneration", "byte_level", {"image_token_id": IMAGE}),
    "noises": ("audio-spectrogram-transformer", "ASTForAudioClassification", None, {"num_labels": 7}),
    "letters": ("wav2vec2", "Wav2Vec2ForCTC", None, {}),
    "turns": ("wav2vec2", "Wav2Vec2ForAudioFrameClassification", None, {"num_labels": 3}),
    "speakers": ("wav2vec2", "Wav2Vec2ForXVector", None, TIME_DELAYS),
    "frames": ("wav2vec2-bert", "Wav2Vec2BertForCTC", None, {}),
    "translated": ("speech_to_text", "Speech2TextForConditionalGeneration", None, {}),
    "subsampled": ("parakeet_ctc", "ParakeetForCTC", None, {}),
    "heard": ("clap", "ClapModel", "byte_level", {}),
    "images": ("vit", "ViTForImageClassification", None, {"num_labels": 7}),
    "objects": ("yolos", "YolosForObjectDetection", None, {}),
    "depths": ("depth_anything", "DepthAnythingForDepthEstimation", None, {}),
    "poses": ("vitpose", "VitPoseForPoseEstimation", None, {}),
    "segments": ("segformer", "SegformerForSemanticSegmentation", None, {}),
    "masks": ("sam", "SamModel", None, {}),
    "ocr_words": ("layoutlm", "LayoutLMModel", "wordpiece", {}),
    "ocr_tags": ("layoutlm", "LayoutLMForTokenClassification", "wordpiece", {}),
    "ocr_labels": ("layoutlm", "LayoutLMForSequenceClassification", "wordpiece", {}),
    "ocr_answers": ("layoutlm", "LayoutLMForQuestionAnswering", "wordpiece", {}),
    "ocr_layouts": ("lilt", "LiltForTokenClassification", "byte_level", {}),
    "pages": ("colqwen2", "ColQwen2ForRetrieval", "byte_level", {"vlm_config": {"image_token_id": IMAGE}}),
    "questioned": (
        "blip",
        "BlipForQuestionAnswering",
        "wordpiece",
        {"text_config": {"vocab_size": 113, "bos_token_id": 4}},
    ),
    "drawn": ("pix2struct", "Pix2StructForConditionalGeneration", "byte_level", {}),
    "patches": ("owlvit", "OwlViTForObjectDetection", "clip", {"text_config": {"vocab_size": WORDS}}),
    "described": (
        "clipseg",
        "CLIPSegForImageSegmentation",
        "clip",
        {"text_config": {"vocab_size": WORDS, "eos_token_id": WORDS - 1}},
    ),
    "towers": (
        "clip",
        "CLIPModel",
        "clip",
        {"text_config": {"vocab_size": WORDS, "eos_token_id": WORDS - 1}},
    ),
}
# GGUF files: the type of their packed matrices, and the checkpoint's sizes.
GGUF: dict[str, tuple[int, dict]] = {
    "llama": (
        2,
        {
            **{"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "head_dim": 16},
            "rope_parameters": {
                **{"rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0},
                **{"high_freq_factor": 4.0, "original_max_position_embeddings": 16},
            },
        },
    ),
    "phi3": (
        3,
        {
            **{"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1},
            "original_max_position_embeddings": 16,
            "rope_parameters": {
                **{"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16},
                **{"short_factor": [1.0] * 7 + [1.5], "long_factor": [2.0] * 8},
            },
        },
    ),
    "gpt2": (8, {"n_embd": 64, "n_head": 4, "n_inner": 96, "n_layer": 1}),
    "gemma2": (12, {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 1}),
}
# Checkpoints with a pytorch_model.bin, and its format.
PICKLED: dict[str, dict[str, bool]] = {
    "pickled": {},
    "pickled-legacy": {"legacy": True},
    "pickled-trained": {"trained": True},
}
PYTHON = ("protein", "bytes")  # with tokenizers in Python alone
# Bundles whose graphs for other clients are tried too.
FOR_OTHERS = {
    *("classifier", "decoder", "images", "noises", "pretrained", "sentences", "speech", "towers"),
    "translator",
}
EXPERTS = "mxfp4"  # with quantised experts alone


def write(folder: Path) -> None:
    """Write all seeds below `folder`: families/, checkpoints/, quantised/, bundles/ and files/."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for model_type in tiny_checkpoint.FAMILIES:
        tiny_checkpoint.save(folder / "families" / model_type, model_type)
        beside(folder / "families" / model_type, model_type)
    for name, (model_type, architecture, tokenizer, config) in TASKS.items():
        path = folder / "checkpoints" / name
        tiny_checkpoint.save(path, model_type, architecture, **config)
        if tokenizer is not None:
            getattr(tiny_tokenizers, tokenizer)().save_pretrained(path)
        beside(path, model_type)
    checkpoints = folder / "checkpoints"
    _sentences(checkpoints / "sentences")
    _tokens(checkpoints / "tokens")
    _shards(checkpoints / "sharded")
    for name, how in PICKLED.items():
        tiny_checkpoint.save(checkpoints / name, "bert", num_hidden_layers=1)
        tiny_pickled.pickled(checkpoints / name, **how)
    base = folder / "families/bert"
    head = {"classifier.weight": tiny_adapter.random(3, 48), "classifier.bias": tiny_adapter.random(3)}
    tiny_adapter.write(
        folder / "adapter",
        tiny_adapter.lora(base, "query") | head,
        **{"task_type": "SEQ_CLS", "modules_to_save": ["classifier"], "target_modules": ["query"]},
        **{"alpha_pattern": {"layer.0.attention.self.query": 7}, "layers_to_transform": [0, 1]},
    )
    marian(checkpoints / "translator")
    many_languages(checkpoints / "languages")
    words(checkpoints / "words")
    python(checkpoints / "protein", checkpoints / "bytes")
    (checkpoints / "decoder/chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    for path in checkpoints.iterdir():
        only = None if path.name in FOR_OTHERS else "native"
        export(path, folder / "bundles" / path.name, only=only)
    (folder / "statements").mkdir()
    for name in ("classifier", "decoder"):
        export(checkpoints / name, folder / "proved" / name, only="native")
        verify(folder / "proved" / name, cases="quick", reference="twin")
        attest(folder / "proved" / name, recorded=True).write(folder / "statements" / f"{name}.json")
    source = tiny_quantised.tiny_llama(folder / "float", num_hidden_layers=1)
    for name, (packer, settings) in tiny_quantised.FORMATS.items():
        tiny_quantised.quantised(source, folder / "quantised" / name, packer, settings)
    experts = tiny_quantised.tiny_gpt_oss(folder / "float-experts", num_hidden_layers=1)
    tiny_quantised.quantised_experts(experts, folder / "quantised" / EXPERTS)
    _files(folder / "files")


def _sentences(folder: Path) -> None:
    """The files of sentence-transformers: pooling, a dense layer, L2 normalisation."""
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    paths = ["", *(f"{place}_{kind}" for place, kind in enumerate(kinds) if place)]
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    (folder / "2_Dense").mkdir()
    rng = np.random.default_rng(0)
    arrays = {"linear.weight": rng.standard_normal((31, 48)), "linear.bias": rng.standard_normal(31)}
    save_file({k: v.astype(np.float32) for k, v in arrays.items()}, folder / "2_Dense/model.safetensors")
    tanh = "torch.nn.modules.activation.Tanh"
    for name, value in (
        ("modules.json", modules),
        ("1_Pooling/config.json", {"word_embedding_dimension": 48, "pooling_mode_mean_tokens": True}),
        (
            "2_Dense/config.json",
            {"in_features": 48, "out_features": 31, "bias": True, "activation_function": tanh},
        ),
        ("sentence_bert_config.json", {"max_seq_length": 30, "do_lower_case": True}),
        ("config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": None}),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def _tokens(folder: Path) -> None:
    """The files of ColBERT, as its authors publish it."""
    file = folder / "model.safetensors"
    layer = np.random.default_rng(0).standard_normal((31, 48)).astype(np.float32)
    save_file(load_file(file) | {"linear.weight": layer}, file)
    config = json.loads((folder / "config.json").read_bytes()) | {"architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    metadata = {"query_maxlen": 20, "doc_maxlen": 30, "query_token_id": "the", "doc_token_id": "cat"}
    (folder / "artifact.metadata").write_text(json.dumps(metadata), encoding="utf-8")


def _shards(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    tiny_checkpoint.build("llama", "LlamaForCausalLM").save_pretrained(folder, max_shard_size="80KB")


def _files(folder: Path) -> None:
    """A sound and an image in each format, inputs of a graph, GGUF files."""
    folder.mkdir()
    for model_type, (kind, config) in GGUF.items():
        tiny_checkpoint.save(folder / model_type, model_type, **config)
        packed = tiny_gguf.every(kind)
        tiny_gguf.convert(folder / model_type, folder / f"{model_type}.gguf", packed)
    samples = (20_000 * np.sin(np.arange(4000) / 7)).astype("<i2").tobytes()
    header = struct.pack(
        "<4sI4s4sIHHIIHH", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16
    )
    (folder / "sound.wav").write_bytes(header + b"data" + struct.pack("<I", len(samples)) + samples)
    for kind in SOUND_FORMATS:
        spoken = 0.5 * np.sin(np.arange(4000) / 7)
        soundfile.write(folder / f"sound.{kind.lower()}", spoken, 16000, format=kind)
    soundfile.write(folder / "float.wav", spoken, 16000, subtype="FLOAT")
    pixels = np.random.default_rng(1).integers(0, 256, (37, 53, 3), np.uint8)
    for kind in IMAGE_FORMATS:
        Image.fromarray(pixels).save(folder / f"image.{kind.lower()}", kind)
    inputs = io.BytesIO()
    ids = np.array([[5, 6, 7], [8, 9, 1]])
    np.savez(inputs, input_ids=ids, attention_mask=(ids != 1) * 1, token_type_ids=ids * 0)
    (folder / "inputs.npz").write_bytes(inputs.getvalue())
