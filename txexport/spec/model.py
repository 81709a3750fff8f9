"""Whole models: an encoder, a decoder, both in sequence, or two encoders side by side.

Every class has `stacks` by name, and says whether it `generates` tokens. All but dual encoders have a `head`
on the `stack` under it, which knows `vocab_size` tokens, 0 where it reads none.
"""

from txexport.spec.decoder import DecoderSpec
from txexport.spec.dual_encoder import DualEncoderSpec
from txexport.spec.encoder import EncoderSpec
from txexport.spec.encoder_decoder import EncoderDecoderSpec

ModelSpec = EncoderSpec | DecoderSpec | EncoderDecoderSpec | DualEncoderSpec
