"""Moonshine (Jeffries et al. 2024): an encoder of waveforms and a decoder, both with RoPE."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.families._rope import longest, rotary
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    ConvolutionSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
    TextStackSpec,
    WaveformStemSpec,
)

TASKS = {"automatic-speech-recognition": ("MoonshineForConditionalGeneration",)}

NAMING = Naming("model.")
ALIASES = {
    "num_key_value_heads": "decoder_num_key_value_heads",
    "num_attention_heads": "decoder_num_attention_heads",
    "num_hidden_layers": "decoder_num_hidden_layers",
    "hidden_act": "decoder_hidden_act",
}
EPS = 1e-5  # of all norms, fixed in the original


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes.

    pad_head_dim_to_multiple_of adds zeros to heads, which change no score and no sum.
    """
    width, attention = config.integer("hidden_size", 288), _attention(config)
    norm = NormSpec(width, EPS, bias=False)
    size = config.integer("intermediate_size", 1152)
    sound = WaveformStemSpec(
        width,
        (
            ConvolutionSpec(width, kernel=127, stride=64),
            ConvolutionSpec(2 * width, kernel=7, stride=3),
            ConvolutionSpec(width, kernel=3, stride=2),
        ),
        Activation.GELU,  # the original ignores encoder_hidden_act here
    )
    encoding = FeedForwardSpec(width, size, config.activation("encoder_hidden_act", "gelu"))
    block = BlockSpec(replace(attention, causal=False, unmasked=True), encoding, norm, NormPlacement.PRE)
    encoder = SignalStackSpec(sound, (block,), config.count("encoder_num_hidden_layers", 6), final_norm=norm)
    decoding = FeedForwardSpec(width, size, config.activation("decoder_hidden_act", "silu"), gated=True)
    cross = replace(attention, causal=False, unmasked=True, rotary=None)
    block = BlockSpec(attention, decoding, norm, NormPlacement.PRE, cross_attention=cross)
    position = PositionSpec(PositionKind.NONE, longest(config, 512))
    embedding = EmbeddingSpec(config.integer("vocab_size", 32768), width, position)
    decoder = TextStackSpec(
        embedding, (block,), config.count("decoder_num_hidden_layers", 6), final_norm=norm
    )
    head = HeadSpec(HeadKind.CAUSAL_LM, tied=config.flag("tie_word_embeddings", True))
    return EncoderDecoderSpec(encoder, decoder, head)


def _attention(config: Config) -> AttentionSpec:
    """The decoder's self-attention.

    The original gives both stacks the heads of the encoder, and each query head keys of its own.
    """
    width, heads = config.integer("hidden_size", 288), config.integer("encoder_num_attention_heads", 8)
    config.expect(
        encoder_num_key_value_heads=heads,
        decoder_num_attention_heads=heads,
        decoder_num_key_value_heads=heads,
    )
    head_dim = config.head_dim(width, heads)
    config.expect(head_dim=head_dim)
    turning = rotary(config, head_dim, fraction="partial_rotary_factor", default=0.9)
    return AttentionSpec(
        width,
        heads,
        heads,
        head_dim,
        causal=True,
        bias=config.flag("attention_bias", False),
        output_bias=False,
        rotary=replace(turning, interleaved=True),
    )


def table(spec: EncoderDecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {
        "encoder.embedding.convolutions.0.*": "encoder.conv1.*",
        "encoder.embedding.convolutions.1.*": "encoder.conv2.*",
        "encoder.embedding.convolutions.2.*": "encoder.conv3.*",
        "encoder.embedding.norm.*": "encoder.groupnorm.*",
        "encoder.final_norm.*": "encoder.layer_norm.*",
        "encoder.layers.{i}.feed_forward.up.*": "encoder.layers.{i}.mlp.fc1.*",
        "encoder.layers.{i}.feed_forward_norm.*": "encoder.layers.{i}.post_attention_layernorm.*",
        "cross.{i}.k.*": "decoder.layers.{i}.encoder_attn.k_proj.*",
        "cross.{i}.v.*": "decoder.layers.{i}.encoder_attn.v_proj.*",
        "decoder.layers.{i}.cross_attention.q.*": "decoder.layers.{i}.encoder_attn.q_proj.*",
        "decoder.layers.{i}.cross_attention.o.*": "decoder.layers.{i}.encoder_attn.o_proj.*",
        "decoder.layers.{i}.cross_attention_norm.*": "decoder.layers.{i}.post_attention_layernorm.*",
        "decoder.layers.{i}.feed_forward.up.*": Take("decoder.layers.{i}.mlp.fc1.*", part=0, parts=2),
        "decoder.layers.{i}.feed_forward.gate.*": Take("decoder.layers.{i}.mlp.fc1.*", part=1, parts=2),
        "decoder.layers.{i}.feed_forward_norm.*": "decoder.layers.{i}.final_layernorm.*",
        "decoder.embedding.word.weight": Take(
            "decoder.embed_tokens.weight", also=("proj_out.weight",) if spec.head.tied else ()
        ),
        "decoder.final_norm.*": "decoder.norm.*",
        "head.weight": "proj_out.weight",
    }
    for side in bart.SIDES:
        layer = f"{side}.layers.{{i}}"
        rules |= {f"{layer}.attention.{part}.*": f"{layer}.self_attn.{part}_proj.*" for part in "qkvo"}
        rules[f"{layer}.attention_norm.*"] = f"{layer}.input_layernorm.*"
        rules[f"{layer}.feed_forward.down.*"] = f"{layer}.mlp.fc2.*"
    return Table(rules, NAMING)
