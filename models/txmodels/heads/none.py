"""No head: hidden states."""

from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec
from txmodels.heads._transform import Tokens


class NoHead(nn.Module):
    """The stack's hidden states."""

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: last_hidden_state (B,S,W)."""
        return {names.LAST_HIDDEN_STATE: x}


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> NoHead:
    """The head of a model's spec."""
    return NoHead()
