"""What stands on top of a stack: scores of words or labels."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation, HeadKind, Pick
from txexport.spec.layer import NormSpec


@dataclass(frozen=True)
class HeadSpec:
    """Scores of the vocabulary, or of `labels`; a causal LM's hidden states are multiplied by `scale` first.

    `tied` projects with the word embedding itself, and only a language model can. With an `activation`, a
    dense layer precedes the projection, and then a `norm` where there is one; `dense_bias` is the layer's.
    `pick` is what a sequence's scores are made of; tokens of the id `pad_token_id` are not picked as its
    last, or only those of the id `eos_token_id` may be. A causal LM's scores s become
    softcap * tanh(s / softcap).
    """

    kind: HeadKind = HeadKind.NONE
    tied: bool = True
    bias: bool = False
    activation: Activation | None = None
    norm: NormSpec | None = None
    labels: int = 0
    scale: float = 1.0
    pick: Pick = Pick.FIRST
    pad_token_id: int | None = None
    dense_bias: bool = True
    softcap: float | None = None
    eos_token_id: int | None = None

    def __post_init__(self) -> None:
        positive(self, "scale")
        labelled = self.kind not in (HeadKind.NONE, HeadKind.MASKED_LM, HeadKind.CAUSAL_LM)
        if labelled != (self.labels > 0) or (labelled and self.tied):
            raise SpecError(f"HeadSpec: kind '{self.kind}' with {self.labels} labels, tied={self.tied}")
        if self.kind == HeadKind.SPANS and self.labels != 2:
            raise SpecError(f"HeadSpec: a span has 2 ends, not {self.labels}")
        if self.kind == HeadKind.CHOICES and self.labels != 1:
            raise SpecError(f"HeadSpec: a choice has 1 score, not {self.labels}")
        if self.kind == HeadKind.MASKED_LM and (self.activation is None or self.norm is None):
            raise SpecError("HeadSpec: a masked LM head needs an activation and a norm for its transform")
        if self.activation is None and self.norm is not None:
            raise SpecError("HeadSpec: a norm without the dense layer before it")
        if self.kind in (HeadKind.NONE, HeadKind.CAUSAL_LM) and self.activation is not None:
            raise SpecError(f"HeadSpec: a head of kind '{self.kind}' has no dense layer")
        if not self.whole and (self.pick != Pick.FIRST or self.pad_token_id is not None):
            raise SpecError(f"HeadSpec: a head of kind '{self.kind}' picks no token")
        if (self.pick == Pick.LAST_EOS) != (self.eos_token_id is not None):
            raise SpecError(f"HeadSpec: '{self.pick}' of the id {self.eos_token_id}")
        if self.pick == Pick.FIRST_AND_MEAN and self.activation is not None:
            raise SpecError("HeadSpec: two vectors side by side go straight to the projection")
        if self.softcap is not None:
            positive(self, "softcap")
            if self.kind != HeadKind.CAUSAL_LM:
                raise SpecError("HeadSpec: only a causal LM caps its scores")

    @property
    def sought(self) -> int | None:
        """The id that `pick` looks at: the one that ends a sequence, or that of padding."""
        return self.pad_token_id if self.eos_token_id is None else self.eos_token_id

    @property
    def whole(self) -> bool:
        """Whether the head scores a whole sequence."""
        return self.kind in (HeadKind.SEQUENCE, HeadKind.CHOICES)
