"""Heads of stacks, one file each: the functions that give a graph's outputs."""

from collections.abc import Callable

import onnx_ir as ir

from txexport.spec import HeadKind
from txgraphs.heads import masked_lm, none, sequence, spans, tokens

OUTPUTS: dict[HeadKind, Callable[..., dict[str, ir.Value]]] = {
    HeadKind.NONE: none.outputs,
    HeadKind.CAUSAL_LM: none.outputs,  # of the encoder before the decoder that has the head
    HeadKind.MASKED_LM: masked_lm.outputs,
    HeadKind.SEQUENCE: sequence.outputs,
    HeadKind.CHOICES: sequence.outputs,
    HeadKind.TOKENS: tokens.outputs,
    HeadKind.SPANS: spans.outputs,
}
