"""Qwen2-Audio (Chu et al. 2024): Whisper's encoder over sounds, pooled, among the tokens of Qwen 2."""

from dataclasses import replace

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
    TextStackSpec,
    VisionLanguageSpec,
)

TASKS = {"audio-text-to-text": ("Qwen2AudioForConditionalGeneration",)}

TEXT, TOWER = "language_model.", "audio_tower."
ENCODER = "qwen2_audio_encoder"
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
    return model_spec(config, names, ENCODER, config.integer("audio_token_index", 151646))


def model_spec(config: Config, names: TensorNames, kind: str, token: int) -> VisionLanguageSpec:
    """An encoder of sounds of that model_type, pooled and projected, among the tokens of Qwen 2.

    The encoder's norm follows the pooling. `token` stands for a vector of a sound.
    """
    _, text = _pictured.decoder(_untied(config), names, "qwen2", known=DECODERS)
    _, sound, layers = encoder(config, kind)
    sounds = SignalStackSpec(replace(sound, masked=True), layers.blocks, layers.num_layers)
    connector = ConnectorSpec(
        hidden_size=sounds.hidden_size,
        size=text.decoder.hidden_size,
        grid=None,
        norm=NormSpec(sounds.hidden_size, bart.EPS),
        pooled=True,
        consecutive=POOLED,
    )
    return VisionLanguageSpec(sounds, connector, text.decoder, text.head, token)


def encoder(config: Config, kind: str) -> tuple[Config, LogMelSpec, TextStackSpec]:
    """The settings of an encoder of sounds by Whisper's names, its spectrogram and its layers.

    `kind` is its model_type. The originals ignore scale_embedding, and activation_function in convolutions.
    """
    audio = config.table("audio_config")
    audio.expect(model_type=kind)
    audio = audio.renamed(ENCODER_ALIASES).with_defaults(**DEFAULTS)
    audio = audio.replaced(scale_embedding=False, vocab_size=1)  # there are no tokens
    length = audio.integer("max_source_positions")
    position = PositionSpec(PositionKind.LEARNED, length)
    layers = bart.stack_spec(audio, "encoder", NormPlacement.PRE, position, normed=False)
    sound = LogMelSpec(audio.integer("d_model"), audio.integer("num_mel_bins"), length, Activation.GELU)
    return audio, sound, layers


ENCODER_ALIASES = {
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules, drop = rules_of(config, names)
    projection: Rules = {"connector.project.*": "multi_modal_projector.linear.*"}
    return Table(rules | projection, NAMING, drop)


def rules_of(config: Config, names: TensorNames) -> tuple[Rules, tuple[str, ...]]:
    """The rules of the decoder, of the encoder and of its norm, and the tensors to drop."""
    family, text = _pictured.decoder(_untied(config), names, "qwen2", known=DECODERS)
    rules, drop = _pictured.decoder_rules(family, text, TEXT)
    sounds = tower_rules()
    norm = sounds.pop("vision.final_norm.*")
    return rules | sounds | {"connector.norm.*": norm}, drop


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
