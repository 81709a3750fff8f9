"""M2M-100 and NLLB (Fan et al. 2021; NLLB Team 2022): mBART with sinusoidal positions that skip padding."""

from collections.abc import Set
from functools import partial

from txexport.families import bart
from txexport.families._config import Config
from txexport.families._sinusoid import stretched
from txexport.spec import ModelSpec, NormPlacement, PositionKind, PositionSpec
from txexport.weights import Rules, Table, Take

TASKS = {"text2text-generation": ("M2M100ForConditionalGeneration", "M2M100Model")}

NAMING = bart.NAMING


def spec(config: Config, task: str, names: Set[str]) -> ModelSpec:
    """The architecture that config.json describes; the decoder's positions begin after padding's."""
    config = config.assuming(activation_function="relu", scale_embedding=True)
    config.expect(is_decoder=False)
    padding, size = config.integer("pad_token_id", 1), config.integer("max_position_embeddings") + bart.OFFSET
    positions = {
        "encoder": PositionSpec(PositionKind.FIXED, size, offset=padding, padding=padding),
        "decoder": PositionSpec(PositionKind.FIXED, size, offset=padding + 1),
    }
    return bart.encoder_decoder_spec(config, names, NormPlacement.PRE, positions=positions, normed=False)


def table(spec: ModelSpec) -> Table:
    """As BART's, with computed positions."""
    found = bart.table(spec)
    assert spec.encoder is not None
    assert spec.encoder.words.position.padding is not None
    sinusoids = partial(stretched, padding=spec.encoder.words.position.padding)
    rules: Rules = {
        f"{side}.embedding.position.*": Take(f"{side}.embed_positions.weights", computed=sinusoids)
        for side in bart.SIDES
    }
    return Table(found.rules | rules, NAMING, found.drop)
