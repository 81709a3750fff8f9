"""Qwen2-Audio (Chu et al. 2024): Whisper's encoder over sounds, pooled, among the tokens of Qwen 2."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, taken
from txexport.families import _pictured, bart, qwen2, whisper
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    ConnectorSpec,
    LogMelSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
    VisionLanguageSpec,
)

TASKS = {"audio-text-to-text": ("Qwen2AudioForConditionalGeneration",)}

TEXT, TOWER = "language_model.", "audio_tower."
NAMING = Naming(
    "model.",
    parts={TEXT: Naming("model."), TOWER: Naming(), "multi_modal_projector.": Naming()},
)
ALIASES = {"audio_token_id": "audio_token_index"}
DECODERS = {"qwen2": qwen2}
DEFAULTS = {
    "num_mel_bins": 128,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "d_model": 1280,
    "max_source_positions": 1500,
}
POOLED = 2  # vectors that are averaged to one


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    sounds, (_, text) = tower(config), _pictured.decoder(_untied(config), names, "qwen2", known=DECODERS)
    connector = ConnectorSpec(
        hidden_size=sounds.hidden_size,
        size=text.decoder.hidden_size,
        grid=None,
        norm=NormSpec(sounds.hidden_size, bart.EPS),
        pooled=True,
        consecutive=POOLED,
    )
    token = config.integer("audio_token_index", 151646)
    return VisionLanguageSpec(sounds, connector, text.decoder, text.head, token)


def tower(config: Config) -> SignalStackSpec:
    """The encoder of sounds, without the norm, which follows the pooling; it ignores scale_embedding."""
    config.table("audio_config").expect(model_type="qwen2_audio_encoder")
    audio = config.table("audio_config").renamed(ENCODER_ALIASES).with_defaults(**DEFAULTS)
    audio = audio.replaced(scale_embedding=False, vocab_size=1)  # there are no tokens
    position = PositionSpec(PositionKind.LEARNED, audio.integer("max_source_positions"))
    layers = bart.stack_spec(audio, "encoder", NormPlacement.PRE, position, normed=False)
    sound = LogMelSpec(
        audio.integer("d_model"),
        audio.integer("num_mel_bins"),
        audio.integer("max_source_positions"),
        Activation.GELU,  # whatever activation_function says
        masked=True,
    )
    return SignalStackSpec(sound, layers.blocks, layers.num_layers)


ENCODER_ALIASES = {
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    family, text = _pictured.decoder(_untied(config), names, "qwen2", known=DECODERS)
    rules, drop = _pictured.decoder_rules(family, text, TEXT)
    sounds = tower_rules()
    sounds.pop("vision.final_norm.*")
    connector: Rules = {
        "connector.norm.*": f"{TOWER}layer_norm.*",
        "connector.project.*": "multi_modal_projector.linear.*",
    }
    return Table(rules | sounds | connector, NAMING, drop)


def tower_rules() -> Rules:
    """Tensor names of the encoder of sounds."""
    changed = whisper.encoder_rules()
    encoder = changed | bart.stack_rules("encoder") | changed
    return {
        key.replace("encoder.", "vision.", 1): taken(rule).renamed(_of_tower) for key, rule in encoder.items()
    }


def _of_tower(name: str) -> str:
    return f"{TOWER}{name.removeprefix('encoder.')}"


def _untied(config: Config) -> Config:
    """The settings as the original reads them: its class ties no head."""
    return config.replaced(tie_word_embeddings=False)
