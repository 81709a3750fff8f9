"""Labels of a sequence, from one vector of it (Devlin et al. 2019, 3.2)."""

from torch import Tensor

from txexport.contracts import names
from txexport.spec import HeadSpec, Pick
from txmodels.heads._transform import Tokens, Transform
from txmodels.heads.pick import pick


class SequenceHead(Transform):
    """Scores of a sequence's labels, from one vector of it (Devlin et al. 2019, 3.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__(spec, hidden_size, spec.labels)
        self.pick, self.token = spec.pick, spec.pick_argument

    def forward(self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        """x (B,S,W), input_ids and attention_mask (B,S) -> logits (B,labels)."""
        if self.pick == Pick.MEAN_AFTER_DENSE:
            x = self.shape(x)  # (B, S, W)
        shaped = pick(self.pick, self.token, x, input_ids, attention_mask)  # (B, W)
        if self.pick != Pick.MEAN_AFTER_DENSE:
            shaped = self.shape(shaped)  # (B, W)
        logits = self.project(shaped)  # (B, labels)
        return logits

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,labels)."""
        return {names.LOGITS: self(x, *tokens)}


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> SequenceHead:
    """The head of a model's spec."""
    return SequenceHead(spec, hidden_size)
