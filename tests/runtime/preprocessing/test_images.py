"""Pixel values against transformers' Pillow processors: what a model sees of an image, to the last bit."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from helpers import sam2_processor
from helpers.often import often
from PIL import Image

from txexport.errors import BundleError, InputError, MissingLibraryError, UnsupportedError
from txexport.runtime.preprocessing.image_defaults import (
    BOXED,
    CANVASED,
    MOSAICS,
    PACKED,
    PATCHED,
    SPLITTING,
    SQUARED,
    TILED,
    UNFILTERED,
    WITHOUT_PILLOW,
)
from txexport.runtime.preprocessing.images import DEFAULTS, RESIZED_AS_VALUES, Images

OTHERS = (
    RESIZED_AS_VALUES
    | UNFILTERED
    | SQUARED
    | BOXED
    | PATCHED
    | TILED
    | MOSAICS
    | SPLITTING
    | PACKED
    | CANVASED
)
OF_SIDES = ("GotOcr2ImageProcessor", "PixtralImageProcessor")  # without a shorter edge
KINDS = [kind for kind in DEFAULTS if kind not in OTHERS]  # with a Pillow processor of whole images
SIZES = [(37, 53), (53, 37), (224, 224), (225, 301), (300, 199), (19, 500), (1, 7), (256, 224)]  # H, W
FILE = "preprocessor_config.json"


def seeded(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Noise on a gradient, so that a filter, an offset and a swap of axes all show."""
    rng = np.random.default_rng(seed)
    slope = np.linspace(0, 150, height)[:, None, None] + np.linspace(0, 40, channels)
    noise = rng.integers(0, 60, (height, width, channels))
    return (slope + noise).astype(np.uint8)


def original(kind: str, **settings):
    """transformers' own processor of that kind with Pillow; of SAM 2, which has none, a stand-in."""
    if kind in WITHOUT_PILLOW:
        return sam2_processor.processor(**settings)
    without_ocr = {"apply_ocr": False} if kind == "LayoutLMv3ImageProcessor" else {}
    return getattr(transformers, f"{kind}Pil")(**without_ocr | settings)


def judge(kind: str, folder, **settings):
    """transformers' own processor of that kind, its file saved in `folder`."""
    processor = original(kind, **settings)
    processor.save_pretrained(folder)
    return processor


def assert_same(processor, folder, image, **how) -> None:
    wanted = processor(image, return_tensors="np", **how).pixel_values
    found = Images(folder).pixels(image)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, wanted)


def write(folder, **settings):
    (folder / FILE).write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_silent_means_the_defaults(kind, tmp_path):
    write(tmp_path, image_processor_type=kind, size=None, valid_processor_keys=["images", "do_resize"])
    processor = original(kind)
    for size in SIZES:
        if kind == "GLPNImageProcessor" and min(size) < processor.size_divisor:
            with pytest.raises(InputError, match="it is too narrow"):
                Images(tmp_path).pixels(seeded(*size))
            continue
        if kind == "DonutImageProcessor" and max(size) > 20 * min(size):
            with pytest.raises(InputError, match="would be resized to 50526 x 1920"):
                Images(tmp_path).pixels(seeded(*size))
            continue
        assert_same(processor, tmp_path, seeded(*size), input_data_format="channels_last")


@pytest.mark.parametrize("kind", ["BlipImageProcessor", "ViTImageProcessor", "SegformerImageProcessor"])
def test_images_of_one_size_need_no_padding(kind, tmp_path):
    """Files of BLIP have do_pad and a size_divisor, which change nothing of a fixed size."""
    published = {"do_pad": True, "size_divisor": 32, "size": {"height": 40, "width": 40}}
    processor = judge(kind, tmp_path, **published)
    assert json.loads((tmp_path / FILE).read_text())["do_pad"] is True
    for size in SIZES:
        assert_same(processor, tmp_path, seeded(*size), input_data_format="channels_last")
    batch = [seeded(*size) for size in SIZES]
    expected = processor(batch, return_tensors="np", input_data_format="channels_last").pixel_values
    ours = np.concatenate([Images(tmp_path).pixels(image) for image in batch])
    np.testing.assert_array_equal(ours, expected)
    for settings in ({"do_resize": False}, {"pad_size": {"height": 50, "width": 50}}):
        write(tmp_path, image_processor_type=kind, do_pad=True, **settings)
        with pytest.raises(UnsupportedError, match="do_pad is not supported"):
            Images(tmp_path)


