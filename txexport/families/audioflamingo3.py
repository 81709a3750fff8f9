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
    model = qwen2_audio.spec(_as_qwen2_audio(config), task, names)
    size = model.decoder.hidden_size
    connector = replace(
        model.connector,
        intermediate_size=size,
        activation=config.activation("projector_hidden_act", "gelu"),
        bias=config.flag("projector_bias", True),
    )
    return replace(model, connector=connector)


def _as_qwen2_audio(config: Config) -> Config:
    """The settings of the encoder, the decoder and the token of sounds, as Qwen2-Audio has them."""
    config.table("audio_config").expect(model_type=ENCODER)
    audio = dict(config.table("audio_config").values) | {"model_type": "qwen2_audio_encoder"}
    return config.replaced(audio_config=audio, audio_token_index=config.integer("audio_token_id", 151669))


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    inherited = qwen2_audio.table_of(_as_qwen2_audio(config), task, names)
    rules = {name: rule for name, rule in inherited.rules.items() if not name.startswith("connector.project")}
    return Table(rules | voxtral.CONNECTOR, NAMING, inherited.drop)
