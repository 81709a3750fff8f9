"""data2vec of sounds (Baevski et al. 2022): wav2vec 2.0 with several convolutions that give positions."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _length_adapter, _sound_heads, wav2vec2
from txexport.families._config import Config, TensorNames
from txexport.spec import ConvolutionNorm, EncoderSpec, PositionNorm

TASKS = _sound_heads.tasks("Data2VecAudio")
REFUSED = {"Data2VecAudioModel": wav2vec2.WITHOUT_HEAD}

NAMING = Naming("data2vec_audio.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    layers, kernel = config.count("num_conv_pos_embeddings", 5), config.integer("conv_pos_kernel_size", 19)
    config = config.replaced(
        feat_extract_norm=ConvolutionNorm.LAYER.value,
        do_stable_layer_norm=False,
        num_conv_pos_embeddings=kernel,
    )
    sound = replace(wav2vec2.embedding(config), position_norm=PositionNorm.LAYER, position_layers=layers)
    adapter = _length_adapter.of_waveforms(config, sound.hidden_size)
    return wav2vec2.model(config, task, sound, adapter=adapter)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules = wav2vec2.rules(spec) | {
        "encoder.embedding.positions.{i}.*": "encoder.pos_conv_embed.layers.{i}.conv.*",
    }
    return Table(rules, NAMING, _sound_heads.UNUSED)
