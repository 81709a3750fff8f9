"""What stands on top of a stack: scores of words or labels."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.enums import Activation, HeadKind, Pick
from txexport.spec.layer import FeedForwardSpec
from txexport.spec.norm import NormSpec
from txexport.spec.stack import TextStackSpec


@dataclass(frozen=True)
class HeadSpec:
    """Scores of the vocabulary, or of `labels`; a causal LM's hidden states are multiplied by `scale` first.

    `tied` projects with the word embedding itself, and only a language model can. With an `activation`, a
    dense layer precedes the projection, and then a `norm` where there is one; `dense_bias` is the layer's.
    `pick` is what a sequence's scores are made of; tokens of the id `pad_token_id` are not picked as its
    last, or only those of the id `eos_token_id` may be. A causal LM's scores s become
    softcap * tanh(s / softcap). The mean of FIRST_TWO may have a norm without a dense layer. Of the vectors
    behind the first, a mean leaves out so many `registers`; MEAN_BEHIND leaves out so many of all. With a
    `factored_size`, vectors are projected to so many numbers first: a causal LM's without a bias, as wide as
    the words that it is tied to, a sequence's with a `factored_bias` or without.
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
    registers: int = 0
    factored_size: int | None = None
    factored_bias: bool = False

    def __post_init__(self) -> None:
        positive(self, "scale")
        labelled = self.kind not in (HeadKind.NONE, HeadKind.MASKED_LM, HeadKind.CAUSAL_LM)
        if labelled != (self.labels > 0) or (labelled and self.tied):
            expected = "1 or more, and tied=False" if labelled else "0"
            given = f"{self.labels} labels, tied={self.tied}"
            raise SpecError(f"HeadSpec: kind '{self.kind}' with {given}; expected {expected}")
        if self.kind == HeadKind.SPANS and self.labels != 2:
            raise SpecError(f"HeadSpec: a span has 2 ends, not {self.labels}")
        if self.kind == HeadKind.CHOICES and self.labels != 1:
            raise SpecError(f"HeadSpec: a choice has 1 score, not {self.labels}")
        self._check_dense_layer()
        self._check_pick()
        self._check_factored()
        if self.softcap is not None:
            positive(self, "softcap")
            if self.kind != HeadKind.CAUSAL_LM:
                raise SpecError(
                    f"HeadSpec: softcap is {self.softcap}, expected None in a head of kind '{self.kind}': "
                    "only a causal LM caps its scores"
                )

    def _check_dense_layer(self) -> None:
        if self.kind == HeadKind.MASKED_LM and (self.activation is None) != (self.norm is None):
            lacking = "activation" if self.activation is None else "norm"
            raise SpecError(
                f"HeadSpec: {lacking} is None, but a masked LM's transform has an activation and a norm; "
                "expected both, or neither"
            )
        if self.activation is None and self.norm is not None and self.pick != Pick.FIRST_TWO:
            raise SpecError(
                f"HeadSpec: a norm of {self.norm.size} without the dense layer before it; "
                "expected an activation too, or norm=None"
            )
        if self.kind == HeadKind.NONE and self.activation is not None:
            raise SpecError(
                f"HeadSpec: a head of kind '{self.kind}' has no dense layer; "
                f"activation is '{self.activation}', expected None"
            )

    def _check_pick(self) -> None:
        if not self.scores_sequence and (self.pick != Pick.FIRST or self.pad_token_id is not None):
            raise SpecError(
                f"HeadSpec: a head of kind '{self.kind}' picks no token; pick is '{self.pick}' and "
                f"pad_token_id {self.pad_token_id}, expected '{Pick.FIRST}' and None"
            )
        if (self.pick == Pick.LAST_EOS) != (self.eos_token_id is not None):
            expected = f"an id with '{Pick.LAST_EOS}', and None with another"
            raise SpecError(f"HeadSpec: '{self.pick}' of the id {self.eos_token_id}; expected {expected}")
        if self.pick == Pick.MEAN_LATE and self.activation is None:
            raise SpecError(
                "HeadSpec: activation is None, but the mean is of what a dense layer gives of each token; "
                f"expected one, or pick '{Pick.MEAN}'"
            )
        if self.registers and self.pick not in (Pick.FIRST_AND_MEAN, Pick.MEAN_BEHIND):
            raise SpecError(
                f"HeadSpec: registers is {self.registers}, expected 0 with pick '{self.pick}': only means "
                f"of '{Pick.FIRST_AND_MEAN}' and '{Pick.MEAN_BEHIND}' leave them out"
            )
        if self.pick == Pick.FIRST_AND_MEAN and self.activation is not None:
            raise SpecError(
                f"HeadSpec: two vectors side by side go straight to the projection; activation is "
                f"'{self.activation}', expected None with pick '{self.pick}'"
            )

    def _check_factored(self) -> None:
        biased = self.factored_bias
        if biased and (self.factored_size is None or self.kind == HeadKind.CAUSAL_LM):
            raise SpecError(
                f"HeadSpec: factored_bias is True with factored_size {self.factored_size} in a head of kind "
                f"'{self.kind}'; expected False, or a size and kind '{HeadKind.SEQUENCE}'"
            )
        if self.factored_size is None:
            return
        positive(self, "factored_size")
        projected = self.kind in (HeadKind.CAUSAL_LM, HeadKind.SEQUENCE)
        if not projected or self.pick == Pick.FIRST_AND_MEAN or self.activation or self.norm:
            raise SpecError(
                f"HeadSpec: factored_size is {self.factored_size}, expected None in a head of kind "
                f"'{self.kind}' with activation '{self.activation}' and pick '{self.pick}': a causal LM and "
                "a head of one vector of a sequence alone project, and none has a dense layer or a norm too"
            )

    def projection_size(self, hidden_size: int) -> int:
        """Width of the vectors that the last projection reads."""
        if self.factored_size is not None:
            return self.factored_size
        size = self.norm.size if self.norm is not None else hidden_size
        return 2 * size if self.pick == Pick.FIRST_AND_MEAN else size

    @property
    def sought(self) -> int | None:
        """The id that `pick` looks at: the one that ends a sequence, or that of padding; or the registers."""
        if self.registers:
            return self.registers
        return self.pad_token_id if self.eos_token_id is None else self.eos_token_id

    @property
    def scores_sequence(self) -> bool:
        """Whether the head scores a whole sequence."""
        return self.kind in (HeadKind.SEQUENCE, HeadKind.CHOICES)


