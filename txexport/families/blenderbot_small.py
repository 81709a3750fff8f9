"""Blenderbot 90M (Roller et al. 2020): BART with no position offset and normalised word embeddings."""

from dataclasses import replace

from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, NormPlacement, PositionKind, PositionSpec

TASKS = {"text2text-generation": ("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel")}

NAMING = bart.NAMING
ALIASES = bart.ALIASES
table = bart.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(
        is_decoder=False,
        normalize_before=False,
        normalize_embedding=True,
        add_final_layer_norm=False,
        static_position_embeddings=False,
        extra_pos_embeddings=0,
    )
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    base = bart.encoder_decoder_spec(
        config, names, NormPlacement.POST, positions=dict.fromkeys(bart.SIDES, position)
    )
    embedding = replace(base.decoder.embedding, norm_first=True, scale=1.0)  # the decoder's are not scaled
    return replace(base, decoder=replace(base.decoder, embedding=embedding))
