"""Pix2Struct (Lee et al. 2023): a ViT over patches of any shape, and a T5 decoder.

Some checkpoints read a question that is drawn above the image.
"""

from txexport.checkpoints.checkpoint import read_json
from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import UnsupportedError
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    FeedForwardSpec,
    FlattenedPatchesSpec,
    HeadKind,
    HeadSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    RelativeSpec,
    SignalStackSpec,
    TextStackSpec,
)

CLASS = "Pix2StructForConditionalGeneration"
CAPTIONS, QUESTIONS = "image-to-text", "image-text-to-text"
TASKS = {CAPTIONS: (CLASS,), QUESTIONS: (CLASS,)}

NAMING = Naming()
# Signals (B,S,numbers) are sounds elsewhere.
LIBRARY_INPUTS = {"input_features": "flattened_patches"}
VISION = {
    "hidden_size": 768,
    "patch_embed_hidden_size": 768,
    "d_ff": 2048,
    "d_kv": 64,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "seq_len": 4096,
}
TEXT = {
    "vocab_size": 50244,
    "hidden_size": 768,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 12,
    "num_heads": 12,
}
ALIASES_OF_TEXT = {"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"}


def main_task(config: Config) -> str:
    """Questions for a checkpoint whose processor draws one above each image, or else captions."""
    return QUESTIONS if _draws(config) else CAPTIONS


def _draws(config: Config) -> bool:
    """As the processor says, which the original goes by; where its files are silent, as config.json."""
    processor, images = (
        config.path.parent / name for name in ("processor_config.json", "preprocessor_config.json")
    )
    settings = read_json(processor).get("image_processor") if processor.is_file() else None
    if not settings and images.is_file():
        settings = read_json(images)
    drawn = settings.get("is_vqa") if isinstance(settings, dict) else None
    return config.flag("is_vqa", False) if drawn is None else drawn is True


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(is_encoder_decoder=True, tie_word_embeddings=False)
    images = _images(config.table("vision_config").with_defaults(**VISION))
    texts = _texts(config.table("text_config").renamed(ALIASES_OF_TEXT).with_defaults(**TEXT))
    if images.hidden_size != texts.hidden_size:  # keys and values of patches have the decoder's width
        raise UnsupportedError(
            f"{config.path}: vision_config.hidden_size is {images.hidden_size} and text_config.hidden_size "
            f"{texts.hidden_size}; expected equal ones"
        )
    return EncoderDecoderSpec(images, texts, HeadSpec(HeadKind.CAUSAL_LM, tied=False))


def _images(config: Config) -> SignalStackSpec:
    """The encoder of patches."""
    width, eps = config.integer("hidden_size"), config.number("layer_norm_eps", 1e-6)
    patches = FlattenedPatchesSpec(
        width, config.integer("patch_embed_hidden_size"), config.integer("seq_len")
    )
    heads, size = config.integer("num_attention_heads"), config.integer("d_kv")
    block = BlockSpec(
        _attention(width, heads, size, causal=False),
        _feed_forward(config, width),
        NormSpec(width, eps, NormKind.RMS),
        NormPlacement.PRE,
    )
    return SignalStackSpec(patches, (block,), config.count("num_hidden_layers"), final_norm=block.norm)


def _texts(config: Config) -> TextStackSpec:
    """The decoder, as T5's; the original overwrites its tie_word_embeddings."""
    config.expect(is_decoder=True)
    width, heads = config.integer("hidden_size"), config.integer("num_heads")
    size = config.integer("d_kv")
    if heads * size != width:
        raise UnsupportedError(
            f"{config.path}: text_config has {heads} heads of {size} numbers, expected {width} in all"
        )
    norm = NormSpec(width, config.number("layer_norm_epsilon", 1e-6), NormKind.RMS)
    block = BlockSpec(
        _attention(width, heads, size, causal=True, biased=True),
        _feed_forward(config, width),
        norm,
        NormPlacement.PRE,
        cross_attention=_attention(width, heads, size, causal=False),
    )
    relative = RelativeSpec(
        config.integer("relative_attention_num_buckets", 32),
        config.integer("relative_attention_max_distance", 128),
        bidirectional=False,
    )
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, PositionSpec(PositionKind.NONE))
    layers = config.count("num_layers")
    return TextStackSpec(embedding, (block,), layers, final_norm=norm, relative=relative)


def _attention(width: int, heads: int, size: int, causal: bool, biased: bool = False) -> AttentionSpec:
    """Attention without biases and without a scale."""
    return AttentionSpec(
        width,
        heads,
        heads,
        size,
        causal,
        bias=False,
        output_bias=False,
        scale=1.0,
        has_position_bias=biased,
    )


def _feed_forward(config: Config, width: int) -> FeedForwardSpec:
    """A gated network, by default with the tanh approximation of GELU."""
    activation = config.activation("dense_act_fn", "gelu_new")
    return FeedForwardSpec(width, config.integer("d_ff"), activation, bias=False, gated=True)


def table(spec: EncoderDecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    embeddings, image = "encoder.embeddings", "encoder.encoder.layer.{i}"
    text, ours = "decoder.layer.{i}", "decoder.layers.{i}"
    attention, crossed = f"{text}.self_attention", f"{text}.encoder_decoder_attention"
    first = "decoder.layer.0.self_attention.attention"
    rules: Rules = {
        "encoder.embedding.row.weight": f"{embeddings}.row_embedder.weight",
        "encoder.embedding.column.weight": f"{embeddings}.column_embedder.weight",
        "encoder.embedding.project.*": f"{embeddings}.patch_projection.*",
        "encoder.layers.{i}.attention_norm.*": f"{image}.pre_attention_layer_norm.*",
        "encoder.layers.{i}.feed_forward_norm.*": f"{image}.pre_mlp_layer_norm.*",
        "encoder.final_norm.*": "encoder.layernorm.*",
        "decoder.embedding.word.weight": "decoder.embed_tokens.weight",
        "decoder.relative.weight": f"{first}.relative_attention_bias.weight",
        f"{ours}.attention_norm.*": f"{attention}.layer_norm.*",
        f"{ours}.cross_attention_norm.*": f"{crossed}.layer_norm.*",
        f"{ours}.feed_forward_norm.*": f"{text}.mlp.layer_norm.*",
        "decoder.final_norm.*": "decoder.final_layer_norm.*",
        "head.weight": "decoder.lm_head.weight",
    }
    for name, source in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
        rules[f"encoder.layers.{{i}}.attention.{name}.*"] = f"{image}.attention.{source}.*"
        rules[f"{ours}.attention.{name}.*"] = f"{attention}.attention.{source}.*"
        beside = f"cross.{{i}}.{name}.*" if name in "kv" else f"{ours}.cross_attention.{name}.*"
        rules[beside] = f"{crossed}.attention.{source}.*"
    for name, source in (("gate", "wi_0"), ("up", "wi_1"), ("down", "wo")):
        rules[f"encoder.layers.{{i}}.feed_forward.{name}.*"] = f"{image}.mlp.{source}.*"
        rules[f"{ours}.feed_forward.{name}.*"] = f"{text}.mlp.DenseReluDense.{source}.*"
    return Table(rules, NAMING)
