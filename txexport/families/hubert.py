"""HuBERT (Hsu et al. 2021): wav2vec 2.0, trained on hidden units."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _sound_heads, wav2vec2
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, PositionNorm, WaveformSpec

TASKS = _sound_heads.tasks("Hubert", speakers=False)
REFUSED = {"HubertModel": wav2vec2.WITHOUT_HEAD}

NAMING = Naming("hubert.", wav2vec2.RENAMED)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    sound = wav2vec2.embedding(config)
    if not config.flag("feat_proj_layer_norm", True):
        sound = replace(sound, norm=None)
    if config.flag("conv_pos_batch_norm", False):
        sound = replace(sound, position_norm=PositionNorm.BATCH)
    return wav2vec2.model(config, task, sound)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    sound, rules = spec.encoder.embedding, wav2vec2.rules(spec)
    assert isinstance(sound, WaveformSpec)
    if sound.position_norm != PositionNorm.BATCH:
        return Table(rules, NAMING, _sound_heads.UNUSED)
    norm = "encoder.pos_conv_embed.batch_norm"
    rules |= {
        "encoder.embedding.position.weight": f"{wav2vec2.CONVOLUTION}.weight",
        "encoder.embedding.position.norm.mean": f"{norm}.running_mean",
        "encoder.embedding.position.norm.variance": f"{norm}.running_var",
        "encoder.embedding.position.norm.*": f"{norm}.*",
    }
    return Table(rules, NAMING, (*_sound_heads.UNUSED, f"{norm}.num_batches_tracked"))