MEAN = {"image_mean": [0.1, 0.4, 0.8], "image_std": [0.2, 0.3, 0.9]}
CROP = {"do_center_crop": True, "crop_size": {"height": 40, "width": 41}}
SETTINGS = {
    **{f"filter {number}": {"resample": number} for number in range(6)},
    "wide": {"size": {"height": 30, "width": 70}},
    "an edge": {"size": {"shortest_edge": 33}, **CROP},
    "one number": {"size": 35, "do_center_crop": False},
    "one number a square": {"size": 35, "default_to_square": True, "do_center_crop": False},
    "one number an edge": {"size": 35, "default_to_square": False, "do_center_crop": False},
    "odd crop": {"do_resize": False, **CROP},
    "even crop": {"do_resize": False, "do_center_crop": True, "crop_size": 52},
    "large crop": {"do_resize": False, "do_center_crop": True, "crop_size": {"height": 301, "width": 230}},
    "mean of each channel": MEAN,
    "one mean": {"image_mean": 0.3, "image_std": 0.7},
    "other scale": {"rescale_factor": 1 / 127.5},
    "bytes": {"do_rescale": False, "do_normalize": False},
    "rescaled": {"do_normalize": False},
    "normalized": {"do_rescale": False, **MEAN},
}
# Of the largest by default: those sizes are of `test_a_file_that_is_silent_means_the_defaults`.
SMALLER = {
    "DonutImageProcessor": {"size": {"height": 128, "width": 96}},
    "Mask2FormerImageProcessor": {"size": {"shortest_edge": 80, "longest_edge": 130}},
    "MaskFormerImageProcessor": {"size": {"shortest_edge": 80, "longest_edge": 130}},
    "Sam2ImageProcessor": {"size": {"height": 90, "width": 90}},
    "SamImageProcessor": {"size": {"longest_edge": 90}, "pad_size": {"height": 301, "width": 301}},
}


@pytest.mark.parametrize("name", often([*SETTINGS], slower=[f"filter {number}" for number in (0, 1, 4, 5)]))
@pytest.mark.parametrize("kind", KINDS)
def test_settings(kind, name, tmp_path):
    processor = judge(kind, tmp_path, **SMALLER.get(kind, {}) | SETTINGS[name])
    if kind == "SamImageProcessor" and "size" in SETTINGS[name]:  # the original knows a longest edge alone
        with pytest.raises(UnsupportedError, match="expected longest_edge"):
            Images(tmp_path)
        return
    if kind == "ConvNextImageProcessor" and name in ("wide", "an edge", "one number a square"):
        with pytest.raises(UnsupportedError, match="expected shortest_edge and False"):
            Images(tmp_path)
        return
    of_two = ("YolosImageProcessor", "DetrImageProcessor", "GroundingDinoImageProcessor")
    of_two += ("DeformableDetrImageProcessor", "ConditionalDetrImageProcessor")
    edge = kind in of_two and name == "an edge"
    lone = name in ("an edge", "one number", "one number an edge")
    divided = kind.startswith("Mask") and (lone or name == "one number a square")
    if edge or divided or (kind == "RTDetrImageProcessor" and lone):
        with pytest.raises(UnsupportedError, match="expected height and width, or shortest_edge and longest"):
            Images(tmp_path)
        return
    if kind == "DPTImageProcessor" and ("edge" in name or "crop" in name):  # or its two halves differ
        with pytest.raises(UnsupportedError, match=r"expected height and width|do_center_crop is not"):
            Images(tmp_path)
        return
    if kind == "PixtralImageProcessor" and "crop" in name:  # without do_resize
        with pytest.raises(UnsupportedError, match="do_resize false is not supported for patches"):
            Images(tmp_path)
        return
    if kind == "LayoutLMv3ImageProcessor" and ("crop" in name or name == "an edge"):  # the original fails
        with pytest.raises(UnsupportedError, match="do_center_crop is not supported in LayoutLMv3"):
            Images(tmp_path)
        return
    framed = kind == "DonutImageProcessor" and ("edge" in name or "crop" in name)
    if framed or (kind in OF_SIDES and name in ("an edge", "one number an edge")):
        with pytest.raises(UnsupportedError, match=r"expected a height and a width|do_center_crop is not"):
            Images(tmp_path)
        return
    for size in SIZES[:5]:
        assert_same(processor, tmp_path, seeded(*size), input_data_format="channels_last")


