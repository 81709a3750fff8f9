"""Masked language modelling (Devlin et al. 2019, 3.1)."""

from torch import Tensor

from txexport.contracts import names
from txexport.spec import HeadSpec
from txmodels.heads._transform import Tokens, Transform


class MaskedLMHead(Transform):
    """Scores of the vocabulary at every position (Devlin et al. 2019, 3.1)."""

    def forward(self, x: Tensor, word: Tensor) -> Tensor:
        """x (B,S,W), word embedding (V,W) -> logits (B,S,V)."""
        shaped = self.shape(x)  # (B, S, W)
        logits = self.project(shaped, word)  # (B, S, V)
        return logits

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,S,V)."""
        assert word is not None
        return {names.LOGITS: self(x, word)}


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> MaskedLMHead:
    """The head of a model's spec."""
    return MaskedLMHead(spec, hidden_size, vocab_size)
