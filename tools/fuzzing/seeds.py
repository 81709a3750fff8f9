"""Seeds of mutants: tiny checkpoints of each family and task with their files, and bundles."""

import io
import json
import string
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
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer, decoders, models

from txexport.exporter import export
from txexport.verification import attest, verify

TEXTS = (
    "the cat sat on the mat",
    "Anna lives in Paris and works far",
    "dog",
    "is it 12 or 2?",
    "the lay, the rug.",
)
SOUND_FORMATS = ("FLAC", "OGG", "MP3")
IMAGE_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "EPS", "PCX", "TGA", "SGI")
CANARY = b"{}"  # content of a file outside of all readers' folders

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
    "{{ '[' + m['role'] + '] ' + m.content | trim }}{% endfor %}{% if add_generation_prompt %} the{% endif %}"
)
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
VISION = ("vit", "deit", "dinov2", "clip", "clipseg", "vision-encoder-decoder")


def write(folder: Path) -> None:
    """Write all seeds below `folder`: families/, checkpoints/, quantised/, bundles/ and files/."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for model_type in tiny_checkpoint.FAMILIES:
        tiny_checkpoint.save(folder / "families" / model_type, model_type)
        _beside(folder / "families" / model_type, model_type)
    for name, (model_type, architecture, tokenizer, config) in TASKS.items():
        path = folder / "checkpoints" / name
        tiny_checkpoint.save(path, model_type, architecture, **config)
        if tokenizer is not None:
            getattr(tiny_tokenizers, tokenizer)().save_pretrained(path)
        _beside(path, model_type)
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
    _marian(checkpoints / "translator")
    _many_languages(checkpoints / "languages")
    _words(checkpoints / "words")
    _python(checkpoints / "protein", checkpoints / "bytes")
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


def _beside(folder: Path, model_type: str) -> None:
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


def _marian(folder: Path) -> None:
    """OPUS-MT as published: SentencePiece models and a vocabulary, no tokenizer.json."""
    folder.mkdir(parents=True)
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20),
        model_prefix=str(folder / "source"),
        vocab_size=50,
        num_threads=1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "source.model").rename(folder / "source.spm")
    pieces = SentencePieceProcessor(model_file=str(folder / "source.spm"))
    normal = [
        pieces.IdToPiece(i) for i in range(len(pieces)) if not (pieces.IsControl(i) or pieces.IsUnknown(i))
    ]
    vocabulary = ["</s>", "<unk>", ">>fra<<", *normal, "<pad>"]
    pad = len(vocabulary) - 1
    ids = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0}
    tiny_checkpoint.save(
        folder, "marian", vocab_size=len(vocabulary), decoder_vocab_size=len(vocabulary), **ids
    )
    (folder / "tokenizer.json").unlink()
    numbered = {word: number for number, word in enumerate(vocabulary)}
    for name, value in (
        ("vocab.json", numbered),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr"},
        ),
    ):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def _words(folder: Path) -> None:
    """A vocabulary as text, from which transformers makes a word-level tokenizer."""
    tiny_checkpoint.save(folder, "bert", "BertForSequenceClassification")
    (folder / "tokenizer.json").unlink()
    vocabulary = tiny_tokenizers.wordpiece().get_vocab()
    (folder / "vocab.txt").write_text(
        "\n".join(sorted(vocabulary, key=vocabulary.__getitem__)), encoding="utf-8"
    )


def _many_languages(folder: Path) -> None:
    """M2M-100 as published: a SentencePiece BPE model and a vocabulary, no tokenizer.json."""
    folder.mkdir(parents=True)
    model = folder / "sentencepiece.bpe.model"
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20),
        model_prefix=str(model.with_suffix("")),
        vocab_size=50,
        model_type="bpe",
        num_threads=1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = SentencePieceProcessor(model_file=str(model))
    vocabulary = [pieces.IdToPiece(i) for i in range(3, len(pieces))]
    numbered = {word: number for number, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *vocabulary])}
    tiny_checkpoint.save(folder, "m2m_100", vocab_size=len(numbered) + 108, decoder_start_token_id=2)
    (folder / "tokenizer.json").unlink()
    for name, value in (("vocab.json", numbered), ("tokenizer_config.json", {"src_lang": "fr"})):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def _python(protein: Path, texts: Path) -> None:
    """Vocabularies from which transformers makes tokenizers in Python."""
    letters = ("<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>")
    tiny_checkpoint.save(protein, "esm", vocab_size=len(letters))
    (protein / "vocab.txt").write_text("\n".join(letters), encoding="utf-8")
    tiny_checkpoint.save(texts, "t5", vocab_size=384)
    for folder, kind in ((protein, "EsmTokenizer"), (texts, "ByT5Tokenizer")):
        (folder / "tokenizer.json").unlink(missing_ok=True)
        settings = {"tokenizer_class": kind, "eos_token": "<eos>" if folder == protein else "</s>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


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
