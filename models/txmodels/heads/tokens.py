"""Labels of every token (Devlin et al. 2019, 5.3)."""

from torch import Tensor

from txexport.contracts import names
from txexport.spec import HeadSpec
from txmodels.heads._transform import Tokens, Transform


class TokenHead(Transform):
    """Scores of every token's labels (Devlin et al. 2019, 5.3)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__(spec, hidden_size, spec.labels)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> logits (B,S,labels)."""
        logits = self.project(self.shape(x))  # (B, S, labels)
        return logits

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,S,labels)."""
        return {names.LOGITS: self(x)}


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> TokenHead:
    """The head of a model's spec."""
    return TokenHead(spec, hidden_size)