@pytest.mark.parametrize("multiple", [1, 6, 14])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("side", [(90, 70), (42, 42), (518, 518)])
def test_edges_are_multiples(side, keep, multiple, tmp_path):
    sides = {"height": side[0], "width": side[1]}
    settings = {"size": sides, "keep_aspect_ratio": keep, "ensure_multiple_of": multiple}
    processor = judge("DPTImageProcessor", tmp_path, **settings)
    for size in [(37, 53), (53, 37), (225, 301), (300, 199), (42, 42), (21, 49)]:
        assert_same(processor, tmp_path, seeded(*size), input_data_format="channels_last")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ensure_multiple_of": 0}, "ensure_multiple_of 0 and keep_aspect_ratio False"),
        ({"keep_aspect_ratio": "yes"}, "expected a number from 1, and true or false"),
        ({"size": {"shortest_edge": 30}}, "expected height and width"),
        (CROP, "do_center_crop is not supported in DPTImageProcessor"),
    ],
)
def test_settings_of_multiples_that_are_none(settings, message, tmp_path):
    write(tmp_path, image_processor_type="DPTImageProcessor", **settings)
    with pytest.raises(UnsupportedError, match=message):
        Images(tmp_path)


@pytest.mark.parametrize("share", [0.875, 0.95, 1.0, 0.3])
@pytest.mark.parametrize("edge", [30, 224, 383, 384, 400])
def test_a_share_of_the_shorter_edge_is_cut_out(edge, share, tmp_path):
    """Squares from 384 pixels on are no crop: the image is resized in both directions."""
    processor = judge("ConvNextImageProcessor", tmp_path, size={"shortest_edge": edge}, crop_pct=share)
    for size in [(37, 53), (53, 37), (225, 301), (300, 199), (384, 384)]:
        assert_same(processor, tmp_path, seeded(*size), input_data_format="channels_last")


@pytest.mark.parametrize("share", [0, -1, 1.5, True, "most"])
def test_a_share_that_is_none(share, tmp_path):
    write(tmp_path, image_processor_type="ConvNextImageProcessor", crop_pct=share)
    with pytest.raises(UnsupportedError, match=r"crop_pct .* is not supported; expected a number above 0"):
        Images(tmp_path)


@pytest.mark.parametrize("size", [(37, 53), (53, 37), (300, 199), (225, 301)], ids=str)
@pytest.mark.parametrize("side", [60, 64, 1024])
def test_bytes_are_resized_as_pytorch_resizes_them(side, size, tmp_path):
    """SAM 2's processor resizes bytes by PyTorch: enlarged ones are equal, reduced ones off by one."""
    sides = {"height": side, "width": side}
    settings = {"size": sides, "do_rescale": False, "do_normalize": False}
    write(tmp_path, image_processor_type="Sam2ImageProcessorFast", **settings)
    draw = np.random.default_rng(3)
    image = draw.integers(0, 256, (*size, 3), np.uint8)
    values = torch.from_numpy(image).permute(2, 0, 1)[None]
    wanted = torch.nn.functional.interpolate(values, (side, side), mode="bilinear", antialias=True)
    off = np.abs(Images(tmp_path).pixels(image) - wanted.numpy())
    assert off.max() <= (1 if side < max(size) else 0)
    assert (off > 0).mean() < 0.4


@pytest.mark.parametrize("divisor", [1, 7, 16, 32])
def test_edges_are_rounded_down(divisor, tmp_path):
    processor = judge("GLPNImageProcessor", tmp_path, size_divisor=divisor)
    for size in SIZES:
        if min(size) >= divisor:
            assert_same(processor, tmp_path, seeded(*size), input_data_format="channels_last")


@pytest.mark.parametrize("divisor", [1, 5, 14, 32])
def test_edges_are_padded_around_to_multiples(divisor, tmp_path):
    settings = {"do_resize": False, "do_rescale": False, "do_pad": True, "size_divisor": divisor}
    processor = judge("DPTImageProcessor", tmp_path, **settings)
    for size in SIZES:
        assert_same(processor, tmp_path, seeded(*size), input_data_format="channels_last")


def test_edges_are_padded_to_multiples_of_no_number(tmp_path):
    write(tmp_path, image_processor_type="DPTImageProcessor", do_pad=True, size_divisor=0)
    with pytest.raises(UnsupportedError, match="size_divisor 0 is not supported; expected a number from 1"):
        Images(tmp_path)


def test_edges_are_rounded_to_no_number(tmp_path):
    write(tmp_path, image_processor_type="GLPNImageProcessor", size_divisor=0)
    with pytest.raises(UnsupportedError, match="size_divisor 0 is not supported; expected a number from 1"):
        Images(tmp_path)


