"""Architectures, one file each."""

from txexport.spec import (
    CrossVisionLanguageSpec,
    DecoderSpec,
    DescribedSegmentsSpec,
    DocumentSpec,
    DualEncoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    GroundedSpec,
    OpenVocabularySpec,
    PromptableSpec,
    VisionLanguageSpec,
    VisualRetrieverSpec,
)
from txmodels.architectures.cross_vision_language import CrossVisionLanguageModel
from txmodels.architectures.decoder import DecoderModel
from txmodels.architectures.described_segments import DescribedSegmentsModel
from txmodels.architectures.document import DocumentModel
from txmodels.architectures.dual_encoder import DualEncoderModel
from txmodels.architectures.encoder import EncoderModel
from txmodels.architectures.encoder_decoder import EncoderDecoderModel
from txmodels.architectures.grounded import GroundedModel
from txmodels.architectures.open_vocabulary import OpenVocabularyModel
from txmodels.architectures.promptable import PromptableModel
from txmodels.architectures.vision_language import VisionLanguageModel
from txmodels.architectures.visual_retriever import VisualRetrieverModel

ARCHITECTURES: dict[type, type] = {
    EncoderSpec: EncoderModel,
    DocumentSpec: DocumentModel,
    DecoderSpec: DecoderModel,
    EncoderDecoderSpec: EncoderDecoderModel,
    DualEncoderSpec: DualEncoderModel,
    PromptableSpec: PromptableModel,
    OpenVocabularySpec: OpenVocabularyModel,
    GroundedSpec: GroundedModel,
    DescribedSegmentsSpec: DescribedSegmentsModel,
    CrossVisionLanguageSpec: CrossVisionLanguageModel,
    VisualRetrieverSpec: VisualRetrieverModel,
    VisionLanguageSpec: VisionLanguageModel,
}