@dataclass(frozen=True)
class AttentionPoolSpec:
    """A sequence's vector by attention: a learned vector attends to all hidden states (Lee et al. 2019, 3.2).

    What it finds goes through `norm` and `feed_forward`, whose output is added to it.
    """

    attention: AttentionSpec
    norm: NormSpec
    feed_forward: FeedForwardSpec

    def __post_init__(self) -> None:
        kind = self.attention
        if (
            not kind.unmasked
            or kind.rotary is not None
            or kind.head_norm is not None
            or kind.has_position_bias
        ):
            raise SpecError(
                "AttentionPoolSpec: what attends is no token, has no place and sees everything; expected an "
                "attention that is unmasked, without rotary, head_norm and has_position_bias"
            )
        sizes = {kind.hidden_size, self.norm.size, self.feed_forward.hidden_size}
        if len(sizes) > 1:
            raise SpecError(f"AttentionPoolSpec: widths {sorted(sizes)} of its parts, expected one")


@dataclass(frozen=True)
class VectorSpec:
    """A whole sequence's vector, given beside its hidden states: the one of `pick`, normed, then projected.

    `eos_token_id` is the id that ends a text, where `pick` looks for one. `size` is the width that it is
    projected to, with a `bias` or without; None is no projection. Where it is `compared`, with the vectors
    of a model that reads the other of texts and images, it has the name that two towers give it. With a
    `pool`, the vector is the pool's, and nothing else is done to it.
    """

    pick: Pick = Pick.FIRST
    eos_token_id: int | None = None
    norm: NormSpec | None = None
    size: int | None = None
    bias: bool = False
    compared: bool = False
    pool: AttentionPoolSpec | None = None

    def __post_init__(self) -> None:
        marked, others = self.pick == Pick.FIRST_EOS, (Pick.FIRST, Pick.ARGMAX_ID, Pick.FINAL)
        if not (marked or self.pick in others) or marked != (self.eos_token_id is not None):
            raise SpecError(
                f"VectorSpec: '{self.pick}' of the id {self.eos_token_id}; expected an id with "
                f"'{Pick.FIRST_EOS}', and None with {' or '.join(map(repr, map(str, others)))}"
            )
        if self.pool is not None and (self.pick, self.norm, self.size) != (Pick.FIRST, None, None):
            raise SpecError(
                f"VectorSpec: a pool with pick '{self.pick}', a norm or a size; it reads all hidden states, "
                f"and nothing follows: expected '{Pick.FIRST}', None and None"
            )
        if self.size is not None:
            positive(self, "size")
        elif self.bias:
            raise SpecError("VectorSpec: bias is True without a projection; expected a size, or bias=False")


def check_tied(head: HeadSpec, stack: TextStackSpec) -> None:
    """Raise SpecError where a language model's head is tied to words of another width."""
    words = stack.embedding.word_size
    projected = head.projection_size(stack.hidden_size)
    if head.tied and projected != words:
        raise SpecError(f"HeadSpec: a head of {projected} numbers is tied to word vectors of {words}")
