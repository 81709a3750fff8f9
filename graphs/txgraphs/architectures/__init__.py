"""Architectures, one file each: the functions that build a model's graphs."""

from collections.abc import Callable

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
from txgraphs._graph import Graph
from txgraphs.architectures.cross_vision_language import cross_vision_language_models
from txgraphs.architectures.decoder import decoder_models
from txgraphs.architectures.described_segments import described_segments_models
from txgraphs.architectures.document import document_models
from txgraphs.architectures.dual_encoder import dual_encoder_models
from txgraphs.architectures.encoder import encoder_models
from txgraphs.architectures.encoder_decoder import encoder_decoder_models
from txgraphs.architectures.grounded import grounded_models
from txgraphs.architectures.open_vocabulary import open_vocabulary_models
from txgraphs.architectures.promptable import promptable_models
from txgraphs.architectures.vision_language import vision_language_models
from txgraphs.architectures.visual_retriever import visual_retriever_models

BUILDERS: dict[type, Callable[..., dict[str, Graph]]] = {
    EncoderSpec: encoder_models,
    DocumentSpec: document_models,
    DecoderSpec: decoder_models,
    EncoderDecoderSpec: encoder_decoder_models,
    DualEncoderSpec: dual_encoder_models,
    PromptableSpec: promptable_models,
    OpenVocabularySpec: open_vocabulary_models,
    GroundedSpec: grounded_models,
    DescribedSegmentsSpec: described_segments_models,
    CrossVisionLanguageSpec: cross_vision_language_models,
    VisualRetrieverSpec: visual_retriever_models,
    VisionLanguageSpec: vision_language_models,
}
