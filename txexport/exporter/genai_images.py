"""The settings of onnxruntime-genai for a decoder that reads images of any size among its tokens."""

from collections.abc import Mapping
from typing import Any

from txexport.contracts import names, roles
from txexport.errors import TxexportError
from txexport.runtime.preprocessing.image_defaults import BICUBIC, DEFAULTS, PACKED
from txexport.runtime.preprocessing.image_packing import packing_of
from txexport.runtime.preprocessing.image_processors import processor
from txexport.spec import VisionLanguageSpec

# The model type in genai_config.json, for the families that were tried with onnxruntime-genai
TYPES = {
    "qwen2_vl": "qwen2_5_vl",
    "qwen2_5_vl": "qwen2_5_vl",
    "qwen3_5": "qwen3_5",
    "qwen3_5_moe": "qwen3_5_moe",
}
PROCESSOR = "genai_processor.json"  # processor_config.json, its default, is a file of transformers
TOKENS = {"vision_start_token_id": 151652, "video_token_id": 151656}  # the defaults of transformers
TOKENS_OF_3_5 = {"vision_start_token_id": 248053, "video_token_id": 248057}


def image_processor(settings: Mapping[str, Any], model_type: str) -> dict[str, Any] | None:
    """The steps of onnxruntime-extensions that an image processor's `settings` describe.

    None for settings that they cannot follow, and for other families.
    """
    if model_type not in TYPES:
        return None
    values = {name: value for name, value in settings.items() if value is not None}
    try:
        kind = processor(values, model_type)
        values = DEFAULTS[kind] | values
        packing = packing_of(values) if kind in PACKED else None
    except TxexportError:  # for which txexport does not read images either
        return None
    steps = values["do_resize"] and values["do_rescale"] and values["do_normalize"]
    if packing is None or not steps or values["resample"] != BICUBIC:
        return None
    square = {"patch_size": packing.side, "merge_size": packing.merged}
    bounds = {"min_pixels": packing.least, "max_pixels": packing.most}
    edges = dict.fromkeys(("width", "height"), packing.side * packing.merged)  # required, and not read
    mean_and_std = {"mean": values["image_mean"], "std": values["image_std"]}
    operations: dict[str, dict[str, Any]] = {
        "DecodeImage": {"color_space": "RGB"},
        "ConvertRGB": {},
        "Resize": {**edges, "smart_resize": 1, **bounds, **square},
        "Rescale": {"rescale_factor": values["rescale_factor"]},
        "Normalize": {**mean_and_std, "qwen2_5_vl": 1},
        "PatchImage": {**square, "temporal_patch_size": packing.frames},
    }
    transforms = [
        {"operation": {"name": kind.lower(), "type": kind, "attrs": attributes}}
        for kind, attributes in operations.items()
    ]
    return {"processor": {"name": "images", "transforms": transforms}}


def image_graphs(
    spec: VisionLanguageSpec,
    model_type: str,
    config: Mapping[str, Any],
    files: Mapping[str, str],
    session: dict[str, Any],
    stack: Mapping[str, Any],
) -> dict[str, Any]:
    """The graphs of images and of tokens, and the tokens by which it computes 3D positions.

    `files` are the graphs by role, `session` has the options of every session, and `stack` the sizes of the
    decoder and the names of its states.
    """
    packed = spec.vision.packed
    assert packed is not None
    pixels = (names.PIXEL_VALUES, names.IMAGE_GRIDS)
    tokens = (names.INPUT_IDS, names.IMAGE_FEATURES)
    step = _named((names.INPUTS_EMBEDS, names.ATTENTION_MASK, names.POSITION_IDS), (names.LOGITS,))
    vision = {
        "filename": files.get(roles.GENAI_VISION, files[roles.IMAGE_ENCODER]),
        **session,
        "config_filename": PROCESSOR,
        "patch_size": packed.patch_size,
        "spatial_merge_size": packed.merged,
        **_named(pixels, (names.IMAGE_FEATURES,)),
    }
    embedding = {
        "filename": files[roles.EMBEDDING],
        **session,
        **_named(tokens, (names.INPUTS_EMBEDS,)),
    }
    ports = {side: step[side] | stack.get(side, {}) for side in step}
    decoder = {"filename": files[roles.DECODER_MERGED], **session, **stack, **ports}
    usual = TOKENS_OF_3_5 if model_type.startswith("qwen3_5") else TOKENS
    return {
        "type": TYPES[model_type],
        "image_token_id": spec.image_token_id,
        **{name: config.get(name, token) for name, token in usual.items()},
        "vision": vision,
        "embedding": embedding,
        "decoder": decoder,
    }


def _named(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Inputs and outputs of a graph, which it knows by the same names."""
    return {"inputs": {name: name for name in inputs}, "outputs": {name: name for name in outputs}}
