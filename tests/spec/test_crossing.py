"""Cross attention is of blocks that have something to attend to; elsewhere a spec with it is refused."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import SpecError
from txexport.spec import AttentionSpec, BlockSpec, NormPlacement


def crossing(value: Any) -> Iterator[Callable[[], Any]]:
    """Functions that build `value` again, each with cross attention in another of its blocks."""
    if isinstance(value, BlockSpec):
        width = value.attention.hidden_size
        cross = AttentionSpec(width, 1, 1, width, causal=False, unmasked=True)
        plain = isinstance(value.attention, AttentionSpec) and value.cross_attention is None
        if plain and value.placement in (NormPlacement.PRE, NormPlacement.POST):
            yield lambda: replace(value, cross_attention=cross)
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            for build in crossing(part):
                yield lambda place=place, build=build: (*value[:place], build(), *value[place + 1 :])
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            for build in crossing(getattr(value, field.name)):
                yield lambda name=field.name, build=build: replace(value, **{name: build()})


@pytest.mark.parametrize(
    "name",
    [
        *("bert", "layoutlm", "vit", "convnext", "wav2vec2", "swin", "segformer", "clip", "clap", "siglip2"),
        *("owlvit", "grounding-dino", "clipseg", "sam", "sam2", "detr", "mllama", "llava", "colpali", "gpt2"),
        *("blip", "whisper", "pix2struct", "depth_anything", "vitpose", "mask2former"),
    ],
)
def test_nothing_else_attends_to_another_stack(name, checkpoint_of):
    spec = families.resolve(Checkpoint(checkpoint_of(name))).spec
    for build in crossing(spec):
        with pytest.raises(SpecError):
            build()
