"""Stacks that read the words of a page in their boxes (Xu et al. 2020)."""

from torch import Tensor, nn

from txexport.spec import BlockSpec, PageBiasSpec, TextStackSpec
from txmodels.block import EncoderBlock
from txmodels.layout import LastLayoutBlock, LayoutBlock, LayoutEmbedding
from txmodels.mask import biased_mask, padding_mask
from txmodels.page import PageBias, with_patches
from txmodels.position import positions, token_positions
from txmodels.stack import Given, Stack


def _layer(spec: BlockSpec, weighted: bool) -> nn.Module:
    if spec.layout is None:
        return EncoderBlock(spec, weighted)
    return (LastLayoutBlock if spec.layout.ends else LayoutBlock)(spec, weighted)


class DocumentEncoder(Stack):
    """A stack that reads the words of a page; its layers give their weights where `weighted`."""

    def __init__(self, spec: TextStackSpec, weighted: bool = False):
        super().__init__(spec, (_layer(block, weighted) for block in spec.layers))
        self.layout = None if spec.layout is None else LayoutEmbedding(spec.layout)
        if isinstance(spec.relative, PageBiasSpec):
            self.relative = PageBias(spec.relative, spec.blocks[0].attention.num_heads)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        bbox: Tensor,
        token_type_ids: Tensor | None = None,
        pixel_values: Tensor | None = None,
        outputs: Given | None = None,
    ) -> Tensor:
        """input_ids, attention_mask and token_type_ids (B,S), bbox (B,S,4) -> last_hidden_state (B,S,W).

        With pixel_values (B,channels,height,width), those of the P patches follow: (B,S+P,W). `outputs` are
        filled with what layers give.
        """
        outputs = outputs or Given()
        padding, page = self.spec.embedding.position.pad_token_id, self.spec.embedding.page
        order = positions(input_ids, input_ids.new_zeros(1))  # (1, S)
        rows = order if padding is None else token_positions(padding, input_ids)
        tokens = input_ids, rows, token_type_ids, attention_mask
        x = self.embedding(*tokens, boxes=bbox, pixel_values=pixel_values)  # (B, S+P, W)
        if page is not None:
            attention_mask, bbox, order = with_patches(page, attention_mask, bbox, order)
        mask = padding_mask(attention_mask, attention_mask)  # (B, 1, S+P, S+P)
        if isinstance(self.spec.relative, PageBiasSpec):
            mask = biased_mask(self.relative(order, bbox), mask)  # (B, N, S+P, S+P)
        layout = None if self.layout is None else self.layout(bbox, rows)  # (B, S, L)
        for block, layer in zip(self.spec.layers, self.layers, strict=True):
            outputs.hidden(x)
            if block.layout is None:
                x, *weights = layer(x, mask=mask, cos=None, sin=None)
            elif block.layout.ends:
                x, *weights = layer(x, layout, mask)
            else:
                x, layout, *weights = layer(x, layout, mask)
            outputs.weights(*weights)
        y: Tensor = self.final_norm(x)
        outputs.last(x, y)
        return y
