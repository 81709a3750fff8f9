"""The spec of a Transformer: nested frozen dataclasses with every architectural choice, and nothing else.

A spec checks itself when it is constructed and raises SpecError if its parts contradict each other. It is
independent of checkpoints, weights and graphs.
"""

from txexport.spec.attention import (
    AttentionSpec,
    DisentangledAttentionSpec,
    Factored,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    PerformerAttentionSpec,
    PositionedAttentionSpec,
    RotarySpec,
    Sharing,
    SparseAttentionSpec,
    StridedAttentionSpec,
    TransformerXLAttentionSpec,
)
from txexport.spec.embedding import (
    LONGEST_DISTANCE,
    AlibiSpec,
    EmbeddingSpec,
    LogMelSpec,
    PatchSpec,
    PositionSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RoundedAlibiSpec,
    SinusoidVectorsSpec,
    SpectrogramSpec,
)
from txexport.spec.enums import (
    Activation,
    Architecture,
    Cache,
    HeadKind,
    NormKind,
    NormPlacement,
    Pick,
    PositionKind,
)
from txexport.spec.head import AttentionPoolSpec, HeadSpec, VectorSpec
from txexport.spec.latent_attention import LatentAttentionSpec, MaskedAttentionSpec
from txexport.spec.layer import BlockSpec, ExpertsSpec, FeedForwardSpec
from txexport.spec.model import DecoderSpec, DualEncoderSpec, EncoderDecoderSpec, EncoderSpec, ModelSpec
from txexport.spec.norm import NormSpec
from txexport.spec.stack import SignalStackSpec, StackSpec, TextStackSpec

__all__ = [
    "LONGEST_DISTANCE",
    "Activation",
    "AlibiSpec",
    "Architecture",
    "AttentionPoolSpec",
    "AttentionSpec",
    "BlockSpec",
    "Cache",
    "DecoderSpec",
    "DisentangledAttentionSpec",
    "DualEncoderSpec",
    "EmbeddingSpec",
    "EncoderDecoderSpec",
    "EncoderSpec",
    "ExpertsSpec",
    "Factored",
    "FeedForwardSpec",
    "HeadKind",
    "HeadSpec",
    "LatentAttentionSpec",
    "LinformerAttentionSpec",
    "LocalAttentionSpec",
    "LogMelSpec",
    "LongformerAttentionSpec",
    "LowRankAttentionSpec",
    "MaskedAttentionSpec",
    "ModelSpec",
    "NormKind",
    "NormPlacement",
    "NormSpec",
    "PatchSpec",
    "PerformerAttentionSpec",
    "Pick",
    "PositionKind",
    "PositionSpec",
    "PositionedAttentionSpec",
    "RelativeSpec",
    "RelativeVectorsSpec",
    "RotarySpec",
    "RoundedAlibiSpec",
    "Sharing",
    "SignalStackSpec",
    "SinusoidVectorsSpec",
    "SparseAttentionSpec",
    "SpectrogramSpec",
    "StackSpec",
    "StridedAttentionSpec",
    "TextStackSpec",
    "TransformerXLAttentionSpec",
    "VectorSpec",
]
