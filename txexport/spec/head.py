"""Heads on a stack: scores of tokens or labels, and pooled vectors."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.boxes import BoxesSpec
from txexport.spec.depth import DepthSpec, StagedDepthSpec
from txexport.spec.enums import Activation, HeadKind, Pick
from txexport.spec.feature_fusion import FeatureFusionSpec
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.instance_masks import InstanceMasksSpec
from txexport.spec.masked_queries import MaskedQueriesSpec
from txexport.spec.masks import MasksSpec
from txexport.spec.norm import NormSpec
from txexport.spec.object_masks import ObjectMasksSpec
from txexport.spec.pose import PoseSpec
from txexport.spec.segments import FusedSegmentsSpec, MapPyramidSpec, PyramidSpec, SegmentsSpec
from txexport.spec.stack import TextStackSpec
from txexport.spec.time_delay import TimeDelaySpec

UNLABELLED = (HeadKind.NONE, HeadKind.LAST_MAP, HeadKind.MASKED_LM, HeadKind.CAUSAL_LM, HeadKind.DEPTH)
OF_KINDS = {  # fields that one kind of head has
    "time_delay": HeadKind.SPEAKER,
    "boxes": HeadKind.BOXES,
    "depth": HeadKind.DEPTH,
    "segments": HeadKind.SEGMENTS,
    "masks": HeadKind.MASKS,
    "masked_queries": HeadKind.MASKED_QUERIES,
    "object_masks": HeadKind.OBJECT_MASKS,
    "instance_masks": HeadKind.INSTANCE_MASKS,
    "pose": HeadKind.POSE,
}


@dataclass(frozen=True)
class HeadSpec:
    """Scores of the vocabulary, or of `labels`; a causal LM's hidden states are multiplied by `scale` first.

    `tied` projects with the token embedding, in language models only. With an `activation`, a dense layer
    precedes the projection, followed by the optional `norm`; `dense_bias` is the dense layer's. `pick`
    selects the vector that a sequence's scores are computed from: LAST is the last token without the id
    `pad_token_id`, LAST_EOS the last one with the id `eos_token_id`. A causal LM's scores s become
    softcap * tanh(s / softcap). FIRST_TWO and GLOBAL_AVERAGE may have a norm without a dense layer.
    FIRST_AND_MEAN excludes the `registers` vectors after the first from its mean, GLOBAL_AVERAGE the first
    `registers` vectors. With a `factored_size`, vectors are projected to that width first: a causal LM's
    without a bias, to the width of the token embedding that it is tied to, a sequence's with a
    `factored_bias` or without. A speaker's vector is made by `time_delay`, and its scores are as many as
    `labels`. A detector's `labels` are those of `boxes`, `masks` or `object_masks`, the last of them "no
    object", or of `instance_masks`, without it. A head of `depth` has no labels; one of `segments` scores
    them for the places of a map, one of a `pose` has a map for each. Of SPANS that pick FIRST_EOS, a
    token's scores are products with the vector of the question's token `eos_token_id` (Ram et al. 2021,
    3.2). A masked LM's vectors may be `beside` numbers wider than its matrix: another has those columns.
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
    time_delay: TimeDelaySpec | None = None
    boxes: BoxesSpec | None = None
    depth: DepthSpec | StagedDepthSpec | None = None
    segments: SegmentsSpec | FusedSegmentsSpec | PyramidSpec | MapPyramidSpec | None = None
    pose: PoseSpec | None = None
    masks: MasksSpec | None = None
    object_masks: ObjectMasksSpec | None = None
    masked_queries: MaskedQueriesSpec | None = None
    instance_masks: InstanceMasksSpec | None = None
    beside: int | None = None

    def __post_init__(self) -> None:
        positive(self, "scale")
        for name, kind in OF_KINDS.items():
            if (getattr(self, name) is not None) != (self.kind == kind):
                raise SpecError(
                    f"HeadSpec: {name} is {getattr(self, name)} in a head of kind '{self.kind}'; expected "
                    f"one with '{kind}', and None with another"
                )
        labelled = self.kind not in UNLABELLED
        if labelled != (self.labels > 0) or (labelled and self.tied):
            expected = "1 or more, and tied=False" if labelled else "0"
            described = f"{self.labels} labels, tied={self.tied}"
            raise SpecError(f"HeadSpec: kind '{self.kind}' with {described}; expected {expected}")
        if self.kind == HeadKind.SPANS and self.labels != 2:
            raise SpecError(f"HeadSpec: a span has 2 ends, not {self.labels}")
        if self.question_aware and (self.activation is None or self.norm is None or self.bias):
            raise SpecError(
                f"HeadSpec: question-aware spans with activation {self.activation}, norm {self.norm} and "
                f"bias {self.bias}; expected both, and False"
            )
        if self.kind == HeadKind.CHOICES and self.labels != 1:
            raise SpecError(f"HeadSpec: a choice has 1 score, not {self.labels}")
        self._check_dense_layer()
        self._check_pick()
        self._check_factored()
        for name, kind in (("softcap", HeadKind.CAUSAL_LM), ("beside", HeadKind.MASKED_LM)):
            if getattr(self, name) is not None:
                positive(self, name)
                if self.kind != kind:
                    raise SpecError(
                        f"HeadSpec: {name} is {getattr(self, name)}, expected None in a head of kind "
                        f"'{self.kind}': only one of kind '{kind}' has it"
                    )

    def _check_dense_layer(self) -> None:
        if self.kind == HeadKind.MASKED_LM and (self.activation is None) != (self.norm is None):
            lacking = "activation" if self.activation is None else "norm"
            raise SpecError(
                f"HeadSpec: {lacking} is None, but a masked LM's transform has an activation and a norm; "
                "expected both, or neither"
            )
        normed = self.pick in (Pick.FIRST_TWO, Pick.GLOBAL_AVERAGE)
        if self.activation is None and self.norm is not None and not normed:
            raise SpecError(
                f"HeadSpec: a norm of {self.norm.size} without the dense layer before it; "
                "expected an activation too, or norm=None"
            )
        if self.kind in (HeadKind.NONE, HeadKind.LAST_MAP) and self.activation is not None:
            raise SpecError(
                f"HeadSpec: a head of kind '{self.kind}' has no dense layer; "
                f"activation is '{self.activation}', expected None"
            )

    def _check_pick(self) -> None:
        picks = self.pick != Pick.FIRST and not self.question_aware
        if not self.scores_sequence and (picks or self.pad_token_id is not None):
            raise SpecError(
                f"HeadSpec: a head of kind '{self.kind}' picks no token; pick is '{self.pick}' and "
                f"pad_token_id {self.pad_token_id}, expected '{Pick.FIRST}' and None"
            )
        marked = self.pick == Pick.LAST_EOS or self.question_aware
        if marked != (self.eos_token_id is not None):
            expected = f"an id with '{Pick.LAST_EOS}' or question-aware spans, and None with another"
            raise SpecError(f"HeadSpec: '{self.pick}' of the id {self.eos_token_id}; expected {expected}")
        if self.pick == Pick.MEAN_AFTER_DENSE and self.activation is None:
            raise SpecError(
                f"HeadSpec: activation is None, but pick '{self.pick}' takes the mean after a dense layer; "
                f"expected an activation, or pick '{Pick.MEAN}'"
            )
        if self.registers and self.pick not in (Pick.FIRST_AND_MEAN, Pick.GLOBAL_AVERAGE):
            raise SpecError(
                f"HeadSpec: registers is {self.registers}, expected 0 with pick '{self.pick}': only means "
                f"of '{Pick.FIRST_AND_MEAN}' and '{Pick.GLOBAL_AVERAGE}' leave them out"
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
    def pick_argument(self) -> int | None:
        """The number that `pick` needs: of registers, or else eos_token_id, or else pad_token_id."""
        if self.registers:
            return self.registers
        return self.pad_token_id if self.eos_token_id is None else self.eos_token_id

    @property
    def question_aware(self) -> bool:
        """Tell whether spans are scored with the vector of the question's token (Splinter)."""
        return self.kind == HeadKind.SPANS and self.pick == Pick.FIRST_EOS

    @property
    def least(self) -> int:
        """The least number of vectors that it reads."""
        return 1 if self.time_delay is None else self.time_delay.least

    @property
    def counts_vectors(self) -> bool:
        """True where the originals read a sound's vectors up to their number, whichever the mask names."""
        return self.pick == Pick.MEAN or self.time_delay is not None

    @property
    def neck(self) -> FeatureFusionSpec | PyramidSpec | PoseSpec | None:
        """The part that reads the patches of layers' states; None in a head that reads none."""
        match self.depth or self.segments or self.pose:
            case DepthSpec(fusion=fusion) | FusedSegmentsSpec(fusion=fusion):
                return fusion
            case PyramidSpec() | PoseSpec() as neck:
                return neck
        return None

    @property
    def stages(self) -> tuple[int, ...]:
        """The channels of the maps of all stages, which it reads; () in a head that reads none."""
        read = self.depth or self.segments
        return read.sizes if isinstance(read, StagedDepthSpec | SegmentsSpec) else ()

    @property
    def map_pyramid(self) -> MapPyramidSpec | None:
        """The pyramid of the maps of all stages that it reads, if it reads one."""
        return self.segments if isinstance(self.segments, MapPyramidSpec) else None

    @property
    def scores_sequence(self) -> bool:
        """True where the head scores a whole sequence."""
        return self.kind in (HeadKind.SEQUENCE, HeadKind.CHOICES)


@dataclass(frozen=True)
class AttentionPoolSpec:
    """Attention pooling: a learned query attends to all hidden states (Lee et al. 2019, 3.2).

    The output y becomes y + feed_forward(norm(y)).
    """

    attention: AttentionSpec
    norm: NormSpec
    feed_forward: FeedForwardSpec

    def __post_init__(self) -> None:
        kind = self.attention
        if (
            kind.causal
            or kind.window is not None
            or kind.rotary is not None
            or kind.head_norm is not None
            or kind.has_position_bias
        ):
            raise SpecError(
                "AttentionPoolSpec: the query is no token, has no position and sees everything; expected an "
                "attention that is not causal, without window, rotary, head_norm and has_position_bias"
            )
        sizes = {kind.hidden_size, self.norm.size, self.feed_forward.hidden_size}
        if len(sizes) > 1:
            raise SpecError(f"AttentionPoolSpec: widths {sorted(sizes)} of its parts, expected one")


@dataclass(frozen=True)
class VectorSpec:
    """A sequence's pooled vector, an output beside its hidden states: selected by `pick`, normed, projected.

    `eos_token_id` is the id that ends a text, where `pick` needs one. `size` is the width that the vector is
    projected to, with a `bias` or without; None is no projection. With `compared`, for vectors that are
    compared with those of an encoder of the other modality, the output is named as in dual encoders. With a
    `pool`, the vector is the pool's, without norm and projection. GLOBAL_AVERAGE excludes the first
    `registers` vectors.
    """

    pick: Pick = Pick.FIRST
    eos_token_id: int | None = None
    norm: NormSpec | None = None
    size: int | None = None
    bias: bool = False
    compared: bool = False
    pool: AttentionPoolSpec | None = None
    registers: int = 0

    def __post_init__(self) -> None:
        if self.registers and self.pick != Pick.GLOBAL_AVERAGE:
            raise SpecError(
                f"VectorSpec: registers is {self.registers} with pick '{self.pick}', expected 0: only the "
                f"mean of '{Pick.GLOBAL_AVERAGE}' leaves vectors out"
            )
        marked = self.pick == Pick.FIRST_EOS
        others = Pick.FIRST, Pick.ARGMAX_ID, Pick.FINAL, Pick.GLOBAL_AVERAGE
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

    @property
    def pick_argument(self) -> int | None:
        """The argument of `pick`: the id that ends a text, or the number of vectors that a mean excludes."""
        return self.registers or self.eos_token_id


def check_tied(head: HeadSpec, stack: TextStackSpec) -> None:
    """Raise SpecError where a language model's head is tied to token embeddings of another width."""
    words = stack.embedding.word_size + (head.beside or 0)
    projected = head.projection_size(stack.hidden_size)
    if head.tied and projected != words:
        raise SpecError(f"HeadSpec: a head of {projected} numbers is tied to token embeddings of {words}")
