"""Gemma 3 with images (Gemma Team 2025, 2.1): pooled vectors of SigLIP among the tokens of Gemma 3."""

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _pictured, siglip
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    ConnectorSpec,
    Mutual,
    NormKind,
    NormSpec,
    PatchSpec,
    SignalStackSpec,
    VisionLanguageSpec,
)

TASKS = {"image-text-to-text": ("Gemma3ForConditionalGeneration",)}

NAMING = _pictured.NAMING
ALIASES = {
    "image_token_id": "image_token_index",
    "boi_token_id": "boi_token_index",
    "eoi_token_id": "eoi_token_index",
}
TEXT = "gemma3_text"


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    config.table("text_config").expect(final_logit_softcapping=None)  # which the class does not read
    vision, (_, text) = tower(config), _pictured.decoder(config, names, TEXT, ties=True)
    patches, count = vision.embedding, config.integer("mm_tokens_per_image", 256)
    assert isinstance(patches, PatchSpec)
    assert vision.final_norm is not None
    rows, columns = patches.grid
    side = round(count**0.5)
    if side < 1 or side**2 != count or rows != columns or rows % side:
        raise UnsupportedError(
            f"{config.path}: mm_tokens_per_image is {count} for {rows} x {columns} patches, expected the "
            "square of a number that divides both"
        )
    connector = ConnectorSpec(
        hidden_size=vision.hidden_size,
        size=text.decoder.hidden_size,
        grid=patches.grid,
        bias=False,
        merged=rows // side,
        norm=NormSpec(vision.hidden_size, vision.final_norm.eps, NormKind.RMS),
        pooled=True,
    )
    token = config.integer("image_token_index", 262144)
    return VisionLanguageSpec(vision, connector, text.decoder, text.head, token, mutual=Mutual.IMAGE)


def tower(config: Config) -> SignalStackSpec:
    """The image encoder."""
    return siglip.vision_stack(siglip.vision_config(config.table("vision_config")))


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    family, text = _pictured.decoder(config, names, TEXT, ties=True)
    rules, drop = _pictured.decoder_rules(family, text, _pictured.TEXT)
    images, later = _pictured.tower_rules(tower(config), _pictured.TOWER)
    return Table(rules | images | CONNECTOR, NAMING, (*drop, *later))


CONNECTOR: Rules = {
    "connector.norm.*": Take("multi_modal_projector.mm_soft_emb_norm.*", plus=1.0),
    "connector.project.weight": Take("multi_modal_projector.mm_input_projection_weight", transpose=True),
}
