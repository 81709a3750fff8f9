"""OWLv2 (Minderer et al. 2023): OWL-ViT, trained on its own labels; its scores of objectness are not read."""

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import owlvit
from txexport.families._config import Config, TensorNames
from txexport.spec import OpenVocabularySpec

TASKS = {"zero-shot-object-detection": ("Owlv2ForObjectDetection",)}

NAMING = Naming()
PREFIX = "owlv2."


def spec(config: Config, task: str, names: TensorNames) -> OpenVocabularySpec:
    """The architecture that config.json describes."""
    return owlvit.described(config, patch_size=16)


def table(spec: OpenVocabularySpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return owlvit.table(spec, PREFIX)
