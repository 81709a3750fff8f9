"""Voxtral (Liu et al. 2025): Whisper's encoder over sounds, four vectors joined, among a decoder's tokens."""

from types import ModuleType

from txexport.checkpoints.weight_map import Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _pictured, llama, mistral, qwen2_audio, whisper
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    ConnectorSpec,
    DecoderSpec,
    SignalStackSpec,
    VisionLanguageSpec,
)

TASKS = {"audio-text-to-text": ("VoxtralForConditionalGeneration",)}

TEXT, TOWER = qwen2_audio.TEXT, qwen2_audio.TOWER
NAMING = qwen2_audio.NAMING
DECODERS = {"llama": llama, "mistral": mistral}
CONNECTOR: Rules = {
    "connector.up.*": "multi_modal_projector.linear_1.*",
    "connector.down.*": "multi_modal_projector.linear_2.*",
}
# Of text_config, as in the library's configuration.
DEFAULTS = {
    "vocab_size": 131072,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 30,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e8,
    "head_dim": 128,
}


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    (sounds, joined), (_, text) = tower(config), _decoder(config, names)
    connector = ConnectorSpec(
        hidden_size=sounds.hidden_size,
        size=text.decoder.hidden_size,
        grid=None,
        intermediate_size=text.decoder.hidden_size,
        activation=config.activation("projector_hidden_act", "gelu"),
        bias=False,
        consecutive=joined,
    )
    return VisionLanguageSpec(sounds, connector, text.decoder, text.head, config.integer("audio_token_id"))


def tower(config: Config) -> tuple[SignalStackSpec, int]:
    """The encoder of sounds, and how many of its vectors are joined: as many numbers as its networks have."""
    audio, sound, layers = qwen2_audio.encoder(config, "voxtral_encoder")
    length, width, wide = (
        audio.integer(key) for key in ("max_source_positions", "d_model", "encoder_ffn_dim")
    )
    joined = wide // width
    if wide % width or length % max(joined, 1):
        raise UnsupportedError(
            f"{config.path}: audio_config has intermediate_size {wide}, hidden_size {width} and "
            f"max_source_positions {length}; expected multiples, as vectors of sounds are joined"
        )
    blocks = whisper.unmasked(layers.blocks)
    return SignalStackSpec(sound, blocks, layers.num_layers, layers.final_norm), joined


def _decoder(config: Config, names: TensorNames) -> tuple[ModuleType, DecoderSpec]:
    """The decoder's family and the decoder; the original's class ties no head."""
    text = DEFAULTS | dict(config.table("text_config").values)
    config = config.replaced(tie_word_embeddings=False, text_config=text)
    return _pictured.decoder(config, names, known=DECODERS)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    family, text = _decoder(config, names)
    rules, drop = _pictured.decoder_rules(family, text, TEXT)
    return Table(rules | qwen2_audio.tower_rules() | CONNECTOR, NAMING, drop)
