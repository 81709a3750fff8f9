"""UniSpeech (Wang et al. 2021): wav2vec 2.0, trained with phonemes too."""

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _sound_heads, wav2vec2
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = _sound_heads.tasks("UniSpeech", speakers=False)
REFUSED = {"UniSpeechModel": wav2vec2.WITHOUT_HEAD, "UniSpeechForPreTraining": wav2vec2.PRETRAINED}

NAMING = Naming("unispeech.", wav2vec2.RENAMED)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    return wav2vec2.model(config, task, wav2vec2.embedding(config))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return Table(wav2vec2.rules(spec), NAMING, _sound_heads.UNUSED)
