"""Encoders: stacks that read a whole sequence, image or sound at once."""

from torch import Tensor, nn

from txexport.spec import AlibiSpec, RoundedAlibiSpec, SignalStackSpec, TextStackSpec
from txmodels.block import EncoderBlock
from txmodels.inputs import signal_embedding
from txmodels.mask import causal_mask, near_mask, padding_mask
from txmodels.norm import Norm
from txmodels.position import patch_rotation, positions, token_positions
from txmodels.stack import Given, Stack, Values, layer_context


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
    ) -> Tensor:
        """All (B,S) -> last_hidden_state (B,S,W); `given` is filled with what layers give."""
        given = given or Given()
        tokens: Values = {"attention_mask": attention_mask, "global_attention_mask": global_attention_mask}
        padding = self.spec.embedding.position.pad_token_id
        order = positions(input_ids, input_ids.new_zeros(input_ids.shape[0]))  # (B, S)
        places = order if padding is None else token_positions(padding, input_ids)
        # How far apart tokens are: linear biases do not count the padding between them.
        linear = isinstance(self.spec.relative, AlibiSpec | RoundedAlibiSpec)
        apart = attention_mask.cumsum(1) - 1 if linear else order  # (B, S)
        masks = {
            window: self.mask(window, attention_mask, input_ids, order)
            for window in {attention.window for attention in self.masked_attentions()}
        }
        biased = self.biased_masks(masks, apart, apart)
        rotations = self.rotary_context(order)
        relative = self.relative_context(attention_mask, token_type_ids)
        x = self.embedding(input_ids, places, token_type_ids, attention_mask)  # (B, S, W)
        for block, layer, masks in zip(self.spec.layers, self.layers, biased, strict=True):
            given.hidden(x)
            x, *weights = layer(x, **layer_context(block, tokens, masks, rotations, relative))
            given.weights(*weights)
        y: Tensor = self.final_norm(x)
        given.last(x, y)
        return y

    def mask(self, window: int | None, attention_mask: Tensor, input_ids: Tensor, order: Tensor) -> Tensor:
        """The attention mask (B,1,S,S) of layers with that window."""
        if self.spec.causal:
            return causal_mask(window, attention_mask, input_ids, order)
        if window is not None:
            return near_mask(window, attention_mask, input_ids, order)
        return padding_mask(attention_mask, input_ids)


class SignalEncoder(nn.Module):
    """A stack that reads a whole image or sound at once."""

    def __init__(self, spec: SignalStackSpec, weighted: bool = False):
        super().__init__()
        self.spec = spec
        self.embedding = signal_embedding(spec)
        self.layers = nn.ModuleList(EncoderBlock(block, weighted) for block in spec.layers)
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    def forward(self, signal: Tensor, given: Given | None = None) -> Tensor:
        """Pixels (B,channels,height,width) or a spectrogram (B,bands,frames) -> last_hidden_state (B,S,W).

        `given` is filled with what layers give.
        """
        given, cos, sin = given or Given(), None, None
        if self.spec.rotary is not None:
            cos, sin = patch_rotation(self.spec.patches, self.spec.rotary, signal)  # (B, S, R)
        x = self.embedding(signal)  # (B, S, W)
        for layer in self.layers:
            given.hidden(x)
            x, *weights = layer(x, mask=None, cos=cos, sin=sin)
            given.weights(*weights)
        y: Tensor = self.final_norm(x)
        given.last(x, y)
        return y
