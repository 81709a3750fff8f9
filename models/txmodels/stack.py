"""The base of encoders and decoders of tokens: embeddings, masks, rotations, relative positions."""

from collections.abc import Iterable
from typing import assert_never

from torch import Tensor, nn

from txexport.contracts.layer_outputs import LayerOutputs
from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    FourierMixingSpec,
    MaskedAttentionSpec,
    PageBiasSpec,
    PositionedAttentionSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RotarySpec,
    RoundedAlibiSpec,
    SinusoidVectorsSpec,
    TextStackSpec,
)
from txexport.spec.attention import Reach
from txmodels.disentangled_attention import RelativeVectors
from txmodels.fourier_mixing import fourier_tables
from txmodels.inputs.tokens import Embedding
from txmodels.mask import biased_mask, mutual_mask, padding_mask
from txmodels.norm import Norm
from txmodels.position import RelativeBias, alibi, query_growth, rotation, rounded_alibi
from txmodels.transformer_xl_attention import other_segments, sinusoid_vectors

Values = dict[str, Tensor | None]
Masks = dict[Reach, Tensor]
Given = LayerOutputs[Tensor]


class Stack(nn.Module):
    """The parts that encoders and decoders of tokens share."""

    def __init__(self, spec: TextStackSpec, blocks: Iterable[nn.Module]):
        super().__init__()
        self.spec = spec
        self.embedding = Embedding(spec.embedding)
        if isinstance(spec.relative, RelativeSpec):
            heads, several = spec.blocks[0].attention.num_heads, spec.relative.every_layer
            tables = [RelativeBias(spec.relative, heads) for _ in range(spec.num_layers if several else 1)]
            self.relative: nn.Module = nn.ModuleList(tables) if several else tables[0]
        elif isinstance(spec.relative, RelativeVectorsSpec):
            self.relative = RelativeVectors(spec.relative, spec.hidden_size)
        self.layers = nn.ModuleList(blocks)
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    @property
    def token_embedding(self) -> Tensor:
        """The token embedding (V,W)."""
        return self.embedding.word.weight

    def biased_masks(self, masks: Masks, queries: Tensor, keys: Tensor) -> list[Masks]:
        """Of each layer the masks (B,1,S,T), with its bias of relative positions (B,N,S,T) if any."""
        match self.spec.relative:
            case None | RelativeVectorsSpec() | SinusoidVectorsSpec() | PageBiasSpec():
                return [masks] * self.spec.num_layers
            case AlibiSpec() as kind:
                biases = [alibi(kind, queries, keys)]
            case RoundedAlibiSpec() as kind:
                biases = [rounded_alibi(kind, queries, keys)]
            case RelativeSpec():
                tables = self.relative if isinstance(self.relative, nn.ModuleList) else [self.relative]
                biases = [table(queries, keys) for table in tables]
            case unknown:
                assert_never(unknown)
        layers = [{reach: biased_mask(bias, mask) for reach, mask in masks.items()} for bias in biases]
        return layers if len(layers) > 1 else layers * self.spec.num_layers

    def masked_attentions(self) -> list[MaskedAttentionSpec]:
        """The attentions of the stack that read a mask of pairs."""
        return [
            block.attention for block in self.spec.blocks if isinstance(block.attention, MaskedAttentionSpec)
        ]

    def rotary_context(self, places: Tensor, short: bool = False) -> dict[RotarySpec | None, Values]:
        """Cosines and sines for every way of rotating that a layer has, of `short` sequences alone.

        A static cache has places of padding, which tell nothing of how long a sequence is.
        """
        rotations: dict[RotarySpec | None, Values] = {}
        for kind in {attention.rotary for attention in self.masked_attentions()}:
            cos = sin = None
            if kind is not None:
                cos, sin = rotation(kind.of_short if short else kind, places)
            rotations[kind] = {"cos": cos, "sin": sin}
            if kind is not None and kind.growth is not None:
                rotations[kind]["growth"] = query_growth(kind.growth, places)
        return rotations

    def relative_context(self, attention_mask: Tensor, token_type_ids: Tensor | None) -> Values:
        """Masks and vectors for attention over relative positions, of masks and token types (B,S)."""
        match self.spec.relative:
            case RelativeVectorsSpec():
                vectors, of_query, of_key = self.relative(attention_mask)
                mask = mutual_mask(attention_mask)  # (B, 1, S, S)
                return {"mask": mask, "vectors": vectors, "of_query": of_query, "of_key": of_key}
            case SinusoidVectorsSpec() as kind:
                assert token_type_ids is not None
                vectors, of_query = sinusoid_vectors(kind, attention_mask)
                mask = padding_mask(attention_mask, attention_mask)  # (B, 1, S, S)
                apart = other_segments(token_type_ids)  # (B, 1, S, S)
                return {"mask": mask, "vectors": vectors, "of_query": of_query, "apart": apart}
        return {}

    def fourier_context(self, tokens: Tensor) -> Values:
        """The tables of Fourier transforms over tokens (B,S), where layers have any."""
        for block in self.spec.blocks:
            if isinstance(block.attention, FourierMixingSpec):
                return dict(zip(block.attention.tables, fourier_tables(block.attention, tokens), strict=True))
        return {}


def layer_context(
    block: BlockSpec,
    tokens: Values,
    masks: Masks,
    rotations: dict[RotarySpec | None, Values],
    relative: Values,
) -> Values:
    """The inputs of a block's attention but the hidden states.

    Masks of tokens (B,S), or one of pairs (B,1,S,T) and a rotation, or `relative` positions, or tables.
    """
    if isinstance(block.attention, PositionedAttentionSpec | FourierMixingSpec):
        return relative
    if not isinstance(block.attention, MaskedAttentionSpec):
        return {name: tokens[name] for name in block.attention.token_masks}
    return {"mask": masks.get(block.attention.reach)} | rotations[block.attention.rotary]
