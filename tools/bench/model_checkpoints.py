"""Random checkpoints of real sizes, in float32, with a tokenizer whose word <5> is token 5."""

import json
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers

QWEN = {
    "vocab_size": 151_936,
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "tie_word_embeddings": True,
}
LFM2_350M = {
    "vocab_size": 65_536,
    "hidden_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 6656,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
}
BART_BASE = {
    "d_model": 768,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
}
WHISPER_IDS = {
    "vocab_size": 51_865,
    "pad_token_id": 50_257,
    "bos_token_id": 50_257,
    "eos_token_id": 50_257,
    "decoder_start_token_id": 50_258,
}
WHISPER_BASE = WHISPER_IDS | {
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
}
WHISPER_SMALL = WHISPER_IDS | {
    "d_model": 768,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
}
# Whisper's special tokens; <|en|> is the only language, and the last 1,501 tokens are timestamps.
WHISPER_TOKENS = {
    "<|endoftext|>": 50_257,
    "<|startoftranscript|>": 50_258,
    "<|en|>": 50_259,
    "<|translate|>": 50_358,
    "<|transcribe|>": 50_359,
    "<|startoflm|>": 50_360,
    "<|startofprev|>": 50_361,
    "<|nospeech|>": 50_362,
    "<|notimestamps|>": 50_363,
}
FIRST_TIME = 50_364
WHISPER_PROMPT = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
WHISPER_GENERATION = {
    "is_multilingual": True,
    "lang_to_id": {"<|en|>": WHISPER_TOKENS["<|en|>"]},
    "task_to_id": {"transcribe": 50_359, "translate": 50_358},
    "no_timestamps_token_id": 50_363,
    "begin_suppress_tokens": None,
    # Random weights must not stop early, nor write times, by which transformers would read on in the window.
    "suppress_tokens": [WHISPER_TOKENS["<|endoftext|>"], *range(FIRST_TIME, WHISPER_IDS["vocab_size"])],
}
RESNET_50 = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
YOLOS_TINY = {
    "hidden_size": 192,
    "num_attention_heads": 3,
    "intermediate_size": 768,
    "image_size": [800, 1344],
}
DINOV2_SMALL = {
    "model_type": "dinov2",
    "hidden_size": 384,
    "num_attention_heads": 6,
    "image_size": 518,
    "patch_size": 14,
    "out_indices": [3, 6, 9, 12],
    "reshape_hidden_states": False,
    "apply_layernorm": True,
}
DEPTH_SMALL = {
    "backbone_config": DINOV2_SMALL,
    "reassemble_hidden_size": 384,
    "neck_hidden_sizes": [48, 96, 192, 384],
    "fusion_hidden_size": 64,
    "patch_size": 14,
}
RT_DETR_R18 = {
    "backbone_config": {
        "model_type": "rt_detr_resnet",
        "depths": [2, 2, 2, 2],
        "hidden_sizes": [64, 128, 256, 512],
        "layer_type": "basic",
        "out_features": ["stage2", "stage3", "stage4"],
    },
    "encoder_in_channels": [128, 256, 512],
    "hidden_expansion": 0.5,
    "decoder_layers": 3,
    "num_labels": 80,
}
MAMBA2_130M = {
    "vocab_size": 50_288,
    "hidden_size": 768,
    "num_hidden_layers": 24,
    "num_heads": 24,
    "head_dim": 64,
    "n_groups": 1,
}
# Three of four layers are gated delta rules.
QWEN3_5_800M = {
    "vocab_size": 248_320,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "intermediate_size": 3584,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 16,
    "tie_word_embeddings": True,
}
# Four of 32 layers attend, the others are Mamba-2's.
GRANITE_4_350M = {
    "vocab_size": 100_352,
    "hidden_size": 768,
    "num_hidden_layers": 32,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "shared_intermediate_size": 2048,
    "intermediate_size": 2048,
    "num_local_experts": 0,
    "num_experts_per_tok": 0,
    "mamba_n_heads": 48,
    "mamba_d_head": 32,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "max_position_embeddings": 32_768,
    "position_embedding_type": "nope",
    "tie_word_embeddings": True,
    "layer_types": ["attention" if layer in (10, 13, 17, 27) else "mamba" for layer in range(32)],
}
# Values that transformers' newer versions omit from config.json or rename, and other converters read.
OLDER = {
    "bert": {"position_embedding_type": "absolute"},
    "bart": {"normalize_before": False},
    "granite-4-h-350m": {"layer_types": GRANITE_4_350M["layer_types"]},
}
IMAGE_TOKENS = {
    "smolvlm": {49_190: "<image>", 49_189: "<fake_token_around_image>", 49_152: "<global-img>"},
    "qwen2_vl": {
        **{151_652: "<|vision_start|>", 151_653: "<|vision_end|>"},
        **{151_655: "<|image_pad|>", 151_656: "<|video_pad|>"},
    },
}
SMOLVLM_256M = {
    "vision_config": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "image_size": 512,
        "patch_size": 16,
    },
    "text_config": {
        "model_type": "llama",
        "vocab_size": 49_280,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
    },
    "scale_factor": 4,
    "image_token_id": 49_190,
}
# Qwen2-VL 2B with 4 of its 28 layers, and 4 of the 32 of its tower, which fit into memory several times.
QWEN2_VL_2B = {
    "vision_config": {"depth": 4, "embed_dim": 1280, "hidden_size": 1536, "num_heads": 16},
    "text_config": {
        "vocab_size": 151_936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 4,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32_768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    },
    **{"vision_start_token_id": 151_652, "vision_end_token_id": 151_653},
    **{"image_token_id": 151_655, "video_token_id": 151_656},
}
# Name -> model type, architecture, changes of its config, kind of case.
MODELS = {
    "bert": ("bert", "BertModel", {}, "encode"),
    "gpt2": ("gpt2", "GPT2LMHeadModel", {}, "decode"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM", QWEN, "decode"),
    "lfm2-350m": ("lfm2", "Lfm2ForCausalLM", LFM2_350M, "decode"),
    "mamba2-130m": ("mamba2", "Mamba2ForCausalLM", MAMBA2_130M, "decode"),
    "qwen3.5-0.8b": ("qwen3_5_text", "Qwen3_5ForCausalLM", QWEN3_5_800M, "decode"),
    "granite-4-h-350m": ("granitemoehybrid", "GraniteMoeHybridForCausalLM", GRANITE_4_350M, "decode"),
    "t5": ("t5", "T5ForConditionalGeneration", {"decoder_start_token_id": 0}, "answer"),
    "bart": ("bart", "BartForConditionalGeneration", BART_BASE, "answer"),
    "wav2vec2": ("wav2vec2", "Wav2Vec2ForCTC", {}, "frames"),
    "whisper-base": ("whisper", "WhisperForConditionalGeneration", WHISPER_BASE, "transcribe"),
    "whisper-small": ("whisper", "WhisperForConditionalGeneration", WHISPER_SMALL, "transcribe"),
    "smolvlm-256m": ("smolvlm", "SmolVLMForConditionalGeneration", SMOLVLM_256M, "look"),
    "qwen2-vl-2b-cut": ("qwen2_vl", "Qwen2VLForConditionalGeneration", QWEN2_VL_2B, "look"),
    "segformer-b0": ("segformer", "SegformerForSemanticSegmentation", {"num_labels": 150}, "pixels-512"),
    "depth-anything-small": ("depth_anything", "DepthAnythingForDepthEstimation", DEPTH_SMALL, "pixels-518"),
    "swin-tiny": ("swin", "SwinForImageClassification", {"num_labels": 1000}, "pixels-224"),
    "yolos-tiny": ("yolos", "YolosForObjectDetection", YOLOS_TINY, "pixels-800"),
    "detr-r50": ("detr", "DetrForObjectDetection", RESNET_50, "pixels-800"),
    "rt-detr-v2-r18": ("rt_detr_v2", "RTDetrV2ForObjectDetection", RT_DETR_R18, "pixels-640"),
    "sam-base-encoder": ("sam", "SamModel", {}, "pixels-1024"),
    "sam-base-decoder": ("sam", "SamModel", {}, "prompts"),
}
STATES = "lfm2-350m", "mamba2-130m", "qwen3.5-0.8b", "granite-4-h-350m"
SPEECH = "frames", "transcribe"
VISION = "pixels-224", "pixels-512", "pixels-518", "pixels-640", "pixels-800", "pixels-1024", "prompts"


def make(name: str, folder: Path, layers: int | None) -> None:
    """Write a random checkpoint of `name` to `folder`."""
    import torch
    import transformers

    model_type, architecture, sizes, kind = MODELS[name]
    if layers is not None:
        keys = ("encoder_layers", "decoder_layers") if kind == "transcribe" else ("num_hidden_layers",)
        sizes = sizes | dict.fromkeys(keys, layers)
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    torch.manual_seed(0)
    model = getattr(transformers, architecture)(config)
    if kind == "transcribe":
        model.generation_config._from_model_config = False  # else it is made of config.json again
        for key, value in WHISPER_GENERATION.items():
            setattr(model.generation_config, key, value)
    elif kind in ("decode", "answer", "look"):
        model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None
    model.save_pretrained(folder)
    if kind in VISION:
        return
    special = {"bos_token": "<0>", "pad_token": "<1>", "eos_token": "<2>", "unk_token": "<3>"}
    names = {}
    if kind == "frames":
        transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)
    if kind == "transcribe":
        transformers.WhisperFeatureExtractor().save_pretrained(folder)
        times = {f"<|{i * 0.02:.2f}|>": FIRST_TIME + i for i in range(config.vocab_size - FIRST_TIME)}
        names = {number: token for token, number in (WHISPER_TOKENS | times).items()}
        special = dict.fromkeys(("bos_token", "pad_token", "eos_token"), "<|endoftext|>")
        special |= {"unk_token": "<3>"}
    size = config.get_text_config().vocab_size
    names |= IMAGE_TOKENS[model_type] if kind == "look" else {}
    vocabulary = {names.get(i, f"<{i}>"): i for i in range(size)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<3>"))
    if kind == "look":
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        special["additional_special_tokens"] = [*IMAGE_TOKENS[model_type].values()]
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    if model_type == "qwen2_vl":
        images = transformers.Qwen2VLImageProcessorPil(min_pixels=256**2, max_pixels=512**2)
        images.save_pretrained(folder)  # Qwen2VLProcessor itself needs torchvision, for videos
    if model_type == "smolvlm":
        edges = {"size": {"longest_edge": 512}, "max_image_size": {"longest_edge": 512}}
        images = transformers.SmolVLMImageProcessorPil(**edges, do_image_splitting=False)
        transformers.Idefics3Processor(images, fast, image_seq_len=64).save_pretrained(folder)
        return
    fast.save_pretrained(folder)
    _add(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    _add(folder / "config.json", OLDER.get(name, {}))


def _add(path: Path, settings: dict) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings, indent=2))
