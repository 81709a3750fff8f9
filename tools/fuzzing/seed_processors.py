"""The settings of processors of seeds: of images, of sounds, and of both beside a tokenizer."""

import json
import string
from pathlib import Path

import tiny_checkpoint
import tiny_tokenizers
import transformers
from tokenizers import Tokenizer, decoders, models

CONVERSATION = (
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{{ '<image>' if part.type == 'image' else part.text }}{% endfor %}{% endif %}{% endfor %} the"
)
PIXELS = {"size": {"height": 30, "width": 30}, "do_center_crop": False}
SPEECH = {
    "lang_to_id": {"<|en|>": 20, "<|fr|>": 21},
    "task_to_id": {"transcribe": 30, "translate": 31},
    "no_timestamps_token_id": 40,
    "decoder_start_token_id": 3,
    "max_length": 12,
    "eos_token_id": 2,
    "pad_token_id": 1,
}
VISION = ("vit", "deit", "dinov2", "clip", "clipseg", "vision-encoder-decoder")


def beside(folder: Path, model_type: str) -> None:
    """The preprocessor's settings of an image or audio model."""
    if model_type == "clip":
        transformers.CLIPImageProcessorPil(**PIXELS).save_pretrained(folder)
    elif model_type == "llava":
        transformers.CLIPImageProcessorPil(**PIXELS).save_pretrained(folder)
        tokenizer = tiny_tokenizers.byte_level()
        tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
        tokenizer.chat_template = CONVERSATION
        tokenizer.save_pretrained(folder)
    elif model_type == "colqwen2":
        bounds = {"min_pixels": 16**2, "max_pixels": 40 * 48}
        transformers.Qwen2VLImageProcessorPil(patch_size=4, **bounds).save_pretrained(folder)
        tokenizer = tiny_tokenizers.byte_level()
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|image_pad|>"]})
        tokenizer.save_pretrained(folder)
    elif model_type == "blip":
        transformers.BlipImageProcessorPil(**PIXELS).save_pretrained(folder)
    elif model_type == "pix2struct":
        size = {"height": 6, "width": 6}
        transformers.Pix2StructImageProcessorPil(patch_size=size, max_patches=24).save_pretrained(folder)
    elif model_type == "yolos":
        edges = {"shortest_edge": 32, "longest_edge": 64}
        transformers.YolosImageProcessorPil(size=edges).save_pretrained(folder)
    elif model_type == "depth_anything":
        size = {"height": 30, "width": 30}
        transformers.DPTImageProcessorPil(size=size, ensure_multiple_of=6).save_pretrained(folder)
    elif model_type == "sam":
        sides = {"height": 60, "width": 60}
        transformers.SamImageProcessorPil(size={"longest_edge": 60}, pad_size=sides).save_pretrained(folder)
    elif model_type == "vitpose":
        size = {"height": 48, "width": 36}
        transformers.VitPoseImageProcessorPil(size=size).save_pretrained(folder)
    elif model_type == "segformer":
        size = {"height": 32, "width": 32}
        transformers.SegformerImageProcessorPil(size=size).save_pretrained(folder)
    elif model_type == "owlvit":
        transformers.OwlViTImageProcessorPil(size={"height": 30, "width": 30}).save_pretrained(folder)
    elif model_type in VISION:
        transformers.ViTImageProcessorPil(**PIXELS).save_pretrained(folder)
    elif model_type == "audio-spectrogram-transformer":
        transformers.ASTFeatureExtractor(num_mel_bins=17, max_length=33).save_pretrained(folder)
    elif model_type == "clap":
        transformers.ClapFeatureExtractor(**tiny_checkpoint.CLAP_SOUNDS).save_pretrained(folder)
    elif model_type in ("wav2vec2", "wavlm"):
        texts = ("<pad>", "<s>", "</s>", "<unk>", "|", *string.ascii_uppercase)
        (folder / "vocab.json").write_text(json.dumps({text: number for number, text in enumerate(texts)}))
        transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json")).save_pretrained(folder)
        transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True).save_pretrained(folder)
    elif model_type == "wav2vec2-bert":
        transformers.SeamlessM4TFeatureExtractor().save_pretrained(folder)
    elif model_type == "speech_to_text":
        transformers.Speech2TextFeatureExtractor(num_mel_bins=11).save_pretrained(folder)
    elif model_type == "parakeet_ctc":
        transformers.ParakeetFeatureExtractor(feature_size=16).save_pretrained(folder)
        pieces = Tokenizer(models.BPE({f"▁{c}": number for number, c in enumerate(string.ascii_letters)}, []))
        pieces.decoder = decoders.Metaspace()
        transformers.ParakeetTokenizer(tokenizer_object=pieces, pad_token="▁a").save_pretrained(folder)
    elif model_type == "whisper":
        transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1).save_pretrained(folder)
        (folder / "generation_config.json").write_text(json.dumps(SPEECH), encoding="utf-8")
