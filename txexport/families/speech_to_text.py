"""Speech2Text (Wang et al. 2020): gated convolutions over filter banks before mBART's layers."""

from functools import partial

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import bart
from txexport.families._config import Config, TensorNames, shortened
from txexport.families._sinusoid import stretched
from txexport.spec import (
    EncoderDecoderSpec,
    GatedFramesSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
)

TASKS = {"automatic-speech-recognition": ("Speech2TextForConditionalGeneration",)}

NAMING = bart.NAMING
ALIASES = bart.ALIASES
DEFAULTS = {
    **{"vocab_size": 10000, "d_model": 256, "encoder_layers": 12, "decoder_layers": 6},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 2048},
    **{"decoder_ffn_dim": 2048, "activation_function": "relu", "scale_embedding": True},
    **{"num_conv_layers": 2, "conv_kernel_sizes": [5, 5]},
}
PADDING = 1  # the id whose row of the table of positions is zeros; the first position follows it
OFFSET = PADDING + 1


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes.

    Another padding id is refused: the original's encoder would mistake padding for sound.
    """
    config = config.with_defaults(**DEFAULTS)
    config.expect(pad_token_id=PADDING, input_channels=1, is_decoder=False)
    rows = config.positions(OFFSET, "max_target_positions", 1024)
    position = PositionSpec(PositionKind.FIXED, rows, OFFSET)
    layers = bart.stack_spec(config, "encoder", NormPlacement.PRE, position, normed=False)
    sound = _sound(config, layers.embedding.scale)
    encoder = SignalStackSpec(sound, layers.blocks, layers.num_layers, layers.final_norm)
    decoder = bart.stack_spec(config, "decoder", NormPlacement.PRE, position, normed=False)
    head = HeadSpec(HeadKind.CAUSAL_LM, tied=config.flag("tie_word_embeddings", True))
    return EncoderDecoderSpec(encoder, decoder, head)


def _sound(config: Config, scale: float) -> GatedFramesSpec:
    """The convolutions over frames; a kernel of an even number would give a vector that has no mask."""
    kernels = config.integers("conv_kernel_sizes")
    config.expect(num_conv_layers=len(kernels))
    if any(kernel % 2 == 0 for kernel in kernels):
        raise UnsupportedError(
            f"{config.path}: conv_kernel_sizes is {shortened(kernels)}, expected odd numbers"
        )
    return GatedFramesSpec(
        config.integer("d_model"),
        config.integer("input_feat_per_channel", 80),
        config.integer("conv_channels", 1024),
        tuple(kernels),
        config.positions(0, "max_source_positions", 6000),
        PADDING,
        scale,
    )


def table(spec: EncoderDecoderSpec) -> Table:
    """As BART's, with convolutions before the encoder, and computed positions on both sides."""
    inherited, sound = bart.table(spec), spec.encoder.embedding
    assert isinstance(sound, GatedFramesSpec)
    copies = ("lm_head.weight",) if spec.head.tied else ()
    sinusoids = partial(stretched, padding=PADDING)
    rules: Rules = {
        "decoder.embedding.word.weight": Take("decoder.embed_tokens.weight", also=copies),
        "head.weight": "lm_head.weight",
    }
    for number in range(len(sound.kernels)):
        rules[f"encoder.embedding.convolutions.{number}.*"] = f"encoder.conv.conv_layers.{number}.*"
    for side in bart.SIDES:
        rules[f"{side}.embedding.position.*"] = Take(f"{side}.embed_positions.weights", computed=sinusoids)
    return Table(inherited.rules | rules, NAMING, inherited.drop)
