"""Audio Flamingo 3 (Goel et al. 2025): Qwen2-Audio's encoder over sounds, two projections, Qwen 2."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.families import qwen2_audio, voxtral
from txexport.families._config import Config, TensorNames
from txexport.spec import VisionLanguageSpec

TASKS = {"audio-text-to-text": ("AudioFlamingo3ForConditionalGeneration",)}

NAMING = qwen2_audio.NAMING
ENCODER = "audioflamingo3_encoder"


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    model = qwen2_audio.model_spec(config, names, ENCODER, config.integer("audio_token_id", 151669))
    connector = replace(
        model.connector,
        intermediate_size=model.decoder.hidden_size,
        activation=config.activation("projector_hidden_act", "gelu"),
        bias=config.flag("projector_bias", True),
    )
    return replace(model, connector=connector)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules, drop = qwen2_audio.rules_of(config, names)
    return Table(rules | voxtral.CONNECTOR, NAMING, drop)
