"""Inputs of stacks, one file each."""

from importlib import import_module

from torch import nn

from txexport.parts.inputs import file_of
from txexport.spec import MediaStackSpec


def signal_embedding(stack: MediaStackSpec) -> nn.Module:
    """The module that embeds an image or a sound as vectors (B,S,W), or for stages (B,R,C,W)."""
    embedding: nn.Module = import_module(f"{__name__}.{file_of(stack)}").Embedding(stack.embedding)
    return embedding
