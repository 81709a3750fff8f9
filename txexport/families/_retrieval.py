"""Vectors of pages and queries over a decoder that reads images (Faysse et al. 2024, 4)."""

from dataclasses import replace
from types import ModuleType

from txexport.checkpoints.weight_map import Rules, Table
from txexport.errors import UnsupportedError
from txexport.families._config import Config
from txexport.spec import AttentionSpec, TextStackSpec, VisionLanguageSpec, VisualRetrieverSpec

PROJECTION: Rules = {"projection.*": "embedding_proj_layer.*"}
HEADS = ("lm_head.*", "language_model.lm_head.*")


def nested(config: Config, family: ModuleType, model_type: str) -> Config:
    """The values of vlm_config, which is of `family`. Raises UnsupportedError for another model_type."""
    inner = config.table("vlm_config")
    if (value := inner.values.get("model_type", model_type)) != model_type:
        raise UnsupportedError(f"{config.path}: vlm_config is of a {value!r:.60}, expected '{model_type}'")
    return inner.renamed(getattr(family, "ALIASES", {}))


def retriever(config: Config, model: VisionLanguageSpec, text: TextStackSpec) -> VisualRetrieverSpec:
    """The retriever over the image encoder of `model`, with `text` in place of its decoder."""
    size = config.integer("embedding_dim", 128)
    return VisualRetrieverSpec(text, model.vision, model.connector, size, model.image_token_id)


def bidirectional(stack: TextStackSpec) -> TextStackSpec:
    """`stack` whose tokens all attend to each other, in layers with a window too."""

    def varied(kind: AttentionSpec) -> AttentionSpec:
        return replace(kind, causal=False, window=None)

    return replace(stack, blocks=tuple(replace(one, attention=varied(one.dense)) for one in stack.blocks))


def of_one_axis(stack: TextStackSpec) -> TextStackSpec:
    """`stack` whose positions count tokens alone."""

    def varied(kind: AttentionSpec) -> AttentionSpec:
        return kind if kind.rotary is None else replace(kind, rotary=replace(kind.rotary, axes=()))

    return replace(stack, blocks=tuple(replace(one, attention=varied(one.dense)) for one in stack.blocks))


def without_head(table: Table) -> tuple[Rules, tuple[str, ...]]:
    """A decoder's rules for a stack of tokens under the projection, and the tensors that are left out."""
    rules = {
        f"text.{key.removeprefix('decoder.')}" if key.startswith("decoder.") else key: rule
        for key, rule in table.rules.items()
        if not key.startswith("head.")
    }
    return rules | PROJECTION, (*table.drop, *HEADS)
