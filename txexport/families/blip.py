"""BLIP's captioner (Li et al. 2022, 3.1): a ViT, and a BERT that decodes while it attends to the patches."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal, _parts, bert, vit
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
    TextStackSpec,
)

TASKS = {"image-to-text": ("BlipForConditionalGeneration",)}
REFUSED = {
    "BlipForQuestionAnswering": "it has an encoder of questions too; export a captioner",
    "BlipForImageTextRetrieval": "it compares images with texts; export a captioner",
    "BlipModel": "it compares images with texts; export a captioner",
}

NAMING = Naming(parts={"text_decoder.": Naming("bert.", bert.NAMING.rename)})
VISION = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 384,
    "layer_norm_eps": 1e-5,
}
TEXT = {
    "vocab_size": 30524,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
}
START, END, PADDING = 30522, 102, 0


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    vision = config.table("vision_config").with_defaults(**VISION)
    images = vit.image_spec(vision, "image-feature-extraction", names, tokens=1).encoder
    base = text(config, names)
    stack = base.encoder
    assert isinstance(images, SignalStackSpec)
    assert isinstance(stack, TextStackSpec)
    wide = images.hidden_size

    def crossed(_: int, block: BlockSpec) -> BlockSpec:
        source = None if wide == stack.hidden_size else wide
        cross = replace(block.dense, causal=False, unmasked=True, source_size=source)
        return replace(block, attention=replace(block.dense, causal=True), cross_attention=cross)

    return EncoderDecoderSpec(
        encoder=images,
        decoder=_causal.each_layer(stack, crossed),
        head=replace(base.head, kind=HeadKind.CAUSAL_LM),
    )


def text(config: Config, names: TensorNames) -> EncoderSpec:
    """The decoder that text_config describes, as BERT's encoder with a masked LM head."""
    values = config.table("text_config").with_defaults(**TEXT)
    values.expect(is_decoder=True)
    plain = values.replaced(is_decoder=False, tie_word_embeddings=config.flag("tie_word_embeddings", True))
    position = PositionSpec(PositionKind.LEARNED, plain.integer("max_position_embeddings"))
    activation = plain.activation("hidden_act", "gelu")
    return bert.encoder_spec(plain, "fill-mask", names, position, activation, type_vocab_size=0)


def generation_settings(values: Mapping[str, Any]) -> dict[str, int]:
    """The ids with which the original begins, ends and pads a caption, whatever its other settings are."""
    table = values.get("text_config") or {}
    settings = {name: value for name, value in table.items() if value is not None}
    return {
        "decoder_start_token_id": settings.get("bos_token_id", START),
        "eos_token_id": settings.get("sep_token_id", END),
        "pad_token_id": settings.get("pad_token_id", PADDING),
    }


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    base = text(config, names)
    part: Table = bert.table(base)
    rules = _parts.decoder_rules(bert, base, part.rules, "text_decoder.")
    drop = tuple(f"text_decoder.{pattern}" for pattern in part.drop)
    return Table(rules | _vision_rules(), NAMING, (*drop, "vision_model.embeddings.position_ids"))


def _vision_rules() -> Rules:
    embeddings, layer = "vision_model.embeddings", "encoder.layers.{i}"
    source = "vision_model.encoder.layers.{i}"
    rules: Rules = {
        "encoder.embedding.tokens.0.weight": Take(f"{embeddings}.class_embedding", leading_axis=True),
        "encoder.embedding.position.weight": Take(f"{embeddings}.position_embedding", leading_axis=True),
        "encoder.embedding.project.*": f"{embeddings}.patch_embedding.*",
        "encoder.final_norm.*": "vision_model.post_layernorm.*",
        f"{layer}.attention.o.*": f"{source}.self_attn.projection.*",
        f"{layer}.attention_norm.*": f"{source}.layer_norm1.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layer_norm2.*",
    }
    for part, name in enumerate("qkv"):
        rules[f"{layer}.attention.{name}.*"] = Take(f"{source}.self_attn.qkv.*", part=part, parts=3)
    return rules
