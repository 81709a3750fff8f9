"""Blenderbot (Roller et al. 2020): mBART without a norm of the embedding, positions without an offset."""

from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, NormPlacement, PositionKind, PositionSpec

TASKS = {"text2text-generation": ("BlenderbotForConditionalGeneration", "BlenderbotModel")}

NAMING = bart.NAMING
ALIASES = bart.ALIASES
table = bart.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(
        is_decoder=False,
        normalize_before=True,
        normalize_embedding=False,
        add_final_layer_norm=True,
        static_position_embeddings=False,
        extra_pos_embeddings=0,
    )
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    positions = dict.fromkeys(bart.SIDES, position)
    return bart.encoder_decoder_spec(config, names, NormPlacement.PRE, positions=positions, normed=False)
