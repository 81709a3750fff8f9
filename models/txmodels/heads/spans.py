"""Spans of a text (Devlin et al. 2019, 4.2)."""

from torch import Tensor

from txexport.contracts import names
from txexport.spec import HeadSpec
from txmodels.heads._transform import Tokens, Transform


class SpanHead(Transform):
    """Scores of an answer's start and end at every token (Devlin et al. 2019, 4.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__(spec, hidden_size, spec.labels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,S,W) -> start_logits and end_logits (B,S)."""
        both = self.project(self.shape(x))  # (B, S, 2)
        start_logits, end_logits = both.unbind(-1)  # (B, S)
        return start_logits, end_logits

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: start_logits and end_logits (B,S)."""
        return dict(zip((names.START_LOGITS, names.END_LOGITS), self(x), strict=True))


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> SpanHead:
    """The head of a model's spec."""
    return SpanHead(spec, hidden_size)
