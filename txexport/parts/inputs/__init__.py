"""Inputs of stacks, one file each."""

from typing import TypeGuard

from txexport.parts.inputs.log_mel import LOG_MEL
from txexport.parts.inputs.patches import PATCHES
from txexport.parts.inputs.spectrogram import SPECTROGRAM
from txexport.parts.inputs.tokens import TOKENS
from txexport.parts.part import Input
from txexport.spec import StackSpec, TextStackSpec

EVERY: tuple[Input, ...] = (TOKENS, PATCHES, LOG_MEL, SPECTROGRAM)
OF_SPEC: dict[type, Input] = {one.spec: one for one in EVERY}


def input_of(stack: StackSpec) -> Input:
    """The input that a stack reads."""
    return OF_SPEC[type(stack.embedding)]


def reads_tokens(stack: StackSpec) -> TypeGuard[TextStackSpec]:
    """Tell whether a stack reads token ids."""
    return input_of(stack).reads_tokens
