"""Donut's image encoder (Kim et al. 2022, 3.2): Swin without a norm behind its last stage."""

from dataclasses import replace

from txexport.families import swin
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, StagedStackSpec

TASKS = {"image-feature-extraction": ("DonutSwinModel",)}

NAMING = swin.NAMING
ALIASES = swin.ALIASES
table = swin.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(use_absolute_embeddings=False)
    base = swin.spec(config, task, names)
    assert isinstance(base.encoder, StagedStackSpec)
    return replace(base, encoder=replace(base.encoder, final_norm=None))
