"""Whole models: an encoder, of words in their boxes too, a decoder, both in sequence, two encoders side by
side, one with a decoder of masks, or one before a decoder, or an encoder, that reads images among its tokens
or by cross-attention.

Every class has `stacks` by name, and says whether it `generates` tokens. Those that generate, and encoders,
have a `head` on the `stack` under it, which knows `vocab_size` tokens, 0 where it reads none.
"""

from txexport.spec.cross_vision_language import CrossVisionLanguageSpec
from txexport.spec.decoder import DecoderSpec
from txexport.spec.described_segments import DescribedSegmentsSpec
from txexport.spec.document import DocumentSpec
from txexport.spec.dual_encoder import DualEncoderSpec
from txexport.spec.encoder import EncoderSpec
from txexport.spec.encoder_decoder import EncoderDecoderSpec
from txexport.spec.grounded import GroundedSpec
from txexport.spec.open_vocabulary import OpenVocabularySpec
from txexport.spec.promptable import PromptableSpec
from txexport.spec.vision_language import VisionLanguageSpec
from txexport.spec.visual_retriever import VisualRetrieverSpec

ModelSpec = (
    EncoderSpec
    | DecoderSpec
    | EncoderDecoderSpec
    | DualEncoderSpec
    | PromptableSpec
    | OpenVocabularySpec
    | GroundedSpec
    | DescribedSegmentsSpec
    | VisionLanguageSpec
    | CrossVisionLanguageSpec
    | VisualRetrieverSpec
    | DocumentSpec
)
