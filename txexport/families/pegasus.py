"""Pegasus (Zhang et al. 2020): pre-norm BART with sinusoidal positions."""

from txexport.families import bart, marian
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, NormPlacement, PositionKind, PositionSpec

TASKS = {"text2text-generation": ("PegasusForConditionalGeneration", "PegasusModel")}

NAMING = bart.NAMING
ALIASES = bart.ALIASES
table = marian.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(
        is_decoder=False,
        normalize_before=True,
        normalize_embedding=False,
        add_final_layer_norm=True,
        static_position_embeddings=True,
        extra_pos_embeddings=1,
    )
    position = PositionSpec(PositionKind.FIXED, config.positions(0))
    positions = dict.fromkeys(bart.SIDES, position)
    return bart.encoder_decoder_spec(config, names, NormPlacement.PRE, positions=positions, normed=False)
