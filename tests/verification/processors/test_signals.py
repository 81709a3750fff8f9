"""Preprocessing of images and audio, compared with transformers'."""

import json
from pathlib import Path

import pytest
import tiny_checkpoint
import transformers
from helpers.bundle_edits import relist
from helpers.often import often
from helpers.speech import save_recogniser

import txexport
from txexport.verification.checks import CTC_TOKENIZER, IMAGE_PROCESSOR, SOUND_PROCESSOR

FILE = "preprocessor_config.json"
# A model type, its processor with settings of a small model, its case, and an edit that another would have.
ROWS = {
    "vit": ("ViTImageProcessorPil", {}, IMAGE_PROCESSOR, {"resample": 3}),
    "deit": ("DeiTImageProcessorPil", {}, IMAGE_PROCESSOR, {"image_std": [0.5, 0.5, 0.51]}),
    "clip": ("CLIPImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_convert_rgb": False}),
    "siglip": ("SiglipImageProcessorPil", {}, IMAGE_PROCESSOR, {"rescale_factor": 0.0039}),
    "beit": ("BeitImageProcessorPil", {}, IMAGE_PROCESSOR, {"image_mean": [0.5, 0.5, 0.51]}),
    "dpt": ("DPTImageProcessorPil", {}, IMAGE_PROCESSOR, {"resample": 2}),
    "glpn": ("GLPNImageProcessorPil", {}, IMAGE_PROCESSOR, {"size_divisor": 31}),
    "resnet": ("ConvNextImageProcessorPil", {}, IMAGE_PROCESSOR, {"size": {"shortest_edge": 383}}),
    "convnext": (
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": 48}},
        IMAGE_PROCESSOR,
        {"crop_pct": 0.8},
    ),
    "segformer": ("SegformerImageProcessorPil", {}, IMAGE_PROCESSOR, {"resample": 3}),
    "maskformer": ("MaskFormerImageProcessorPil", {}, IMAGE_PROCESSOR, {"size_divisor": 8}),
    "mask2former": ("Mask2FormerImageProcessorPil", {}, IMAGE_PROCESSOR, {"size_divisor": 8}),
    "detr": ("DetrImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_normalize": False}),
    "conditional_detr": ("ConditionalDetrImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_rescale": False}),
    "deformable_detr": ("DeformableDetrImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_rescale": False}),
    "dab-detr": ("ConditionalDetrImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_normalize": False}),
    "lw_detr": ("DeformableDetrImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_normalize": False}),
    "d_fine": ("RTDetrImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_normalize": True}),
    "rt_detr": ("RTDetrImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_normalize": True}),
    "yolos": ("YolosImageProcessorPil", {}, IMAGE_PROCESSOR, {"resample": 3}),
    "sam": ("SamImageProcessorPil", {}, IMAGE_PROCESSOR, {"size": {"longest_edge": 1000}}),
    "owlvit": ("OwlViTImageProcessorPil", {}, IMAGE_PROCESSOR, {"resample": 2}),
    "clipseg": ("ViTImageProcessorPil", {}, IMAGE_PROCESSOR, {"resample": 3}),
    "owlv2": ("Owlv2ImageProcessorPil", {}, IMAGE_PROCESSOR, {"do_pad": False}),
    "clap": ("ClapFeatureExtractor", tiny_checkpoint.CLAP_SOUNDS, SOUND_PROCESSOR, {"hop_length": 81}),
    "whisper": ("WhisperFeatureExtractor", {"chunk_length": 2}, SOUND_PROCESSOR, {"hop_length": 161}),
    "audio-spectrogram-transformer": (
        "ASTFeatureExtractor",
        {"max_length": 60},
        SOUND_PROCESSOR,
        {"mean": -4.0},
    ),
    "omniasr_ctc": ("OmniASRFeatureExtractor", {}, SOUND_PROCESSOR, {"do_normalize": False}),
    "speech_to_text": ("Speech2TextFeatureExtractor", {}, SOUND_PROCESSOR, {"num_mel_bins": 79}),
    "parakeet_ctc": ("ParakeetFeatureExtractor", {"feature_size": 16}, SOUND_PROCESSOR, {"hop_length": 161}),
    "wav2vec2-bert": ("SeamlessM4TFeatureExtractor", {}, SOUND_PROCESSOR, {"num_mel_bins": 79}),
    "wav2vec2": ("Wav2Vec2FeatureExtractor", {}, SOUND_PROCESSOR, {"do_normalize": False}),
    "wav2vec2, masked": (
        "Wav2Vec2FeatureExtractor",
        {"return_attention_mask": True},
        SOUND_PROCESSOR,
        {"padding_value": 0.5},
    ),
}


# Processors that another row has too.
REPEATED = ("siglip", "resnet", "dab-detr", "lw_detr", "d_fine", "maskformer", "conditional_detr", "clipseg")


@pytest.fixture(params=often([*ROWS], slower=REPEATED))
def exported(request, tmp_path) -> tuple[Path, str, dict]:
    kind, settings, case, edit = ROWS[request.param]
    tiny_checkpoint.save(tmp_path / "source", request.param.partition(",")[0])
    getattr(transformers, kind)(**settings).save_pretrained(tmp_path / "source")
    txexport.export(tmp_path / "source", tmp_path / "out", only="native")
    return tmp_path / "out", case, edit


def test_equal_and_not(exported):
    out, name, edit = exported
    report = txexport.verify(out, reference="twin", cases=[name])
    [case] = report.cases
    assert report.ok
    assert len(case.checks) > 2
    assert f" with its {name} (only 1 by name" in report.scope
    settings = json.loads((out / FILE).read_text())
    (out / FILE).write_text(json.dumps(settings | edit))
    [case] = txexport.verify(relist(out), reference="twin", cases=[name]).failed
    assert (case.exception or case.worst.output).startswith(
        ("pixel values of an image of mode ", "features of ", "input_values of sounds")
    )


def test_the_vocabulary_of_a_ctc_head(tmp_path):
    save_recogniser(tmp_path / "source")
    out = tmp_path / "out"
    txexport.export(tmp_path / "source", out, only="native")
    report = txexport.verify(out, reference="twin", cases=[CTC_TOKENIZER])
    [case] = report.cases
    assert report.ok
    assert case.checks[0].elements > 60
    vocabulary = json.loads((out / "vocab.json").read_text())
    vocabulary |= {"A": vocabulary["B"], "B": vocabulary["A"]}
    (out / "vocab.json").write_text(json.dumps(vocabulary))
    [case] = txexport.verify(relist(out), reference="twin", cases=[CTC_TOKENIZER]).failed
    assert case.exception.startswith("text of ")


def test_without_settings_it_is_not_tried(exported):
    out, name, _ = exported
    (out / FILE).unlink()
    [case] = txexport.verify(relist(out), reference="twin", cases=[name]).cases
    assert case.skipped in ("no image processor there", "no feature extractor there")
