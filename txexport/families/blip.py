"""BLIP (Li et al. 2022, 3.1): a ViT, and a BERT that decodes while it attends to the patches.

To answer questions (5.3), a second BERT reads the question and attends to the patches, and the decoder
attends to the question.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
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

QUESTIONS = "image-text-to-text"
TASKS = {
    "image-to-text": ("BlipForConditionalGeneration",),
    QUESTIONS: ("BlipForQuestionAnswering",),
}
REFUSED = {
    "BlipForImageTextRetrieval": "it compares images with texts; export a captioner",
    "BlipModel": "it compares images with texts; export a captioner",
}

NAMING = Naming(
    parts={
        "text_decoder.": Naming("bert.", bert.NAMING.rename),
        "text_encoder.": Naming(rename=bert.NAMING.rename),
    }
)
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
# The parts of a decoder's table that an encoder of questions has too, and our names for these.
ENCODING = {"decoder": "encoder", "cross": "seen"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    vision = config.table("vision_config").with_defaults(**VISION)
    images = vit.image_spec(vision, "image-feature-extraction", names, tokens=1).encoder
    base = text(config, names)
    stack = base.encoder
    assert isinstance(images, SignalStackSpec)
    assert isinstance(stack, TextStackSpec)
    wide, answers = images.hidden_size, task == QUESTIONS
    if answers and wide != stack.hidden_size:  # keys and values of the question have the width of the image
        raise UnsupportedError(
            f"{config.path}: vision_config.hidden_size is {wide} and text_config.hidden_size "
            f"{stack.hidden_size}; answers to questions need equal ones"
        )

    def crossed(block: BlockSpec, causal: bool, unmasked: bool) -> BlockSpec:
        source = None if wide == stack.hidden_size else wide
        cross = replace(block.dense, causal=False, unmasked=unmasked, source_size=source)
        return replace(block, attention=replace(block.dense, causal=causal), cross_attention=cross)

    decoder = _causal.each_layer(stack, lambda _, block: crossed(block, True, not answers))
    head = replace(base.head, kind=HeadKind.CAUSAL_LM)
    if not answers:
        return EncoderDecoderSpec(images, decoder, head)
    questions = _causal.each_layer(stack, lambda _, block: crossed(block, False, True))
    return EncoderDecoderSpec(questions, decoder, head, vision=images)


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
    drop = [f"text_decoder.{pattern}" for pattern in part.drop]
    if task == QUESTIONS:
        for key, rule in _parts.decoder_rules(bert, base, part.rules, "text_encoder.").items():
            stack, _, rest = key.partition(".")
            if stack in ENCODING:
                rules[f"{ENCODING[stack]}.{rest}"] = rule
        drop += [f"text_encoder.{pattern}" for pattern in part.drop]
    vision = _vision_rules("vision" if task == QUESTIONS else "encoder")
    return Table(rules | vision, NAMING, (*drop, "vision_model.embeddings.position_ids"))


def _vision_rules(stack: str) -> Rules:
    embeddings, layer = "vision_model.embeddings", f"{stack}.layers.{{i}}"
    source = "vision_model.encoder.layers.{i}"
    rules: Rules = {
        f"{stack}.embedding.tokens.0.weight": Take(f"{embeddings}.class_embedding", leading_axis=True),
        f"{stack}.embedding.position.weight": Take(f"{embeddings}.position_embedding", leading_axis=True),
        f"{stack}.embedding.project.*": f"{embeddings}.patch_embedding.*",
        f"{stack}.final_norm.*": "vision_model.post_layernorm.*",
        f"{layer}.attention.o.*": f"{source}.self_attn.projection.*",
        f"{layer}.attention_norm.*": f"{source}.layer_norm1.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layer_norm2.*",
    }
    for part, name in enumerate("qkv"):
        rules[f"{layer}.attention.{name}.*"] = Take(f"{source}.self_attn.qkv.*", part=part, parts=3)
    return rules
