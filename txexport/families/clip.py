"""CLIP (Radford et al. 2021): a tower of texts and one of images, compared."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    DualEncoderSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    PatchSpec,
    Pick,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
    TextStackSpec,
)

TASKS = {"zero-shot-image-classification": ("CLIPModel",)}

NAMING = Naming()
FIRST_EOS = 2  # what configs of the first releases call the id that ends a text, whatever it is


def spec(config: Config, task: str, names: TensorNames) -> DualEncoderSpec:
    """The architecture that config.json describes."""
    text, vision = (_table(config, name) for name in ("text_config", "vision_config"))
    eos = text.integer("eos_token_id", 49407)
    position = PositionSpec(PositionKind.LEARNED, text.integer("max_position_embeddings", 77))
    width = vision.integer("hidden_size", 768)
    norm = NormSpec(width, vision.number("layer_norm_eps", 1e-5))
    patches = PatchSpec(
        *(width, vit.image_size(vision), vit.patch_size(vision.with_defaults(patch_size=32))),
        channels=vision.integer("num_channels", 3),
        bias=False,
        norm=norm,
    )
    words = EmbeddingSpec(text.integer("vocab_size", 49408), text.integer("hidden_size", 512), position)
    return DualEncoderSpec(
        text=TextStackSpec(words, *_layers(text, causal=True, size=512, heads=8)),
        vision=SignalStackSpec(patches, *_layers(vision, causal=False, size=768, heads=12)),
        size=config.integer("projection_dim", 512),
        pick=Pick.ARGMAX_ID if eos == FIRST_EOS else Pick.FIRST_EOS,
        eos_token_id=None if eos == FIRST_EOS else eos,
    )


def _table(config: Config, name: str) -> Config:
    """The table of a tower; of two, the one that files of the first releases call its dict counts alone."""
    return config.table(f"{name}_dict" if config.values.get(f"{name}_dict") else name)


def _layers(
    config: Config, causal: bool, size: int, heads: int
) -> tuple[tuple[BlockSpec, ...], int, NormSpec]:
    """Blocks, number and final norm of a tower's layers, with the library's defaults."""
    width, heads = config.integer("hidden_size", size), config.integer("num_attention_heads", heads)
    norm, head_dim = NormSpec(width, config.number("layer_norm_eps", 1e-5)), config.head_dim(width, heads)
    activation = config.activation("hidden_act", "quick_gelu")
    block = BlockSpec(
        AttentionSpec(*(width, heads, heads, head_dim), causal=causal, unmasked=not causal),
        FeedForwardSpec(width, config.integer("intermediate_size", 4 * size), activation),
        norm,
        NormPlacement.PRE,
    )
    return (block,), config.count("num_hidden_layers", 12), norm


def table(spec: DualEncoderSpec) -> Table:
    """Where transformers keeps each parameter."""
    text, vision = "text_model.embeddings", "vision_model.embeddings"
    rules: Rules = {
        "text.embedding.word.*": f"{text}.token_embedding.*",
        "text.embedding.position.*": f"{text}.position_embedding.*",
        "text.final_norm.*": "text_model.final_layer_norm.*",
        "text_projection.*": "text_projection.*",
        "vision.embedding.tokens.0.weight": Take(f"{vision}.class_embedding", no_leading_axis=True),
        "vision.embedding.position.*": f"{vision}.position_embedding.*",
        "vision.embedding.project.*": f"{vision}.patch_embedding.*",
        "vision.embedding.norm.*": "vision_model.pre_layrnorm.*",
        "vision.final_norm.*": "vision_model.post_layernorm.*",
        "vision_projection.*": "visual_projection.*",
        "similarity.scale": Take("logit_scale", no_leading_axis=True),
    }
    for tower in ("text", "vision"):
        layer, source = f"{tower}.layers.{{i}}", f"{tower}_model.encoder.layers.{{i}}"
        rules |= {
            f"{layer}.attention.q.*": f"{source}.self_attn.q_proj.*",
            f"{layer}.attention.k.*": f"{source}.self_attn.k_proj.*",
            f"{layer}.attention.v.*": f"{source}.self_attn.v_proj.*",
            f"{layer}.attention.o.*": f"{source}.self_attn.out_proj.*",
            f"{layer}.attention_norm.*": f"{source}.layer_norm1.*",
            f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
            f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
            f"{layer}.feed_forward_norm.*": f"{source}.layer_norm2.*",
        }
    return Table(rules, NAMING, drop=(f"{text}.position_ids", f"{vision}.position_ids"))
