"""Image processors by name: that of a checkpoint's settings, or of its model type."""

from collections.abc import Mapping
from typing import Any

from txexport.errors import BundleError, UnsupportedError
from txexport.runtime.preprocessing.image_defaults import DEFAULTS

# The processor by model type, for files that name none.
BY_MODEL = {
    "gemma3": "Gemma3ImageProcessor",
    "mllama": "MllamaImageProcessor",
    "mistral3": "PixtralImageProcessor",
    "lfm2_vl": "Lfm2VlImageProcessor",
    "paligemma": "SiglipImageProcessor",
    "colpali": "SiglipImageProcessor",
    "colqwen2": "Qwen2VLImageProcessor",
    "llava_next": "LlavaNextImageProcessor",
    "llava_onevision": "LlavaOnevisionImageProcessor",
    "florence2": "CLIPImageProcessor",
    "blip": "BlipImageProcessor",
    "donut-swin": "DonutImageProcessor",
    "internvl": "GotOcr2ImageProcessor",
    "qwen2_vl": "Qwen2VLImageProcessor",
    "qwen2_5_vl": "Qwen2VLImageProcessor",
    "qwen3_5": "Qwen2VLImageProcessor",
    "qwen3_5_moe": "Qwen2VLImageProcessor",
    "qwen3_vl": "Qwen2VLImageProcessor",
    "qwen3_vl_moe": "Qwen2VLImageProcessor",
    "idefics3": "Idefics3ImageProcessor",
    "smolvlm": "SmolVLMImageProcessor",
    "llava": "CLIPImageProcessor",
    "layoutlmv3": "LayoutLMv3ImageProcessor",
    "vit": "ViTImageProcessor",
    "vit_msn": "ViTImageProcessor",
    "vit_mae": "ViTImageProcessor",
    "ijepa": "ViTImageProcessor",
    "beit": "BeitImageProcessor",
    "data2vec-vision": "BeitImageProcessor",
    "deit": "DeiTImageProcessor",
    "dinov2": "BitImageProcessor",
    "dinov2_with_registers": "BitImageProcessor",
    "dinov3_vit": "DINOv3ViTImageProcessor",
    "yolos": "YolosImageProcessor",
    "detr": "DetrImageProcessor",
    "table-transformer": "DetrImageProcessor",
    "grounding-dino": "GroundingDinoImageProcessor",
    "deformable_detr": "DeformableDetrImageProcessor",
    "lw_detr": "DeformableDetrImageProcessor",
    "conditional_detr": "ConditionalDetrImageProcessor",
    "rf_detr": "RfDetrImageProcessor",
    "rt_detr": "RTDetrImageProcessor",
    "rt_detr_v2": "RTDetrImageProcessor",
    "maskformer": "MaskFormerImageProcessor",
    "mask2former": "Mask2FormerImageProcessor",
    "sam": "SamImageProcessor",
    "sam2": "Sam2ImageProcessor",
    "sam2_video": "Sam2ImageProcessor",
    "segformer": "SegformerImageProcessor",
    "upernet": "SegformerImageProcessor",
    "resnet": "ConvNextImageProcessor",
    "convnext": "ConvNextImageProcessor",
    "convnextv2": "ConvNextImageProcessor",
    "vitpose": "VitPoseImageProcessor",
    "siglip2": "Siglip2ImageProcessor",
    "glpn": "GLPNImageProcessor",
    "depth_anything": "DPTImageProcessor",
    "dpt": "DPTImageProcessor",
    "hiera": "BitImageProcessor",
    "swin": "ViTImageProcessor",
    "swinv2": "ViTImageProcessor",
    "chinese_clip": "ChineseCLIPImageProcessor",
    "clip": "CLIPImageProcessor",
    "clipseg": "ViTImageProcessor",
    "clip_vision_model": "CLIPImageProcessor",
    "owlvit": "OwlViTImageProcessor",
    "owlv2": "Owlv2ImageProcessor",
    "siglip": "SiglipImageProcessor",
    "siglip_vision_model": "SiglipImageProcessor",
}


def processor(settings: Mapping[str, Any], model_type: str) -> str:
    """The image processor that `settings` name, in the new form or the old one, or the model type's default.

    Raises BundleError where nothing names one, UnsupportedError for one that is not in DEFAULTS.
    """
    name = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    name = name or BY_MODEL.get(model_type)
    if name is None:
        raise BundleError(
            "image processor: image_processor_type is missing in preprocessor_config.json, so nothing says "
            f"which it is; expected {', '.join(DEFAULTS)}"
        )
    kind = str(name).replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast").removesuffix("Pil")
    if kind not in DEFAULTS:
        raise UnsupportedError(f"image processor {name} is not supported; expected {', '.join(DEFAULTS)}")
    return kind