@pytest.mark.parametrize("resample", [2, 3])
@pytest.mark.parametrize("size", [(48, 60), (30, 100), (90, 41)], ids=str)
def test_values_are_resized_as_pytorch_resizes_them(size, resample, tmp_path):
    """DINOv3 has no Pillow processor: bytes are scaled, resized with antialias, and then normalised."""
    image, mean, std = seeded(77, 50), [0.1, 0.4, 0.8], [0.2, 0.3, 0.9]
    sides = {"height": size[0], "width": size[1]}
    settings = {"size": sides, "resample": resample, "image_mean": mean, "image_std": std}
    write(tmp_path, image_processor_type="DINOv3ViTImageProcessorFast", **settings)
    scaled = torch.from_numpy(image).permute(2, 0, 1)[None] * (1 / 255)
    mode = {2: "bilinear", 3: "bicubic"}[resample]
    fitting = torch.nn.functional.interpolate(scaled, size, mode=mode, antialias=True)
    wanted = (fitting - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    found = Images(tmp_path).pixels(image)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted.numpy()).max() < 1e-5  # a byte's step is 0.004 and more


def test_dinov3_without_settings_is_normalised_as_imagenet(tmp_path):
    write(tmp_path, image_processor_type="DINOv3ViTImageProcessor", do_resize=False)
    image, own = seeded(20, 30), transformers.image_utils
    wanted = (image / 255 - own.IMAGENET_DEFAULT_MEAN) / own.IMAGENET_DEFAULT_STD
    assert np.abs(Images(tmp_path).pixels(image)[0].transpose(1, 2, 0) - wanted).max() < 1e-6


@pytest.mark.parametrize("size", [(37, 53), (53, 37), (225, 301), (64, 64), (3, 200)])
def test_images_are_padded_to_a_square(size, tmp_path):
    settings = {"size": {"longest_edge": 64}, "pad_size": {"height": 64, "width": 70}}
    processor = judge("SamImageProcessor", tmp_path, **settings)
    image = seeded(*size)
    assert_same(processor, tmp_path, image, input_data_format="channels_last")
    prepared = Images(tmp_path).prepared(image)
    [sides] = processor(image, return_tensors="np", input_data_format="channels_last").reshaped_input_sizes
    assert (prepared.rows, prepared.columns) == tuple(sides)
    assert (prepared.values[:, prepared.rows :] == 0).all()


def test_padding_smaller_than_the_image(tmp_path):
    write(tmp_path, image_processor_type="SamImageProcessor", pad_size={"height": 64, "width": 70})
    with pytest.raises(InputError, match="an image becomes 1024 x 512, expected at most 70 x 64"):
        Images(tmp_path).pixels(seeded(20, 40))


def test_sizes_as_older_files_write_them(tmp_path):
    for kind, said in (
        ("CLIPFeatureExtractor", 64),
        ("ViTFeatureExtractor", 64),
        ("ViTFeatureExtractor", [48, 64]),
    ):
        name = kind.replace("FeatureExtractor", "ImageProcessorPil")
        processor = getattr(transformers, name)(size=said, crop_size=50)
        write(tmp_path, feature_extractor_type=kind, size=said, crop_size=50)
        assert_same(processor, tmp_path, seeded(90, 101), input_data_format="channels_last")


@pytest.mark.parametrize("name", ["DeiTImageProcessorFast", "DeiTImageProcessorPil", "DeiTFeatureExtractor"])
def test_other_names_of_a_processor(name, tmp_path):
    images = Images(write(tmp_path, image_processor_type=name))
    processor = transformers.DeiTImageProcessorPil()
    image = Image.fromarray(seeded(90, 101))
    np.testing.assert_array_equal(images.pixels(image), processor(image, return_tensors="np").pixel_values)


def test_the_file_of_all_processors_counts(tmp_path):
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 60}, crop_size=48)
    tokenizer = transformers.CLIPTokenizer(vocab={"<|startoftext|>": 0, "<|endoftext|>": 1}, merges=[])
    transformers.CLIPProcessor(processor, tokenizer).save_pretrained(tmp_path)
    assert not (tmp_path / FILE).exists()
    write(tmp_path, image_processor_type="ViTImageProcessor")
    assert_same(processor, tmp_path, Image.fromarray(seeded(90, 101)))


