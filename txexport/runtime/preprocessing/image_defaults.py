"""The defaults of image processors, as transformers has them."""

from typing import Any

from txexport.runtime.preprocessing.image_mosaics import CANVASES, LARGER_CANVASES
from txexport.runtime.preprocessing.image_sizes import Rounding

LANCZOS, BILINEAR, BICUBIC = 1, 2, 3  # as Pillow numbers them

PLAIN = {
    "do_convert_rgb": False,
    "do_resize": True,
    "default_to_square": True,
    "do_center_crop": False,
    "crop_size": None,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "do_pad": False,
    "use_square_size": False,
}
CROPPED = {"do_center_crop": True, "crop_size": {"height": 224, "width": 224}, "resample": BICUBIC}
CLIP = CROPPED | {
    "do_convert_rgb": True,
    "size": {"shortest_edge": 224},
    "default_to_square": False,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
SIGLIP = {
    "do_convert_rgb": True,
    "size": {"height": 224, "width": 224},
    "resample": BICUBIC,
    "default_to_square": False,
}
DINOV3 = {
    "size": {"height": 224, "width": 224},
    "resample": BILINEAR,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}
YOLOS = {
    "size": {"shortest_edge": 800, "longest_edge": 1333},
    "max_size": 1333,
    "resample": BILINEAR,
    "default_to_square": False,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "do_pad": True,
    "pad_size": None,
}
RT_DETR = {name: value for name, value in YOLOS.items() if name != "max_size"} | {
    "size": {"height": 640, "width": 640},
    "do_normalize": False,
    "do_pad": False,
}
MASKFORMER = {
    "size": {"shortest_edge": 800, "longest_edge": 1333},
    "size_divisor": 32,
    "resample": BILINEAR,
    "default_to_square": False,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "pad_size": None,
}
CONVNEXT = {
    "size": {"shortest_edge": 384},
    "resample": BICUBIC,
    "default_to_square": False,
    "crop_pct": 224 / 256,
}
DPT = {
    "size": {"height": 384, "width": 384},
    "resample": BICUBIC,
    "ensure_multiple_of": 1,
    "keep_aspect_ratio": False,
}
VITPOSE = {
    "size": {"height": 256, "width": 192},
    "resample": BILINEAR,
    "do_resize": False,
    "do_affine_transform": True,
    "normalize_factor": 200.0,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}
SIGLIP2 = {"size": None, "resample": BILINEAR, "patch_size": 16, "max_num_patches": 256}
GLPN = {"size": None, "size_divisor": 32, "resample": BILINEAR, "do_normalize": False}
SEGFORMER = {
    "size": {"height": 512, "width": 512},
    "resample": BILINEAR,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}
SAM = {
    "do_convert_rgb": True,
    "size": {"longest_edge": 1024},
    "resample": BILINEAR,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "do_pad": True,
    "pad_size": {"height": 1024, "width": 1024},
}
SAM2 = {
    "do_convert_rgb": True,
    "size": {"height": 1024, "width": 1024},
    "resample": BILINEAR,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}
OF_CLIP = {name: CLIP[name] for name in ("image_mean", "image_std", "resample", "do_convert_rgb")}
OWLVIT = OF_CLIP | {"size": {"height": 768, "width": 768}, "crop_size": {"height": 768, "width": 768}}
OWLV2 = OF_CLIP | {"size": {"height": 960, "width": 960}, "resample": BILINEAR, "do_pad": True}

IDEFICS3 = {
    "do_convert_rgb": True,
    "size": {"longest_edge": 4 * 364},
    "max_image_size": {"longest_edge": 364},
    "do_image_splitting": True,
    "resample": LANCZOS,
    "do_pad": True,
}

DONUT = {
    "do_convert_rgb": False,
    "size": {"height": 2560, "width": 1920},
    "resample": BILINEAR,
    "do_thumbnail": True,
    "do_align_long_axis": False,
    "do_pad": True,
}
QWEN2_VL = OF_CLIP | {
    "size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280},
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
}
MLLAMA = {
    "do_convert_rgb": True,
    "size": {"height": 224, "width": 224},
    "resample": BILINEAR,
    "do_pad": True,
    "max_image_tiles": 4,
}
PIXTRAL = OF_CLIP | {
    "size": {"longest_edge": 1024},
    "patch_size": {"height": 16, "width": 16},
    "do_pad": True,
}
LLAVA_NEXT = CLIP | {"do_pad": True, "image_grid_pinpoints": CANVASES}
LLAVA_ONEVISION = OF_CLIP | {"size": {"height": 384, "width": 384}, "crop_size": None, "do_pad": True}
LLAVA_ONEVISION["image_grid_pinpoints"] = LARGER_CANVASES
LFM2_VL = {
    "size": {"height": 512, "width": 512},
    "resample": BILINEAR,
    "encoder_patch_size": 16,
    "downsample_factor": 2,
    "min_image_tokens": 64,
    "max_image_tokens": 256,
    "tile_size": 512,
    "do_image_splitting": True,
    "min_tiles": 2,
    "max_tiles": 10,
    "use_thumbnail": True,
    "max_pixels_tolerance": 2.0,
    "do_pad": True,
}
GOT_OCR2 = CLIP | {
    "size": {"height": 384, "width": 384},
    "do_center_crop": False,
    "crop_to_patches": False,
    "min_patches": 1,
    "max_patches": 12,
}

# The defaults of each processor.
DEFAULTS: dict[str, dict[str, Any]] = {
    "ViTImageProcessor": PLAIN | {"size": {"height": 224, "width": 224}, "resample": BILINEAR},
    "LayoutLMv3ImageProcessor": PLAIN | {"size": {"height": 224, "width": 224}, "resample": BILINEAR},
    "BeitImageProcessor": PLAIN
    | {
        "size": {"height": 224, "width": 224},
        "resample": BICUBIC,
        "crop_size": {"height": 224, "width": 224},
    },
    "DeiTImageProcessor": PLAIN | CROPPED | {"size": {"height": 256, "width": 256}},
    "BitImageProcessor": PLAIN | CLIP,
    "CLIPImageProcessor": PLAIN | CLIP,
    "ChineseCLIPImageProcessor": PLAIN | CLIP,
    "SiglipImageProcessor": PLAIN | SIGLIP,
    "DINOv3ViTImageProcessor": PLAIN | DINOV3,
    "YolosImageProcessor": PLAIN | YOLOS,
    "DetrImageProcessor": PLAIN | YOLOS,
    "GroundingDinoImageProcessor": PLAIN | YOLOS,
    "DeformableDetrImageProcessor": PLAIN | YOLOS,
    "ConditionalDetrImageProcessor": PLAIN | YOLOS,
    "RfDetrImageProcessor": PLAIN | YOLOS,
    "RTDetrImageProcessor": PLAIN | RT_DETR,
    "DPTImageProcessor": PLAIN | DPT,
    "MaskFormerImageProcessor": PLAIN | MASKFORMER,
    "GLPNImageProcessor": PLAIN | GLPN,
    "VitPoseImageProcessor": PLAIN | VITPOSE,
    "Mask2FormerImageProcessor": PLAIN | MASKFORMER,
    "Siglip2ImageProcessor": PLAIN | SIGLIP2,
    "SamImageProcessor": PLAIN | SAM,
    "Sam2ImageProcessor": PLAIN | SAM2,
    "SegformerImageProcessor": PLAIN | SEGFORMER,
    "ConvNextImageProcessor": PLAIN | CONVNEXT,
    "OwlViTImageProcessor": PLAIN | OWLVIT,
    "Owlv2ImageProcessor": PLAIN | OWLV2,
    "Idefics3ImageProcessor": PLAIN | IDEFICS3,
    "SmolVLMImageProcessor": PLAIN | IDEFICS3,
    "GotOcr2ImageProcessor": PLAIN | GOT_OCR2,
    "DonutImageProcessor": PLAIN | DONUT,
    "Qwen2VLImageProcessor": PLAIN | QWEN2_VL,
    "LlavaNextImageProcessor": PLAIN | LLAVA_NEXT,
    "LlavaOnevisionImageProcessor": PLAIN | LLAVA_ONEVISION,
    "Lfm2VlImageProcessor": PLAIN | LFM2_VL,
    "MllamaImageProcessor": PLAIN | MLLAMA,
    "PixtralImageProcessor": PLAIN | PIXTRAL,
    "Gemma3ImageProcessor": PLAIN | SIGLIP | {"resample": BILINEAR, "do_pan_and_scan": False},
    "BlipImageProcessor": PLAIN | OF_CLIP | {"size": {"height": 384, "width": 384}},
}
# Processors with a longest edge, and how they round edges.
BOUNDED = {
    "YolosImageProcessor": Rounding(16, narrow=False),
    "DetrImageProcessor": Rounding(),
    "GroundingDinoImageProcessor": Rounding(),
    "DeformableDetrImageProcessor": Rounding(),
    "ConditionalDetrImageProcessor": Rounding(),
    "RfDetrImageProcessor": Rounding(),
    "RTDetrImageProcessor": Rounding(),
    "MaskFormerImageProcessor": Rounding(up=True),
    "Mask2FormerImageProcessor": Rounding(up=True),
}
SQUARED = {"Owlv2ImageProcessor"}  # processors that pad to squares, and resize behind a blur
PADDED = {"SamImageProcessor"}  # processors of a longest edge alone, which pad
PACKED = {"Qwen2VLImageProcessor"}  # processors that pack patches of images of any size
TILED = {"Idefics3ImageProcessor", "SmolVLMImageProcessor"}  # processors that cut images into tiles
MOSAICS = {"LlavaNextImageProcessor", "LlavaOnevisionImageProcessor"}  # processors that pad tiles of a batch
SPLITTING = {"Lfm2VlImageProcessor"}  # processors that split large images into tiles of patches
CANVASED = {"MllamaImageProcessor"}  # processors that cut images into tiles, which they pad
FITTING = {"PixtralImageProcessor"}  # processors of images of any size, which pad those of a batch
# What do_pad means for each.
OWN_PADDING = PADDED | SQUARED | TILED | MOSAICS | SPLITTING | FITTING | CANVASED | {"DonutImageProcessor"}
BOXED = {"VitPoseImageProcessor"}  # processors that read boxes, each cut out and turned to one size
# Processors that interpolate logits of masks first, to this height and width.
MASK_SIZES = {"Mask2FormerImageProcessor": (384, 384)}
# Processors that keep this number of pairs of an object and a label; others as many as queries.
MOST_PAIRS = {"DeformableDetrImageProcessor": 100, "ConditionalDetrImageProcessor": 100}
PATCHED = {"Siglip2ImageProcessor"}  # processors that cut images into patches
# Processors that ignore do_center_crop.
WITHOUT_CROP = {
    "MaskFormerImageProcessor",
    "Mask2FormerImageProcessor",
    "Siglip2ImageProcessor",
    "VitPoseImageProcessor",
    "GLPNImageProcessor",
    "Qwen2VLImageProcessor",
    "YolosImageProcessor",
    "DetrImageProcessor",
    "GroundingDinoImageProcessor",
    "DeformableDetrImageProcessor",
    "ConditionalDetrImageProcessor",
    "RfDetrImageProcessor",
    "RTDetrImageProcessor",
    "SegformerImageProcessor",
    "Owlv2ImageProcessor",
    "GotOcr2ImageProcessor",
    "Gemma3ImageProcessor",
    "Idefics3ImageProcessor",
    "SmolVLMImageProcessor",
    "Lfm2VlImageProcessor",
    "MllamaImageProcessor",
}
# Processors that transformers has for torchvision alone, whose bytes may be one off those of Pillow.
WITHOUT_PILLOW = {"Sam2ImageProcessor", "Lfm2VlImageProcessor"}
# Processors that resize scaled bytes, linearly between their centres alone, and then normalise.
UNFILTERED = {"RfDetrImageProcessor"}
RESIZED_AS_VALUES = {"DINOv3ViTImageProcessor"}  # processors that normalise before they resize
