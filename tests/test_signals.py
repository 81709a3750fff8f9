"""From a file to a model's numbers: what a user does with images and sounds, against transformers."""

import wave

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from rows import HEAR, OTHERS, Row

from txexport.errors import InputError
from txexport.exporter import export
from txexport.runtime import load

SETTINGS = {"size": {"height": 30, "width": 30}, "do_center_crop": False}


def row(model_type: str, task: str):
    return next(row for row in OTHERS if row.model_type == model_type and row.task == task)


@pytest.fixture
def photograph(tmp_path):
    """An image file of odd size."""
    pixels = np.random.default_rng(5).integers(0, 256, (37, 53, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photograph.png")
    return tmp_path / "photograph.png"


def test_labels_of_an_image_file(checkpoint_of, photograph, tmp_path):
    folder = checkpoint_of(row("vit", "image-classification"))
    processor = transformers.ViTImageProcessorPil(**SETTINGS)
    processor.save_pretrained(folder)
    export(folder, tmp_path / "out")
    model = load(tmp_path / "out")
    found = model.run(pixel_values=model.images.pixels(photograph))["logits"]
    original = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = original(**processor(Image.open(photograph), return_tensors="pt")).logits.numpy()
    assert np.abs(found - expected).max() < 1e-5


def test_texts_that_fit_an_image_file(checkpoint_of, photograph, tmp_path):
    folder = checkpoint_of("clip")
    processor = transformers.CLIPImageProcessorPil(**SETTINGS)
    processor.save_pretrained(folder)
    export(folder, tmp_path / "out")
    model = load(tmp_path / "out")
    ids = np.array([[5, 6, 310], [7, 310, 310]])
    mask = np.array([[1, 1, 1], [1, 1, 0]])
    vectors = model.run("text_model", input_ids=ids, attention_mask=mask)
    vectors |= model.run("vision_model", pixel_values=model.images.pixels(photograph))
    found = model.run("similarity_model", **vectors)["logits_per_image"]
    original = transformers.CLIPModel.from_pretrained(folder).eval()
    with torch.no_grad():
        pixels = processor(Image.open(photograph), return_tensors="pt")
        texts = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        expected = original(**texts, **pixels).logits_per_image.numpy()
    assert np.abs(found - expected).max() < 1e-5


def test_tokens_of_a_sound_file(checkpoint_of, tmp_path):
    heard = Row("whisper", "WhisperForConditionalGeneration", HEAR, "1 s", {"max_source_positions": 50})
    folder = checkpoint_of(heard)
    extractor = transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1)
    extractor.save_pretrained(folder)
    sound = np.sin(np.arange(6000) / 7) * np.linspace(0.1, 0.9, 6000)
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, len(sound), "NONE", ""))
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    export(folder, tmp_path / "out")
    model = load(tmp_path / "out")
    features = model.audio.features(tmp_path / "sound.wav")
    found = model.generate_ids(features, max_new_tokens=12, begin_suppress_tokens=None)[0]
    original = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    samples = (sound * 32767).astype("<i2") / 32768
    features = extractor(samples, sampling_rate=16000, return_tensors="pt").input_features
    tokens = [3]
    for _ in found:
        with torch.no_grad():
            logits = original(input_features=features, decoder_input_ids=torch.tensor([tokens])).logits
        tokens.append(int(logits[0, -1].argmax()))
    assert found == tokens[1:]
    assert len(found) > 1


def test_a_spectrogram_of_another_shape_is_one_line(bundle_of):
    model = load(bundle_of("whisper", "static"))
    with pytest.raises(InputError, match=r"a spectrogram is \(11, 7\), expected \(11, 42\)"):
        model.generate_ids([np.zeros((11, 7), np.float32)])
