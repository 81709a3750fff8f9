"""Architectures, one file each."""

from txexport.parts.architectures.decoder import DECODER
from txexport.parts.architectures.dual_encoder import DUAL_ENCODER
from txexport.parts.architectures.encoder import ENCODER
from txexport.parts.architectures.encoder_decoder import ENCODER_DECODER
from txexport.parts.part import Architecture
from txexport.spec import ModelSpec

EVERY: tuple[Architecture, ...] = (ENCODER, DECODER, ENCODER_DECODER, DUAL_ENCODER)
OF_SPEC: dict[type, Architecture] = {one.spec: one for one in EVERY}


def architecture_of(spec: ModelSpec) -> Architecture:
    """The architecture of a model."""
    return OF_SPEC[type(spec)]
