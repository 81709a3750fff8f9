"""Heads of a stack: scores of the vocabulary or of labels, and vectors of sequences."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.enums import Activation, HeadKind, Pick
from txexport.spec.layer import FeedForwardSpec
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class HeadSpec:
    """Scores of the vocabulary, or of `labels`; a causal LM's hidden states are multiplied by `scale` first.

    - `tied`: the projection is the word embedding itself; only for a language model.
    - `activation`: a dense layer precedes the projection, with `dense_bias` or without, then a `norm` if
      there is one. The mean of FIRST_TWO may have a norm without a dense layer.
    - `pick`: the vector of a sequence that is scored. LAST skips tokens of the id `pad_token_id`; LAST_EOS
      picks the last token of the id `eos_token_id`.
    - `softcap`: a causal LM's scores s become softcap * tanh(s / softcap).
    - `registers`: the number of register tokens that a mean skips: after the first vector with
      FIRST_AND_MEAN, from the first one on with MEAN_BEHIND.
    - `factored_size`: vectors are first projected to that size. For a causal LM it has no bias and is the
      width of the tied word embedding; for a sequence it has a bias if `factored_bias`.
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
            described = f"{self.labels} labels, tied={self.tied}"
            raise SpecError(f"HeadSpec: kind '{self.kind}' with {described}; expected {expected}")
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
                f"HeadSpec: activation is None, but pick '{self.pick}' takes the mean after a dense layer; "
                f"expected an activation, or pick '{Pick.MEAN}'"
            )
        if self.registers and self.pick not in (Pick.FIRST_AND_MEAN, Pick.MEAN_BEHIND):
            raise SpecError(
                f"HeadSpec: registers is {self.registers}, expected 0 with pick '{self.pick}': only "
                f"'{Pick.FIRST_AND_MEAN}' and '{Pick.MEAN_BEHIND}' skip registers"
            )
        if self.pick == Pick.FIRST_AND_MEAN and self.activation is not None:
            raise SpecError(
                f"HeadSpec: activation is '{self.activation}', expected None with pick '{self.pick}': "
                "its two concatenated vectors are projected without a dense layer"
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
        """The number that `pick` needs: the registers, the eos token's id or the padding's."""
        if self.registers:
            return self.registers
        return self.pad_token_id if self.eos_token_id is None else self.eos_token_id

    @property
    def scores_sequence(self) -> bool:
        """True if the head gives one row of scores for a whole sequence."""
        return self.kind in (HeadKind.SEQUENCE, HeadKind.CHOICES)


@dataclass(frozen=True)
class AttentionPoolSpec:
    """A sequence's vector by attention: a learned vector attends to all hidden states (Lee et al. 2019, 3.2).

    The result passes `norm` and `feed_forward`, with a residual connection around them.
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
                "AttentionPoolSpec: the learned query has no position and sees all hidden states; "
                "expected an attention that is unmasked, without rotary, head_norm and has_position_bias"
            )
        sizes = {kind.hidden_size, self.norm.size, self.feed_forward.hidden_size}
        if len(sizes) > 1:
            raise SpecError(f"AttentionPoolSpec: widths {sorted(sizes)} of its parts, expected one")


@dataclass(frozen=True)
class VectorSpec:
    """One vector of a sequence, an output beside the hidden states: `pick`, then a norm, then a projection.

    `eos_token_id` is the id that ends a text, for a `pick` that needs it. `size` is the width after the
    projection, with a `bias` or without; None is no projection. If it is `compared`, it belongs to the text
    or image encoder of a dual encoder, and the output has that encoder's name. With a `pool`, the vector is
    the pool's output, without norm and projection.
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
                f"VectorSpec: a pool with pick '{self.pick}', {'no' if self.norm is None else 'a'} norm and "
                f"size {self.size}; a pool reads all hidden states, and nothing follows it: "
                f"expected '{Pick.FIRST}', no norm and None"
            )
        if self.size is not None:
            positive(self, "size")
        elif self.bias:
            raise SpecError("VectorSpec: bias is True without a projection; expected a size, or bias=False")
