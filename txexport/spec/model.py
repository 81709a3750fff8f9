"""Whole models: an encoder, a decoder, both in sequence, two encoders side by side, or one with a
decoder of masks.

Every class has `stacks` by name, and says whether it `generates` tokens. All but the last four kinds have a
`head` on the `stack` under it, which knows `vocab_size` tokens, 0 where it reads none.
"""

from txexport.spec.decoder import DecoderSpec
from txexport.spec.dual_encoder import DualEncoderSpec
from txexport.spec.encoder import EncoderSpec
from txexport.spec.encoder_decoder import EncoderDecoderSpec
from txexport.spec.grounded import GroundedSpec
from txexport.spec.open_vocabulary import OpenVocabularySpec
from txexport.spec.promptable import PromptableSpec

ModelSpec = (
    EncoderSpec
    | DecoderSpec
    | EncoderDecoderSpec
    | DualEncoderSpec
    | PromptableSpec
    | OpenVocabularySpec
    | GroundedSpec
)
