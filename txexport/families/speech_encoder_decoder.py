"""Speech recognition or translation by two pretrained models (Wang et al. 2021): sounds to texts."""

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _parts, wav2vec2
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec

TASKS = {"automatic-speech-recognition": ("SpeechEncoderDecoderModel",)}

_texts = _parts.NAMING.parts
NAMING = Naming(parts={"encoder.": Naming(rename=wav2vec2.RENAMED), "decoder.": _texts["decoder."]})


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    return _parts.spec(*_heard(config), names)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    inherited = _parts.table_of(*_heard(config), names)
    return Table(inherited.rules, NAMING, inherited.drop)


def _heard(config: Config) -> tuple[Config, str]:
    """The task that the encoder is read for; behind a length adapter, originals have no head for labels."""
    sound = config.table("encoder")
    if not sound.flag("add_adapter", False):
        return config, _parts.LABELLED
    return config.replaced(encoder=dict(sound.values) | {"vocab_size": 1}), _parts.SPELLED
