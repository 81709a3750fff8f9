"""mBART (Liu et al. 2020): pre-norm BART."""

from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, NormPlacement

TASKS = {"text2text-generation": ("MBartForConditionalGeneration", "MBartModel")}

NAMING = bart.NAMING
ALIASES = bart.ALIASES
table = bart.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(
        is_decoder=False, normalize_before=True, normalize_embedding=True, add_final_layer_norm=True
    )
    return bart.encoder_decoder_spec(config, names, NormPlacement.PRE)
