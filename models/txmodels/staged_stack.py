"""Stacks in stages: from one to the next the grid of vectors becomes smaller and the vectors wider."""

from torch import Tensor, nn

from txexport.spec import BlockSpec, StagedStackSpec, StageSpec, WindowAttentionSpec
from txmodels.block import EncoderBlock
from txmodels.inputs import signal_embedding
from txmodels.norm import Norm
from txmodels.patch_merging import merging
from txmodels.stack import Given, Values
from txmodels.window_attention import window_shift

SHIFTED = "mask", "rows", "columns", "own_rows", "own_columns"  # what shifted windows are read by


class StagedEncoder(nn.Module):
    """An image or a sound as a grid of vectors, through stages of layers with a merging between two."""

    def __init__(self, spec: StagedStackSpec):
        super().__init__()
        self.spec = spec
        self.embedding = signal_embedding(spec)
        self.layers = nn.ModuleList(EncoderBlock(block) for block in spec.layers)
        merged = [stage.merging for stage in spec.stages if stage.merging is not None]
        self.mergings = nn.ModuleList(merging(part) for part in merged)
        normed = [Norm(stage.norm) if stage.norm is not None else nn.Identity() for stage in spec.stages]
        self.norms = nn.ModuleList(normed)
        of_maps = [stage.map_norm for stage in spec.stages]
        self.map_norms = nn.ModuleList(Norm(part) if part is not None else nn.Identity() for part in of_maps)
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    def forward(
        self, signal: Tensor, attention_mask: Tensor | None = None, outputs: Given | None = None
    ) -> tuple[Tensor, None]:
        """Pixels or a sound -> last_hidden_state (B,S,W), and None for the mask that such a stack lacks.

        `outputs` is filled with the hidden states before each stage and after the last one.
        """
        states, layers = outputs or Given(), iter(self.layers)
        x: Tensor = self.embedding(signal)  # (B, R, C, W)
        for number, stage in enumerate(self.spec.stages):
            states.hidden(flat_grid(x))
            shifted = stage_context(stage, x)
            for block in stage.layers:
                (x,) = next(layers)(x, **shifted[block])
            x = self.norms[number](x)
            states.stage(self.map_norms[number](x))
            if stage.merging is not None:
                x = self.mergings[number](x)
        flat = flat_grid(x)  # (B, S, W)
        y: Tensor = self.final_norm(flat)
        states.last(flat, y)
        return y, None


def stage_context(stage: StageSpec, x: Tensor) -> dict[BlockSpec, Values]:
    """Of each block of a stage over x (B,R,C,W) the other inputs of attention, those of `window_shift`."""
    contexts: dict[BlockSpec, Values] = {}
    for block in stage.blocks:
        kind = block.attention
        if not isinstance(kind, WindowAttentionSpec):
            contexts[block] = {}
            continue
        values = window_shift(kind, x) if kind.shift else [None] * len(SHIFTED)
        contexts[block] = dict(zip(SHIFTED, values, strict=True))
    return contexts


def flat_grid(x: Tensor) -> Tensor:
    """x (B,R,C,W) -> (B,S,W), row by row."""
    y = x.flatten(1, 2)
    return y
