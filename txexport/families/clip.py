"""CLIP (Radford et al. 2021): a text encoder and an image encoder, compared by cosine similarity."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    DualEncoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PatchSpec,
    Pick,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
    TextStackSpec,
)

TASKS = {
    "zero-shot-image-classification": ("CLIPModel",),
    "image-classification": ("CLIPForImageClassification",),
}

NAMING = Naming()
NOT_OF_IMAGES = (
    *("text_model.*", "*_projection.*", "logit_scale"),
    *("vision_model.post_layernorm.*", "vision_model.embeddings.position_ids"),
)
FIRST_EOS = 2  # eos_token_id in the configs of the first releases, whatever the tokenizer's is


def spec(config: Config, task: str, names: TensorNames) -> DualEncoderSpec | EncoderSpec:
    """The architecture that config.json describes."""
    text, vision = (tower(config, name) for name in ("text_config", "vision_config"))
    if task == "image-classification":
        return labelled(config, replace(vision_stack(vision), final_norm=None), tokens=1)
    pick, mark = ending(text)
    return DualEncoderSpec(
        text=text_stack(text),
        vision=vision_stack(vision),
        size=config.integer("projection_dim", 512),
        pick=pick,
        eos_token_id=mark,
    )


def labelled(config: Config, images: SignalStackSpec, tokens: int) -> EncoderSpec:
    """Labels from the mean of an image's patches, after that number of prefix tokens."""
    pick, labels = Pick.GLOBAL_AVERAGE, config.labels()
    head = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, labels=labels, pick=pick, registers=tokens)
    return EncoderSpec(encoder=images, head=head)


def ending(config: Config) -> tuple[Pick, int | None]:
    """The pooling of a text, and the eos_token_id that it looks for."""
    eos, vocabulary = config.integer("eos_token_id", 49407), config.integer("vocab_size", 49408)
    if not 0 <= eos < vocabulary:
        raise CheckpointError(f"{config.path}: eos_token_id is {eos}, but vocab_size {vocabulary}")
    return (Pick.ARGMAX_ID, None) if eos == FIRST_EOS else (Pick.FIRST_EOS, eos)


def text_stack(config: Config) -> TextStackSpec:
    """The text encoder."""
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings", 77))
    embedding = EmbeddingSpec(
        config.integer("vocab_size", 49408), config.integer("hidden_size", 512), position
    )
    return TextStackSpec(embedding, *_layers(config, causal=True, size=512, heads=8))


def vision_stack(config: Config) -> SignalStackSpec:
    """The image encoder."""
    width = config.integer("hidden_size", 768)
    patches = PatchSpec(
        hidden_size=width,
        image_size=vit.image_size(config),
        patch_size=vit.patch_size(config.with_defaults(patch_size=32)),
        channels=config.integer("num_channels", 3),
        bias=False,
        norm=NormSpec(width, config.number("layer_norm_eps", 1e-5)),
    )
    return SignalStackSpec(patches, *_layers(config, causal=False, size=768, heads=12))


def tower(config: Config, name: str) -> Config:
    """The config of one encoder; the first releases have two, of which the "..._dict" one counts."""
    return config.table(f"{name}_dict" if config.values.get(f"{name}_dict") else name)


def _layers(
    config: Config, causal: bool, size: int, heads: int
) -> tuple[tuple[BlockSpec, ...], int, NormSpec]:
    """Blocks, number of layers and final norm of an encoder, with the library's defaults."""
    width, heads = config.integer("hidden_size", size), config.integer("num_attention_heads", heads)
    norm, head_dim = NormSpec(width, config.number("layer_norm_eps", 1e-5)), config.head_dim(width, heads)
    activation = config.activation("hidden_act", "quick_gelu")
    block = BlockSpec(
        AttentionSpec(
            hidden_size=width,
            num_heads=heads,
            num_kv_heads=heads,
            head_dim=head_dim,
            causal=causal,
            unmasked=not causal,
        ),
        FeedForwardSpec(width, config.integer("intermediate_size", 4 * size), activation),
        norm,
        NormPlacement.PRE,
    )
    return (block,), config.count("num_hidden_layers", 12), norm


def table(spec: DualEncoderSpec | EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    if isinstance(spec, EncoderSpec):
        rules = vision_rules("encoder", "vision_model.") | {"head.*": "classifier.*"}
        return Table(rules, NAMING, drop=NOT_OF_IMAGES)
    rules = text_rules("text", "text_model.") | vision_rules("vision", "vision_model.")
    return Table(rules | joint_rules(), NAMING, drop=("*_model.embeddings.position_ids",))


def joint_rules() -> Rules:
    """Tensor names of what follows the encoders: the image's post-norm, the projections, the logit scale."""
    return {
        "vision.final_norm.*": "vision_model.post_layernorm.*",
        "text_projection.*": "text_projection.*",
        "vision_projection.*": "visual_projection.*",
        "similarity.scale": Take("logit_scale", no_leading_axis=True),
    }


def text_rules(tower: str, prefix: str) -> Rules:
    """Tensor names of the text encoder, by its prefix here and in the checkpoint."""
    return layer_rules(f"{tower}.layers.{{i}}", f"{prefix}encoder.layers.{{i}}") | {
        f"{tower}.embedding.word.*": f"{prefix}embeddings.token_embedding.*",
        f"{tower}.embedding.position.*": f"{prefix}embeddings.position_embedding.*",
        f"{tower}.final_norm.*": f"{prefix}final_layer_norm.*",
    }


def vision_rules(tower: str, prefix: str) -> Rules:
    """Tensor names of the image encoder without the post-norm, which some models apply to hidden states."""
    embeddings = f"{prefix}embeddings"
    return layer_rules(f"{tower}.layers.{{i}}", f"{prefix}encoder.layers.{{i}}") | {
        f"{tower}.embedding.tokens.0.weight": Take(f"{embeddings}.class_embedding", no_leading_axis=True),
        f"{tower}.embedding.position.*": f"{embeddings}.position_embedding.*",
        f"{tower}.embedding.project.*": f"{embeddings}.patch_embedding.*",
        f"{tower}.embedding.norm.*": f"{prefix}pre_layrnorm.*",
    }


def layer_rules(layer: str, source: str) -> Rules:
    """Tensor names of a layer, by its name here and in the checkpoint."""
    return {
        f"{layer}.attention.q.*": f"{source}.self_attn.q_proj.*",
        f"{layer}.attention.k.*": f"{source}.self_attn.k_proj.*",
        f"{layer}.attention.v.*": f"{source}.self_attn.v_proj.*",
        f"{layer}.attention.o.*": f"{source}.self_attn.out_proj.*",
        f"{layer}.attention_norm.*": f"{source}.layer_norm1.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layer_norm2.*",
    }
