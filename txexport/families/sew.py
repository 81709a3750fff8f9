"""SEW (Wu et al. 2022): wav2vec 2.0 whose layers read one vector for several, upsampled behind them."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import _sound_heads, wav2vec2
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, SqueezeSpec

TASKS = _sound_heads.tasks("SEW", speakers=False)
REFUSED = {"SEWModel": wav2vec2.WITHOUT_HEAD}

NAMING = Naming("sew.", wav2vec2.RENAMED)
DEFAULTS = {  # of the library, which files may omit
    **{"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "conv_dim": [64, *[128] * 4, *[256] * 4, *[512] * 4],
    "conv_stride": [5, *[2, 1] * 6],
    "conv_kernel": [10, *[3, 1] * 4, *[2, 1] * 2],
    "vocab_size": 32,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**DEFAULTS).replaced(do_stable_layer_norm=False)
    sound = wav2vec2.embedding(config)
    assert sound.final_norm is not None
    assert sound.position_kernel is not None
    squeeze = SqueezeSpec(
        config.integer("squeeze_factor", 2),
        sound.position_kernel,
        sound.position_groups,
        sound.final_norm,
        sound.activation,
    )
    projected = sound.convolutions[-1].size != sound.hidden_size
    sound = replace(sound, position_kernel=None, final_norm=None, projected=projected)
    return wav2vec2.model(config, task, sound, squeeze)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return Table(rules(spec), NAMING, _sound_heads.UNUSED)


def rules(spec: EncoderSpec) -> Rules:
    """Rules for the parameters: norms and projections have names of their own."""
    squeeze, position = "encoder.squeeze", "encoder.embedding.position"
    rules = wav2vec2.rules(spec)
    return rules | {
        "encoder.embedding.norm.*": "layer_norm.*",
        "encoder.embedding.project.*": "feature_projection.*",
        f"{squeeze}.position.weight": rules[f"{position}.weight"],
        f"{squeeze}.position.bias": rules[f"{position}.bias"],
        f"{squeeze}.norm.*": "encoder.layer_norm.*",
        "encoder.upsampling.project.*": "encoder.upsample.projection.*",
    }
