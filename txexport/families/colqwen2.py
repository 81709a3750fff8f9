"""ColQwen2 (Faysse et al. 2024): Qwen2-VL with a projection of every token, for late interaction."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _retrieval, qwen2_vl
from txexport.families._config import Config, TensorNames
from txexport.spec import PackedSpec, VisionLanguageSpec, VisualRetrieverSpec

TASKS = {"visual-document-retrieval": ("ColQwen2ForRetrieval",)}

NAMING = Naming("vlm.language_model.", others=("vlm.model.language_model.", "vlm.model.", "vlm."))


def spec(config: Config, task: str, names: TensorNames) -> VisualRetrieverSpec:
    """The architecture that config.json describes: positions count tokens, those of images too."""
    model = _model(config, task, names)
    assert isinstance(model.vision.embedding, PackedSpec)
    patches = replace(model.vision.embedding, grids="image_grid_thw")
    model = replace(model, vision=replace(model.vision, embedding=patches))
    return _retrieval.retriever(config, model, _retrieval.of_one_axis(model.decoder))


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules, drop = _retrieval.without_head(qwen2_vl.table(_model(config, task, names)))
    return Table(rules, NAMING, drop)


def _model(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    return qwen2_vl.spec(_retrieval.nested(config, qwen2_vl, "qwen2_vl"), task, names)
