"""ColPali (Faysse et al. 2024): PaliGemma with a projection of every token, for late interaction."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.families import _retrieval, paligemma
from txexport.families._config import Config, TensorNames
from txexport.spec import VisualRetrieverSpec

TASKS = {"visual-document-retrieval": ("ColPaliForRetrieval",)}

NAMING = replace(paligemma.NAMING, prefix="vlm.", others=("vlm.model.",))


def spec(config: Config, task: str, names: TensorNames) -> VisualRetrieverSpec:
    """The architecture that config.json describes: all tokens are a prefix, and attend to each other."""
    model = paligemma.spec(_retrieval.nested(config, paligemma, "paligemma"), task, names)
    return _retrieval.retriever(config, model, _retrieval.bidirectional(model.decoder))


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    inner = _retrieval.nested(config, paligemma, "paligemma")
    rules, drop = _retrieval.without_head(paligemma.table_of(inner, task, names))
    return Table(rules, NAMING, drop)
