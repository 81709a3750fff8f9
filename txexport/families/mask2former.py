"""Mask2Former (Cheng et al. 2022): queries that read the maps of Swin within their own masks."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import maskformer, swin
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    DeformablePyramidSpec,
    EncoderSpec,
    GroupNormSpec,
    HeadKind,
    HeadSpec,
    MaskedQueriesSpec,
    NormSpec,
    QueryBlockSpec,
    QueryLayersSpec,
    StagedStackSpec,
)
from txexport.spec.masks import MASK_LAYERS

TASKS = {"image-segmentation": ("Mask2FormerForUniversalSegmentation",)}
NAMING = Naming()
REFUSED = {
    "Mask2FormerModel": "its queries are no result of a task; expected Mask2FormerForUniversalSegmentation"
}
ALIASES = {"hidden_size": "hidden_dim", "num_hidden_layers": "decoder_layers"}

EPS = maskformer.EPS
FEATURES = [f"stage{number}" for number in range(1, maskformer.STAGES + 1)]
POINTS = 4  # of each map, that a place attends to
SWIN = {"depths": [2, 2, 18, 2]}  # of a backbone whose values are not in config.json
BACKBONE = "model.pixel_level_module.encoder"
DECODER = "model.pixel_level_module.decoder"
QUERIES = "model.transformer_module"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(common_stride=4, feature_strides=[4, 8, 16, 32])
    backbone = config.table("backbone_config")
    if backbone.values and backbone.strings("out_features") != FEATURES:
        raise UnsupportedError(
            f"{config.path}: out_features of backbone_config is "
            f"{shortened(backbone.values.get('out_features'))}, expected {shortened(FEATURES)}"
        )
    stack = maskformer.backbone(config, SWIN)
    masks = _masks(config, tuple(stage.hidden_size for stage in stack.stages))
    labels = config.labels() + 1
    head = HeadSpec(HeadKind.MASKED_QUERIES, tied=False, bias=True, labels=labels, masked_queries=masks)
    return EncoderSpec(encoder=stack, head=head)


def _masks(config: Config, sizes: tuple[int, ...]) -> MaskedQueriesSpec:
    """The pyramid over maps of `sizes` channels, and the layers of queries."""
    heads, inner = config.integer("num_attention_heads", 8), config.integer("feature_size", 256)
    layers = config.count("encoder_layers", 6)
    width = config.integer("hidden_dim", 256)
    pyramid = DeformablePyramidSpec(
        sizes,
        GroupNormSpec(inner, maskformer.GROUPS, EPS),
        QueryLayersSpec(layers, heads, config.integer("encoder_feedforward_dim", 1024)),
        config.integer("mask_feature_size", 256),
        POINTS,
        EPS,
    )
    activation = config.activation("activation_function", "relu")
    block = QueryBlockSpec(
        NormSpec(width, EPS), activation, config.flag("pre_norm", False), crossed_first=True
    )
    # The first prediction of masks counts as a layer.
    layers = config.count("decoder_layers", 10) - 1
    return MaskedQueriesSpec(
        pyramid,
        QueryLayersSpec(layers, heads, config.integer("dim_feedforward", 2048)),
        config.integer("num_queries", 100),
        block,
        width != inner or config.flag("enforce_input_projection", False),
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert isinstance(spec.encoder, StagedStackSpec)
    assert spec.head.masked_queries is not None
    rules: Rules = {
        ours: f"{BACKBONE}.{theirs}"
        for ours, theirs in swin.stack_rules(spec.encoder).items()
        if isinstance(theirs, str)
    }
    for number in range(len(spec.encoder.stages)):
        rules[f"encoder.map_norms.{number}.*"] = f"{BACKBONE}.hidden_states_norms.stage{number + 1}.*"
    rules |= _pyramid_rules(spec.head.masked_queries) | _query_rules(spec.head.masked_queries)
    drop = (f"{BACKBONE}.swin.layernorm.*", "*.relative_position_index", "criterion.*")
    return Table(rules, NAMING, drop)


def _pyramid_rules(masks: MaskedQueriesSpec) -> Rules:
    """The projections of maps, the layers of their places, and the finest map."""
    rules: Rules = {
        "head.pyramid.levels.weight": f"{DECODER}.level_embed",
        "head.pyramid.project.*": f"{DECODER}.mask_projection.*",
        "head.pyramid.side.convolution.weight": f"{DECODER}.adapter_1.0.weight",
        "head.pyramid.side.norm.*": f"{DECODER}.adapter_1.1.*",
        "head.pyramid.convolution.convolution.weight": f"{DECODER}.layer_1.0.weight",
        "head.pyramid.convolution.norm.*": f"{DECODER}.layer_1.1.*",
    }
    for level in range(masks.pyramid.levels):
        rules[f"head.pyramid.projects.{level}.convolution.*"] = f"{DECODER}.input_projections.{level}.0.*"
        rules[f"head.pyramid.projects.{level}.norm.*"] = f"{DECODER}.input_projections.{level}.1.*"
    for layer in range(masks.pyramid.layers.num_layers):
        ours, theirs = f"head.pyramid.layers.{layer}", f"{DECODER}.encoder.layers.{layer}"
        rules |= {
            f"{ours}.attention.offsets.*": f"{theirs}.self_attn.sampling_offsets.*",
            f"{ours}.attention.shares.*": f"{theirs}.self_attn.attention_weights.*",
            f"{ours}.attention.v.*": f"{theirs}.self_attn.value_proj.*",
            f"{ours}.attention.o.*": f"{theirs}.self_attn.output_proj.*",
            f"{ours}.attention_norm.*": f"{theirs}.self_attn_layer_norm.*",
            **_network_rules(ours, theirs),
        }
    return rules


def _query_rules(masks: MaskedQueriesSpec) -> Rules:
    """The learned vectors, the layers of queries, and the scores."""
    decoder = f"{QUERIES}.decoder"
    rules: Rules = {
        "head.levels.weight": f"{QUERIES}.level_embed.weight",
        "head.queries.weight": f"{QUERIES}.queries_embedder.weight",
        "head.first.weight": f"{QUERIES}.queries_features.weight",
        "head.query_norm.*": f"{decoder}.layernorm.*",
        "head.classes.*": "class_predictor.*",
    }
    for level in range(masks.pyramid.levels):
        rules[f"head.projects.{level}.*"] = f"{QUERIES}.input_projections.{level}.*"
    for layer in range(masks.layers.num_layers):
        ours, theirs = f"head.query_layers.{layer}", f"{decoder}.layers.{layer}"
        for part, name in enumerate(("q", "k", "v")):
            rules[f"{ours}.attention.{name}.*"] = f"{theirs}.self_attn.{name}_proj.*"
            for kind in ("weight", "bias"):
                fused = f"{theirs}.cross_attn.in_proj_{kind}"
                rules[f"{ours}.cross_attention.{name}.{kind}"] = Take(fused, part=part, parts=3)
        rules |= {
            f"{ours}.attention.o.*": f"{theirs}.self_attn.out_proj.*",
            f"{ours}.attention_norm.*": f"{theirs}.self_attn_layer_norm.*",
            f"{ours}.cross_attention.o.*": f"{theirs}.cross_attn.out_proj.*",
            f"{ours}.cross_attention_norm.*": f"{theirs}.cross_attn_layer_norm.*",
            **_network_rules(ours, theirs),
        }
    for layer in range(MASK_LAYERS):
        rules[f"head.mask.{layer}.*"] = f"{decoder}.mask_predictor.mask_embedder.{layer}.0.*"
    return rules


def _network_rules(ours: str, theirs: str) -> Rules:
    """A layer's feed-forward network and its norm."""
    return {
        f"{ours}.feed_forward.up.*": f"{theirs}.fc1.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.final_layer_norm.*",
    }
