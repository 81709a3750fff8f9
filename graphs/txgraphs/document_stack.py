"""Stacks that read the words of a page in their boxes (Xu et al. 2020)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import PageBiasSpec, TextStackSpec
from txgraphs._graph import Graph
from txgraphs.block import encoder_block
from txgraphs.layout import last_layout_block, layout_block, layout_embedding
from txgraphs.mask import biased_mask, padding_mask
from txgraphs.page import page_bias, with_patches
from txgraphs.position import positions, token_positions
from txgraphs.stack import Given, embedded, final_normed


def document_encoder(
    spec: TextStackSpec, graph: Graph, inputs: dict[str, ir.Value], outputs: Given, stack: str = "encoder"
) -> ir.Value:
    """A stack that reads the words of a page; the twin of txmodels' DocumentEncoder.

    input_ids, attention_mask and token_type_ids (B,S), bbox (B,S,4) -> last_hidden_state (B,S,W). With
    pixel_values (B,channels,height,width), those of the P patches follow: (B,S+P,W).
    """
    input_ids, attention_mask = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    padding, page = spec.embedding.position.pad_token_id, spec.embedding.page
    order = graph.call(positions, input_ids, graph.constant("start", [0]), name="order")  # (1, S)
    rows = order if padding is None else graph.call(token_positions(padding), input_ids, name="positions")
    x = embedded(spec, graph, stack, inputs, rows)  # (B, S+P, W)
    bbox = inputs[names.BBOX]
    if page is not None:
        attention_mask, bbox, order = graph.call(
            with_patches(page), attention_mask, bbox, order, name="places"
        )
    mask = graph.call(padding_mask, attention_mask, attention_mask, name="mask")  # (B, 1, S+P, S+P)
    if isinstance(spec.relative, PageBiasSpec):
        bias = page_bias(spec.relative, graph / f"{stack}.relative", order, bbox)
        mask = graph.call(biased_mask, bias, mask, name="biased_mask")  # (B, N, S+P, S+P)
    layout = None
    if spec.layout is not None:
        layout = layout_embedding(spec.layout, graph / f"{stack}.layout", bbox, rows)  # (B, S, L)
    for layer, block in enumerate(spec.layers):
        outputs.hidden(x)
        place = block, outputs.weighted, graph / f"{stack}.layers.{layer}"
        if block.layout is None:
            x, *weights = encoder_block(*place, x, mask=mask, cos=None, sin=None)
        elif block.layout.ends:
            x, *weights = last_layout_block(*place, x, layout, mask)
        else:
            x, layout, *weights = layout_block(*place, x, layout, mask)
        outputs.weights(*weights)
    return final_normed(spec, graph, stack, x, outputs)
