"""Stacks in stages: from one to the next the grid of vectors becomes smaller and the vectors wider."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names
from txexport.spec import BlockSpec, StagedStackSpec, StageSpec, WindowAttentionSpec
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs.block import encoder_block
from txgraphs.inputs import signal_embedding
from txgraphs.norm import norm
from txgraphs.patch_merging import merging
from txgraphs.stack import Given, Values, final_normed
from txgraphs.window_attention import window_shift

SHIFTED = "mask", "rows", "columns", "own_rows", "own_columns"  # what shifted windows are read by


@script(domain, default_opset=op)
def flat_grid(x):
    """x (B,R,C,W) -> (B,S,W), row by row."""
    y = op.Reshape(x, op.Concat(op.Constant(value_ints=[0, -1]), op.Shape(x, start=3), axis=0))
    return y


def staged_encoder(
    spec: StagedStackSpec, graph: Graph, signal: ir.Value, outputs: Given, stack: str = "encoder"
) -> ir.Value:
    """Stages of layers over a grid of vectors; the twin of txmodels' StagedEncoder.

    Pixels or a sound -> last_hidden_state (B,S,W).
    """
    x, _ = signal_embedding(spec, graph / f"{stack}.embedding", signal)  # (B, R, C, W)
    layer = 0
    for number, stage in enumerate(spec.stages):
        if names.HIDDEN_STATES in outputs.asked:
            outputs.hidden(graph.call(flat_grid, x, name="states"))
        shifted = stage_context(stage, graph, x)
        for block in stage.layers:
            (x,) = encoder_block(block, False, graph / f"{stack}.layers.{layer}", x, **shifted[block])
            layer += 1
        if stage.norm is not None:
            x = norm(stage.norm, graph / f"{stack}.norms.{number}", x)
        mapped = x
        if stage.map_norm is not None:
            mapped = norm(stage.map_norm, graph / f"{stack}.map_norms.{number}", x)
        outputs.stage(mapped)
        if stage.merging is not None:
            x = merging(stage.merging, graph / f"{stack}.mergings.{number}", x)
    flat = graph.call(flat_grid, x, name="flat")  # (B, S, W)
    return final_normed(spec, graph, stack, flat, outputs)


def stage_context(stage: StageSpec, graph: Graph, x: ir.Value) -> dict[BlockSpec, Values]:
    """Of each block of a stage over x (B,R,C,W) the other inputs of attention, those of `window_shift`."""
    contexts: dict[BlockSpec, Values] = {}
    for block in stage.blocks:
        kind = block.attention
        if not isinstance(kind, WindowAttentionSpec):
            contexts[block] = {}
            continue
        values = graph.call(window_shift(kind), x, name="shift") if kind.shift else [None] * len(SHIFTED)
        contexts[block] = dict(zip(SHIFTED, values, strict=True))
    return contexts