def in_mode(mode: str, size=(90, 101)) -> Image.Image:
    """A PIL image of that mode; "P+" and "L+" have one transparent colour."""
    rgb = Image.fromarray(seeded(*size))
    if mode in ("RGBA", "LA", "PA"):
        rgb.putalpha(Image.fromarray(seeded(*size, seed=1)[..., 0]))
        return rgb if mode == "RGBA" else rgb.convert("LA").convert(mode)
    if mode == "I;16":
        return Image.fromarray(seeded(*size)[..., 0].astype(np.uint16) * 200)
    image = rgb.convert(mode[0] if mode.endswith("+") else mode)
    if mode.endswith("+"):
        image.info["transparency"] = int(np.asarray(image)[5, 5])
    return image


MODES = [
    "1",
    "L",
    "L+",
    "LA",
    "P",
    "P+",
    "PA",
    "RGB",
    "RGBA",
    "CMYK",
    "YCbCr",
    "HSV",
    "LAB",
    "I",
    "I;16",
    "F",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["CLIPImageProcessor", "BitImageProcessor"])
def test_modes_of_pil_images(kind, mode, tmp_path):
    assert_same(judge(kind, tmp_path, size=64, crop_size=50), tmp_path, in_mode(mode))


@pytest.mark.parametrize("mode", ["L", "P+", "RGBA", "CMYK"])
def test_a_processor_without_do_convert_rgb_sees_an_image_as_its_file(mode, tmp_path):
    """transformers refuses such an image; its path it takes."""
    judge("ViTImageProcessor", tmp_path)
    image, path = in_mode(mode), tmp_path / "image.tiff"
    image.save(path)
    images = Images(tmp_path)
    if mode != "P+":  # TIFF keeps no transparent colour, which is ignored here
        np.testing.assert_array_equal(images.pixels(image), images.pixels(path))
    plain = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(images.pixels(image), images.pixels(plain))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "P+", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("kind", ["ViTImageProcessor", "CLIPImageProcessor"])
def test_files(kind, mode, tmp_path):
    processor, path = judge(kind, tmp_path), tmp_path / "image.png"
    in_mode(mode).save(path)
    wanted = processor(str(path), return_tensors="np").pixel_values
    np.testing.assert_array_equal(Images(tmp_path).pixels(path), wanted)
    np.testing.assert_array_equal(Images(tmp_path).pixels(str(path)), wanted)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_turned_upright(orientation, tmp_path):
    processor = judge("CLIPImageProcessor", tmp_path)
    exif, path = Image.Exif(), str(tmp_path / "image.jpg")
    exif[0x0112] = orientation
    Image.fromarray(seeded(90, 131)).save(path, exif=exif)
    assert_same(processor, tmp_path, path)


def test_a_batch_is_its_images(tmp_path):
    processor = judge("DeiTImageProcessor", tmp_path)
    path = str(tmp_path / "image.png")
    in_mode("P").save(path)
    batch = [path, in_mode("RGB", (50, 60)), Image.fromarray(seeded(70, 40, seed=3))]
    assert_same(processor, tmp_path, batch)
    images = Images(tmp_path)
    found = images.pixels([*batch, seeded(31, 30)])
    assert found.shape == (4, 3, 224, 224)
    np.testing.assert_array_equal(found[3:], images.pixels(seeded(31, 30)))
    np.testing.assert_array_equal(found[:1], images.pixels(path))


def test_an_array_is_height_width_channels_whatever_its_sizes(tmp_path):
    processor = judge("ViTImageProcessor", tmp_path)
    assert_same(processor, tmp_path, seeded(3, 3), input_data_format="channels_last")
    turned = seeded(40, 50).transpose(1, 0, 2)
    assert_same(processor, tmp_path, turned, input_data_format="channels_last")


def test_images_of_different_sizes_are_no_batch(tmp_path):
    judge("ViTImageProcessor", tmp_path, size={"shortest_edge": 20})
    with pytest.raises(InputError, match=r"become \(20, 25\) and \(40, 20\) high and wide; give them one by"):
        Images(tmp_path).pixels([seeded(40, 50), seeded(80, 40)])


