"""No head: hidden states."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: last_hidden_state (B,S,W)."""
    return {names.LAST_HIDDEN_STATE: x}
