"""Spans of a text (Devlin et al. 2019, 4.2)."""

from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec
from txmodels.activation import activation
from txmodels.heads._transform import Tokens, Transform
from txmodels.heads.pick import pick
from txmodels.linear import Linear
from txmodels.norm import Norm


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


class QuestionSpanHead(nn.Module):
    """Scores of an answer's start and end as products with a question's vector (Ram et al. 2021, 3.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        self.pick, self.token = spec.pick, spec.pick_argument
        ends = ("start", "end")
        self.question = nn.ModuleDict({end: _Dense(spec, hidden_size, projects=True) for end in ends})
        self.each = nn.ModuleDict({end: _Dense(spec, hidden_size, projects=False) for end in ends})

    def forward(self, x: Tensor, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,S,W), input_ids (B,S) -> start_logits and end_logits (B,S)."""
        question = pick(self.pick, self.token, x, input_ids, None)  # (B, W)
        start_logits = self.scores("start", question, x)
        end_logits = self.scores("end", question, x)
        return start_logits, end_logits

    def scores(self, end: str, question: Tensor, x: Tensor) -> Tensor:
        """question (B,W), x (B,S,W) -> scores (B,S)."""
        query = self.question[end](question)[:, :, None]  # (B, W, 1)
        scores: Tensor = (self.each[end](x) @ query).squeeze(2)
        return scores

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: start_logits and end_logits (B,S)."""
        input_ids = tokens[0]
        assert input_ids is not None
        return dict(zip((names.START_LOGITS, names.END_LOGITS), self(x, input_ids), strict=True))


class _Dense(nn.Module):
    """A dense layer, activation and norm, with a projection behind them or without."""

    def __init__(self, spec: HeadSpec, hidden_size: int, projects: bool):
        super().__init__()
        assert spec.activation is not None
        assert spec.norm is not None
        self.dense = Linear(hidden_size, hidden_size, spec.dense_bias)
        self.act = activation(spec.activation)
        self.norm = Norm(spec.norm)
        self.project = Linear(hidden_size, hidden_size, bias=False) if projects else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """x (...,W) -> y (...,W)."""
        y: Tensor = self.project(self.norm(self.act(self.dense(x))))
        return y


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> SpanHead | QuestionSpanHead:
    """The head of a model's spec."""
    return (QuestionSpanHead if spec.question_aware else SpanHead)(spec, hidden_size)
