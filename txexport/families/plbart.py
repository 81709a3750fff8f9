"""PLBART (Ahmad et al. 2021): BART for source code, with scaled word embeddings by default."""

from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, NormPlacement

TASKS = {"text2text-generation": ("PLBartForConditionalGeneration", "PLBartModel")}

NAMING = bart.NAMING
ALIASES = bart.ALIASES | {"initializer_range": "init_std"}
table = bart.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(
        is_decoder=False, normalize_before=False, normalize_embedding=True, add_final_layer_norm=False
    )
    return bart.encoder_decoder_spec(config.with_defaults(scale_embedding=True), names, NormPlacement.POST)
