"""M2M-100 and NLLB (Fan et al. 2021; NLLB Team 2022): mBART with sinusoidal positions that skip padding."""

from functools import partial

from txexport.checkpoints.checkpoint import read_json
from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.families._sinusoid import stretched
from txexport.spec import EncoderDecoderSpec, NormPlacement, PositionKind, PositionSpec

TASKS = {"text2text-generation": ("M2M100ForConditionalGeneration", "M2M100Model")}

NAMING = bart.NAMING
ALIASES = bart.ALIASES


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes; the decoder's positions begin after padding's."""
    config = config.with_defaults(activation_function="relu", scale_embedding=True)
    config.expect(is_decoder=False)
    padding, size = config.integer("pad_token_id", 1), config.positions(bart.OFFSET)
    _check_start(config, padding)
    positions = {
        "encoder": PositionSpec(PositionKind.FIXED, size, offset=padding, pad_token_id=padding),
        "decoder": PositionSpec(PositionKind.FIXED, size, offset=padding + 1),
    }
    return bart.encoder_decoder_spec(config, names, NormPlacement.PRE, positions=positions, normed=False)


def _check_start(config: Config, padding: int) -> None:
    """Raise UnsupportedError for a decoder_start_token_id that is padding, whose position is special.

    generation_config.json takes precedence over config.json. Padding further on has no meaning in a target.
    """
    generation = config.path.with_name("generation_config.json")
    for path, values in (
        (generation, read_json(generation) if generation.is_file() else {}),
        (config.path, config.values),
    ):
        if values.get("decoder_start_token_id") == padding:
            raise UnsupportedError(
                f"{path}: decoder_start_token_id {padding} is the padding token, whose position is not "
                "supported; expected another token, such as eos_token_id"
            )


def table(spec: EncoderDecoderSpec) -> Table:
    """As BART's, with computed positions."""
    inherited = bart.table(spec)
    padding = spec.decoder.embedding.position.offset - 1  # positions begin after padding's
    sinusoids = partial(stretched, padding=padding)
    rules: Rules = {
        f"{side}.embedding.position.*": Take(f"{side}.embed_positions.weights", computed=sinusoids)
        for side in bart.SIDES
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
