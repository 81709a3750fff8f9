"""Grounding DINO (Liu et al. 2023): objects in images that the phrases of one text describe."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import bert, maskformer, swin
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    GroundedSpec,
    GroupNormSpec,
    NormSpec,
    PositionKind,
    PositionSpec,
    QueryLayersSpec,
    StagedStackSpec,
    TextStackSpec,
)

TASKS = {"zero-shot-object-detection": ("GroundingDinoForObjectDetection",)}
NAMING = Naming()
REFUSED = {
    "GroundingDinoModel": "its queries are no result of a task; expected GroundingDinoForObjectDetection"
}
ALIASES = {"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads"}

GROUPS, EPS = 32, 1e-5  # of the norms of maps
SEPARATORS = (101, 102, 1012, 1029)  # ids of [CLS], [SEP], "." and "?", after which a phrase ends
DEFAULTS = {
    "d_model": 256,
    "encoder_layers": 6,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "encoder_n_points": 4,
    "decoder_layers": 6,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 2048,
    "decoder_n_points": 4,
    "num_feature_levels": 4,
    "num_queries": 900,
    "max_text_len": 256,
    "positional_embedding_temperature": 20,
    "layer_norm_eps": 1e-5,
}
TEXT = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}
BACKBONE, TEXTS = "model.backbone.conv_encoder.model", "model.text_backbone"


def spec(config: Config, task: str, names: TensorNames) -> GroundedSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**DEFAULTS)
    config.expect(
        two_stage=True,
        tie_word_embeddings=True,  # of all layers' heads
        embedding_init_target=True,
        position_embedding_type="sine",
        query_dim=4,
        use_timm_backbone=False,
    )
    width, eps = config.integer("d_model"), config.number("layer_norm_eps")
    config.check_width("d_model", width)
    if width % GROUPS:
        raise UnsupportedError(
            f"{config.path}: d_model is {width}, expected a multiple of {GROUPS}, the groups of norms"
        )
    vision = _vision(config)
    levels = config.integer("num_feature_levels")
    if levels < 2 or levels < sum(stage.map_norm is not None for stage in vision.stages):
        raise UnsupportedError(
            f"{config.path}: num_feature_levels is {levels}; expected 2 or more, and no fewer than maps of "
            "the backbone"
        )
    return GroundedSpec(
        text=_text(config, names),
        vision=vision,
        levels=levels,
        map_norm=GroupNormSpec(width, GROUPS, EPS),
        norm=NormSpec(width, eps),
        activation=config.activation("activation_function", "relu"),
        cells=_layers(config, "encoder"),
        cell_points=config.integer("encoder_n_points"),
        objects=_layers(config, "decoder"),
        object_points=config.integer("decoder_n_points"),
        queries=config.integer("num_queries"),
        text_length=config.integer("max_text_len"),
        separators=SEPARATORS,
        temperature=config.number("positional_embedding_temperature"),
        shared_boxes=config.flag("decoder_bbox_embed_share", True),
    )


def _layers(config: Config, part: str) -> QueryLayersSpec:
    """The layers of the encoder or of the decoder."""
    heads, inner = config.integer(f"{part}_attention_heads"), config.integer(f"{part}_ffn_dim")
    return QueryLayersSpec(config.count(f"{part}_layers"), heads, inner)


def _text(config: Config, names: TensorNames) -> TextStackSpec:
    """BERT without its pooler."""
    text = config.table("text_config").with_defaults(**TEXT)
    text.expect(model_type="bert")
    position = PositionSpec(PositionKind.LEARNED, text.integer("max_position_embeddings"))
    activation = text.activation("hidden_act", "gelu")
    stack = bert.encoder_spec(text, "feature-extraction", names, position, activation).encoder
    assert isinstance(stack, TextStackSpec)
    return stack


def _vision(config: Config) -> StagedStackSpec:
    """Swin, with norms of the maps that are read."""
    backbone = config.table("backbone_config").with_defaults(model_type="swin")
    backbone.expect(model_type="swin", use_absolute_embeddings=False)
    stages = [maskformer.stage(one) for one in swin.stages(backbone)]
    every = [f"stage{number + 1}" for number in range(len(stages))]
    features = backbone.strings("out_features") if "out_features" in backbone.values else []
    if not features:
        read = backbone.integers("out_indices") if backbone.values.get("out_indices") else [2, 3, 4]
        features = [f"stage{number}" for number in read]
    if not features or features != [name for name in every if name in features] or every[-1] not in features:
        raise UnsupportedError(
            f"{config.path}: the backbone's out_features are {shortened(features)}; expected some of "
            f"{', '.join(every)} in this order, the last among them"
        )
    kept_norms = (
        stage if name in features else replace(stage, map_norm=None)
        for name, stage in zip(every, stages, strict=True)
    )
    return StagedStackSpec(swin.patch_grid(backbone), tuple(kept_norms))


def table(spec: GroundedSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {
        ours.replace("encoder.", "text.", 1): f"{TEXTS}.{theirs}"
        for ours, theirs in bert.stack_rules().items()
        if isinstance(theirs, str) and ours.startswith("encoder.")
    }
    rules |= {
        ours.replace("encoder.", "vision.", 1): f"{BACKBONE}.{theirs}"
        for ours, theirs in swin.stack_rules(spec.vision).items()
        if isinstance(theirs, str)
    }
    for number, stage in enumerate(spec.vision.stages):
        if stage.map_norm is not None:
            rules[f"vision.map_norms.{number}.*"] = f"{BACKBONE}.hidden_states_norms.stage{number + 1}.*"
    rules |= {
        "text_projection.*": "model.text_projection.*",
        "level_embed.weight": "model.level_embed",
        "first_boxes.vector.*": "model.enc_output.*",
        "first_boxes.norm.*": "model.enc_output_norm.*",
        "queries.weight": "model.query_position_embeddings.weight",
        "query_norm.*": "model.decoder.layer_norm.*",
    }
    for level in range(spec.levels):
        rules[f"maps.{level}.convolution.*"] = f"model.input_proj_vision.{level}.0.*"
        rules[f"maps.{level}.norm.*"] = f"model.input_proj_vision.{level}.1.*"
    for layer in range(spec.box_layers):
        rules[f"first_boxes.box.{layer}.*"] = f"model.encoder_output_bbox_embed.layers.{layer}.*"
    for layer in range(2):
        rules[f"query_position.layers.{layer}.*"] = f"model.decoder.reference_points_head.layers.{layer}.*"
    for move in range(1 if spec.shared_boxes else spec.objects.num_layers):
        for layer in range(spec.box_layers):
            theirs = f"bbox_embed.{move}.layers.{layer}.*"
            rules[f"boxes.{move}.layers.{layer}.*"] = Take(theirs, fallback=f"model.decoder.{theirs}")
    rules |= _layer_rules()
    # What is stored of boxes beside these is a copy.
    copies = "bbox_embed.*", "model.decoder.bbox_embed.*"
    drop = f"{BACKBONE}.swin.layernorm.*", f"{BACKBONE}.layernorm.*", f"{TEXTS}.pooler.*", "*.position_ids"
    return Table(rules, NAMING, (*copies, *drop, "*.relative_position_index", "*.attn_mask"))


def _layer_rules() -> Rules:
    """The layers over places and tokens, and those over queries."""
    ours, theirs = "layers.{i}", "model.encoder.layers.{i}"
    fusion, enhancer, image = (f"{theirs}.{name}_layer" for name in ("fusion", "text_enhancer", "deformable"))
    rules: Rules = {
        f"{ours}.fusion.image_norm.*": f"{fusion}.layer_norm_vision.*",
        f"{ours}.fusion.text_norm.*": f"{fusion}.layer_norm_text.*",
        f"{ours}.fusion.q.*": f"{fusion}.attn.vision_proj.*",
        f"{ours}.fusion.k.*": f"{fusion}.attn.text_proj.*",
        f"{ours}.fusion.image_v.*": f"{fusion}.attn.values_vision_proj.*",
        f"{ours}.fusion.text_v.*": f"{fusion}.attn.values_text_proj.*",
        f"{ours}.fusion.image_o.*": f"{fusion}.attn.out_vision_proj.*",
        f"{ours}.fusion.text_o.*": f"{fusion}.attn.out_text_proj.*",
        f"{ours}.fusion.image_scale": f"{fusion}.vision_param",
        f"{ours}.fusion.text_scale": f"{fusion}.text_param",
        f"{ours}.text_attention_norm.*": f"{enhancer}.layer_norm_before.*",
        f"{ours}.text_feed_forward.up.*": f"{enhancer}.fc1.*",
        f"{ours}.text_feed_forward.down.*": f"{enhancer}.fc2.*",
        f"{ours}.text_feed_forward_norm.*": f"{enhancer}.layer_norm_after.*",
        f"{ours}.attention_norm.*": f"{image}.self_attn_layer_norm.*",
        f"{ours}.feed_forward.up.*": f"{image}.fc1.*",
        f"{ours}.feed_forward.down.*": f"{image}.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{image}.final_layer_norm.*",
    }
    rules |= _attention_rules(f"{ours}.text_attention", f"{enhancer}.self_attn")
    rules |= _deformable_rules(f"{ours}.attention", f"{image}.self_attn")
    ours, theirs = "query_layers.{i}", "model.decoder.layers.{i}"
    rules |= {
        f"{ours}.attention_norm.*": f"{theirs}.self_attn_layer_norm.*",
        f"{ours}.text_attention_norm.*": f"{theirs}.encoder_attn_text_layer_norm.*",
        f"{ours}.cross_attention_norm.*": f"{theirs}.encoder_attn_layer_norm.*",
        f"{ours}.feed_forward.up.*": f"{theirs}.fc1.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.final_layer_norm.*",
    }
    rules |= _attention_rules(f"{ours}.attention", f"{theirs}.self_attn")
    rules |= _attention_rules(f"{ours}.text_attention", f"{theirs}.encoder_attn_text")
    return rules | _deformable_rules(f"{ours}.cross_attention", f"{theirs}.encoder_attn")


def _attention_rules(ours: str, theirs: str) -> Rules:
    parts = {"q": "query", "k": "key", "v": "value", "o": "out_proj"}
    return {f"{ours}.{name}.*": f"{theirs}.{other}.*" for name, other in parts.items()}


def _deformable_rules(ours: str, theirs: str) -> Rules:
    parts = {
        "offsets": "sampling_offsets",
        "shares": "attention_weights",
        "v": "value_proj",
        "o": "output_proj",
    }
    return {f"{ours}.{name}.*": f"{theirs}.{other}.*" for name, other in parts.items()}
