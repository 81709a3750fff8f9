"""Encoders: stacks that read a whole sequence, image or sound at once."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from txexport.spec import (
    AlibiSpec,
    BlockSpec,
    PatchBiasAttentionSpec,
    RelativeSpec,
    RoundedAlibiSpec,
    SignalStackSpec,
    TextStackSpec,
)
from txexport.spec.attention import Reach
from txmodels.block import EncoderBlock
from txmodels.conformer_block import ConformerBlock, distance_context
from txmodels.inputs import signal_embedding
from txmodels.inputs.patches import LayerPosition
from txmodels.length_adapter import LengthAdapter
from txmodels.mask import causal_mask, from_first_token, near_mask, padding_mask
from txmodels.norm import Norm
from txmodels.packed import patch_places, window_mask
from txmodels.position import (
    RelativeBias,
    patch_coordinates,
    patch_rotation,
    positions,
    rotation,
    token_positions,
)
from txmodels.squeeze import PooledMask, Squeeze, Upsampling
from txmodels.stack import Given, Stack, Values, layer_context


def _block(spec: BlockSpec, weighted: bool) -> nn.Module:
    return EncoderBlock(spec, weighted) if spec.convolution is None else ConformerBlock(spec, weighted)


class Encoder(Stack):
    """A stack that reads a whole sequence at once; its layers give their weights where `weighted`."""

    def __init__(self, spec: TextStackSpec, weighted: bool = False):
        super().__init__(spec, (EncoderBlock(block, weighted) for block in spec.layers))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        given: Given | None = None,
        inputs_embeds: Tensor | None = None,
        image_features: Tensor | None = None,
        cross: Sequence[tuple[Tensor, Tensor]] = (),
    ) -> Tensor:
        """All (B,S) -> last_hidden_state (B,S,W); `given` is filled with what layers give.

        With inputs_embeds (B,S,W), these stand in place of the embedding of the ids. image_features (N,W) are
        those of the images among the tokens. `cross` has keys and values (B,K,E,H) of the image to which each
        layer attends, if there is one.
        """
        given = given or Given()
        tokens: Values = {"attention_mask": attention_mask, "global_attention_mask": global_attention_mask}
        padding = self.spec.embedding.position.pad_token_id
        order = positions(input_ids, input_ids.new_zeros(input_ids.shape[0]))  # (B, S)
        places = order if padding is None else token_positions(padding, input_ids)
        # How far apart tokens are: linear biases do not count the padding between them.
        linear = isinstance(self.spec.relative, AlibiSpec | RoundedAlibiSpec)
        apart = attention_mask.cumsum(1) - 1 if linear else order  # (B, S)
        masks = {
            reach: self.mask(reach, attention_mask, input_ids, order)
            for reach in {attention.reach for attention in self.masked_attentions()}
        }
        biased = self.biased_masks(masks, apart, apart)
        rotations = self.rotary_context(order)
        relative = self.relative_context(attention_mask, token_type_ids) | self.fourier_context(input_ids)
        if inputs_embeds is None:
            tokens_and_images = places, token_type_ids, attention_mask, image_features
            x = self.embedding(input_ids, *tokens_and_images)  # (B, S, W)
        else:
            x = inputs_embeds
        for number, (block, layer, masks) in enumerate(
            zip(self.spec.layers, self.layers, biased, strict=True)
        ):
            given.hidden(x)
            context = layer_context(block, tokens, masks, rotations, relative)
            image = dict(zip(("seen_k", "seen_v"), cross[number], strict=True)) if cross else {}
            x, *weights = layer(x, **image, **context)
            given.weights(*weights)
        y: Tensor = self.final_norm(x)
        given.last(x, y)
        return y * attention_mask[:, :, None] if self.spec.masked_output else y

    def mask(self, reach: Reach, attention_mask: Tensor, input_ids: Tensor, order: Tensor) -> Tensor:
        """The attention mask (B,1,S,S) of layers with that reach."""
        if self.spec.causal:
            begun = from_first_token(attention_mask, order) if reach.chunked else order
            return causal_mask(reach, attention_mask, input_ids, begun)
        if reach.window is not None:
            return near_mask(reach.window, attention_mask, input_ids, order)
        return padding_mask(attention_mask, input_ids)


class SignalEncoder(nn.Module):
    """A stack that reads a whole image or sound at once."""

    def __init__(self, spec: SignalStackSpec, weighted: bool = False):
        super().__init__()
        self.spec = spec
        self.embedding = signal_embedding(spec)
        self.layers = nn.ModuleList(_block(block, weighted) for block in spec.layers)
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()
        if isinstance(spec.relative, RelativeSpec):
            self.relative = RelativeBias(spec.relative, spec.blocks[0].attention.num_heads)
        if spec.layer_positions and spec.patches is not None:
            self.layer_positions = nn.ModuleList(
                LayerPosition(spec.patches) for _ in range(spec.num_layers - 1)
            )
        if spec.squeeze is not None:
            self.squeeze, self.upsampling = Squeeze(spec.squeeze), Upsampling(spec.squeeze)
            self.pooled_mask = PooledMask(spec.squeeze)
        if spec.length_adapter is not None:
            self.length_adapter = LengthAdapter(spec.length_adapter, spec.hidden_size)

    def forward(
        self,
        signal: Tensor,
        attention_mask: Tensor | None = None,
        given: Given | None = None,
        spatial_shapes: Tensor | None = None,
        grids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Pixels (B,channels,height,width) or a sound -> last_hidden_state (B,S,W), and its mask (B,S).

        A masked stack reads the attention_mask of its signal; others return None as the mask. Patches of any
        shape have spatial_shapes (B,2), packed ones (N,numbers) grids (I,3). `given` is filled with what
        layers give.
        """
        given, cos, sin, vectors, mask = given or Given(), None, None, None, None
        rotary, patches, packed = self.spec.rotary, self.spec.patches, self.spec.packed
        masks: dict[int | None, Tensor] = {}
        if rotary is not None and rotary.axes and patches is not None:
            cos, sin = rotation(rotary, patch_coordinates(patches.patch_size, signal))  # (B, S, R)
        elif rotary is not None and patches is not None:
            cos, sin = patch_rotation(patches, rotary, signal)  # (B, S, R)
        if rotary is not None and packed is not None:
            assert grids is not None
            coordinates, *groups = patch_places(packed.merged, grids)
            cos, sin = rotation(rotary, coordinates)  # (1, N, R)
            masks = {
                kind.attention.window: window_mask(kind.attention.window, coordinates, *groups)
                for kind in self.spec.blocks
            }
        if self.spec.masked:
            shapes = [] if spatial_shapes is None else [spatial_shapes]
            x, vectors = self.embedding(signal, attention_mask, *shapes)  # (B, S, W), (B, S)
        elif packed is not None:
            x = self.embedding(signal, coordinates, groups[0])  # (1, N, W)
        else:
            x = self.embedding(signal)  # (B, S, W)
        frames, real = x, vectors
        if self.spec.squeeze is not None:
            x = self.squeeze(x)  # (B, S/factor, W)
            vectors = None if vectors is None else self.pooled_mask(vectors)  # (B, S/factor)
        if vectors is not None:
            mask = padding_mask(vectors, x)  # (B, 1, S, S)
        if rotary is not None and patches is None and packed is None:
            cos, sin = rotation(rotary, positions(x, x.new_zeros(x.shape[0], dtype=torch.long)))  # (B, S, R)
        context: Values = {"mask": mask, "cos": cos, "sin": sin}
        if isinstance(self.spec.relative, RelativeSpec):
            order = torch.arange(x.shape[1], device=x.device)[None]  # (1, S)
            context["relative"] = self.relative(order, order)  # (1, N, S, S)
        distances = distance_context(self.spec, x)
        for number, (block, layer) in enumerate(zip(self.spec.layers, self.layers, strict=True)):
            given.hidden(x)
            if self.spec.layer_positions and number:
                x = self.layer_positions[number - 1](x, signal)  # (B, S, W)
            if block.convolution is not None:
                x, *weights = layer(x, vectors, mask=mask, **distances[block])
            else:
                biased = isinstance(block.attention, PatchBiasAttentionSpec)  # which reads nothing else
                if packed is not None:
                    context["mask"] = masks[block.attention.window]
                x, *weights = layer(x, **({} if biased else context))
            given.weights(*weights)
        y: Tensor = self.final_norm(x)
        given.last(x, y)
        if self.spec.length_adapter is not None:
            y, real = self.length_adapter(y, real)  # (B, S', W), (B, S')
        return (y if self.spec.squeeze is None else self.upsampling(y, frames)), real
