"""Inputs of stacks, one file each."""

from txexport.parts.inputs.log_mel import LOG_MEL
from txexport.parts.inputs.patches import PATCHES
from txexport.parts.inputs.spectrogram import SPECTROGRAM
from txexport.parts.inputs.tokens import TOKENS
from txexport.parts.part import Input
from txexport.spec import StackSpec

EVERY: tuple[Input, ...] = (TOKENS, PATCHES, LOG_MEL, SPECTROGRAM)
OF_SPEC: dict[type, Input] = {one.spec: one for one in EVERY}


def input_of(stack: StackSpec) -> Input:
    """The input that a stack reads."""
    return OF_SPEC[type(stack.embedding)]
