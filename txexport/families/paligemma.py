"""PaliGemma (Beyer et al. 2024) and PaliGemma 2: SigLIP's patches before the tokens of Gemma."""

from types import ModuleType

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _pictured, siglip
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    ConnectorSpec,
    DecoderSpec,
    Mutual,
    PatchSpec,
    SignalStackSpec,
    VisionLanguageSpec,
)

TASKS = {"image-text-to-text": ("PaliGemmaForConditionalGeneration",)}

REFUSED = {
    "ColPali": "it is a model of colpali-engine; export the one converted for transformers, such as "
    "vidore/colpali-v1.3-hf"
}
NAMING = _pictured.NAMING
ALIASES = {"image_token_id": "image_token_index"}
TEXT = "gemma"
# What config.json means where it describes no image encoder or no decoder.
SO400M = {
    "intermediate_size": 4096,
    "hidden_size": 1152,
    "patch_size": 14,
    "image_size": 224,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
}
GEMMA_2B = {
    "hidden_size": 2048,
    "num_hidden_layers": 18,
    "intermediate_size": 16384,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "vocab_size": 257152,
}
CONNECTOR: Rules = {"connector.project.*": "multi_modal_projector.linear.*"}


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    vision, (_, text) = tower(config), decoder(config, names)
    patches = vision.embedding
    assert isinstance(patches, PatchSpec)
    connector = ConnectorSpec(
        hidden_size=vision.hidden_size, size=config.integer("projection_dim", 2048), grid=patches.grid
    )
    token = config.integer("image_token_index", 256000)
    return VisionLanguageSpec(vision, connector, text.decoder, text.head, token, mutual=Mutual.PREFIX)


def decoder(config: Config, names: TensorNames) -> tuple[ModuleType, DecoderSpec]:
    """The decoder, whose use_bidirectional_attention transformers sets: it is about prompts alone."""
    text = config.with_defaults(text_config=GEMMA_2B).table("text_config").values
    text = {**text, "use_bidirectional_attention": False}
    return _pictured.decoder(config.replaced(text_config=text), names, TEXT, ties=True)


def tower(config: Config) -> SignalStackSpec:
    """The image encoder."""
    return siglip.vision_stack(
        siglip.vision_config(config.with_defaults(vision_config=SO400M).table("vision_config"))
    )


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    family, text = decoder(config, names)
    rules, drop = _pictured.decoder_rules(family, text, _pictured.TEXT)
    images, later = _pictured.tower_rules(tower(config), _pictured.TOWER)
    return Table(rules | images | CONNECTOR, NAMING, (*drop, *later))
