"""OWL-ViT (Minderer et al. 2022): CLIP's encoders; each patch is an object that a text may describe."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import clip
from txexport.families._config import Config, TensorNames
from txexport.spec import NormSpec, OpenVocabularySpec

TASKS = {"zero-shot-object-detection": ("OwlViTForObjectDetection",)}

NAMING = Naming()
PREFIX = "owlvit."


def spec(config: Config, task: str, names: TensorNames) -> OpenVocabularySpec:
    """The architecture that config.json describes."""
    return described(config, patch_size=32)


def described(config: Config, patch_size: int) -> OpenVocabularySpec:
    """The architecture, with the library's default of the patch size."""
    text = clip.tower(config, "text_config").with_defaults(max_position_embeddings=16)
    vision = clip.tower(config, "vision_config").with_defaults(image_size=768, patch_size=patch_size)
    texts, images = clip.text_stack(text), clip.vision_stack(vision)
    size = config.integer("projection_dim", 512)
    if size != texts.hidden_size:
        raise UnsupportedError(
            f"{config.path}: projection_dim is {size}, text_config's hidden_size {texts.hidden_size}; the "
            "original compares only vectors of equal size"
        )
    norm = NormSpec(images.hidden_size, vision.number("layer_norm_eps", 1e-5))
    return OpenVocabularySpec(texts, images, size, norm)


def table(spec: OpenVocabularySpec, prefix: str = PREFIX) -> Table:
    """Map parameters to the tensor names of transformers, those of the encoders behind a prefix."""
    rules: Rules = clip.text_rules("text", f"{prefix}text_model.")
    rules |= clip.vision_rules("vision", f"{prefix}vision_model.")
    rules |= {
        "vision.embedding.norm.*": Take(
            f"{prefix}vision_model.pre_layernorm.*", fallback=f"{prefix}vision_model.pre_layrnorm.*"
        ),
        "vision.final_norm.*": f"{prefix}vision_model.post_layernorm.*",
        "text_projection.*": f"{prefix}text_projection.*",
        "objects.norm.*": "layer_norm.*",
        "descriptions.project.*": "class_head.dense0.*",
        "descriptions.shift.*": "class_head.logit_shift.*",
        "descriptions.scale.*": "class_head.logit_scale.*",
    }
    for number in range(3):
        rules[f"objects.box.{number}.*"] = f"box_head.dense{number}.*"
    unread = (f"{prefix}visual_projection.*", f"{prefix}logit_scale", "box_bias")
    return Table(rules, NAMING, (*unread, "*.position_ids", "objectness_head.*"))