def damaged(folder):
    whole = folder / "whole.png"
    Image.fromarray(seeded(90, 101)).save(whole)
    (folder / "half.png").write_bytes(whole.read_bytes()[:9000])
    (folder / "text.png").write_text("no image")
    (folder / "none.png").write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("half.png", r"image .*half.png cannot be read: .*truncated"),
        ("text.png", r"image .*text.png cannot be read: it is in no format that Pillow knows"),
        ("none.png", r"image .*none.png cannot be read: it is empty"),
        (b"", r"image of 0 bytes cannot be read: it is empty"),
        ("gone.png", r"image .*gone.png cannot be read: .*No such file"),
        (".", r"cannot be read: .*"),
        (np.zeros((4, 4, 3)), r"an image is float64 \(4, 4, 3\), expected uint8 \(H, W, 3\)"),
        (np.zeros((4, 4), np.uint8), r"an image is uint8 \(4, 4\), expected"),
        (np.zeros((3, 4, 4), np.uint8), r"an image is uint8 \(3, 4, 4\), expected"),
        (np.zeros((0, 4, 3), np.uint8), r"an image is uint8 \(0, 4, 3\), expected"),
        (b"bytes", "image of 5 bytes cannot be read"),
        ([], "no image was given"),
    ],
)
def test_what_is_no_image(given, said, tmp_path):
    judge("ViTImageProcessor", damaged(tmp_path))
    with pytest.raises(InputError, match=said) as caught:
        Images(tmp_path).pixels(tmp_path / given if isinstance(given, str) else given)
    assert "\n" not in str(caught.value)


def test_an_address_is_no_file(tmp_path):
    judge("ViTImageProcessor", tmp_path)
    for source in ("https://example.com/a.png", Path("HTTP://example.com/a.png")):
        with pytest.raises(InputError, match="is an address on the web; download it, and give the file"):
            Images(tmp_path).pixels(source)


def test_a_pil_image_whose_file_is_cut_short(tmp_path):
    judge("CLIPImageProcessor", damaged(tmp_path))
    with Image.open(tmp_path / "half.png") as image, pytest.raises(InputError, match="truncated"):
        Images(tmp_path).pixels(image)


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        (
            {"image_processor_type": "OneFormerImageProcessor"},
            UnsupportedError,
            "OneFormerImageProcessor is not supported",
        ),
        ({"do_pad": True}, UnsupportedError, "do_pad is not supported"),
        ({"use_square_size": True}, UnsupportedError, "use_square_size is not supported"),
        ({"resample": 6}, UnsupportedError, "resample 6 is not supported"),
        ({"resample": "bicubic"}, UnsupportedError, "resample 'bicubic' is not supported"),
        ({"size": {"longest_edge": 20}}, UnsupportedError, "size {'longest_edge': 20} is not supported"),
        (
            {"size": {"shortest_edge": 9, "longest_edge": 20}},
            UnsupportedError,
            "is not supported; expected height",
        ),
        ({"size": {"height": 0, "width": 20}}, UnsupportedError, "size {'height': 0, 'width': 20} is not"),
        ({"size": "large"}, UnsupportedError, "size 'large' is not supported"),
        (
            {"crop_size": {"shortest_edge": 9}},
            UnsupportedError,
            "crop_size by shortest_edge is not supported",
        ),
        ({"do_resize": "no"}, BundleError, "do_resize is 'no', expected true or false"),
        ({"image_mean": [0.5, 0.5]}, BundleError, r"image_mean \[0.5, 0.5\], .*; expected a number"),
        ({"image_std": {"red": 1}}, BundleError, "image_std {'red': 1}"),
        ({"rescale_factor": [1]}, BundleError, r"rescale_factor \[1\]"),
        ({"image_processor_type": None}, BundleError, "image_processor_type is missing"),
        (
            {"image_processor_type": "DINOv3ViTImageProcessor", "do_center_crop": True, "crop_size": 9},
            UnsupportedError,
            "do_center_crop is not supported in DINOv3ViTImageProcessor",
        ),
    ],
)
def test_settings_that_are_refused(settings, error, said, tmp_path):
    write(tmp_path, **{"image_processor_type": "CLIPImageProcessor"} | settings)
    with pytest.raises(error, match=said):
        Images(tmp_path)


def test_a_folder_without_settings(tmp_path):
    with pytest.raises(BundleError, match=r"has no preprocessor_config\.json; save the image_processor with"):
        Images(tmp_path)
    (tmp_path / FILE).write_text("[]")
    with pytest.raises(BundleError, match="holds a list, expected a dict"):
        Images(tmp_path)
    (tmp_path / "processor_config.json").write_text('{"image_processor": "CLIP"}')
    with pytest.raises(BundleError, match="image_processor is a str, expected an object"):
        Images(tmp_path)


def test_without_pillow(tmp_path, monkeypatch):
    judge("ViTImageProcessor", tmp_path)
    images = Images(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingLibraryError, match=r"pip install '\.\[image\]'"):
        images.pixels("image.png")
