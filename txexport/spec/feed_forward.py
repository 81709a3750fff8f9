"""Feed-forward networks, and mixtures of them."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class FeedForwardSpec:
    """Two projections with a non-linearity between them; if `gated`, a third projection multiplies it.

    With a `clip`, the input of the non-linearity is at most `clip`, and the factor that multiplies it is
    clamped to [-clip, clip] and increased by 1 (OpenAI 2025). With a `cutoff`, the input of the non-linearity
    is what exceeds the mean of all its numbers by more than `cutoff` standard deviations, and 0 elsewhere
    (statistical top-k; Gemma Team 2025, Gemma 3n). The projections up and down are in groups, each from its
    own part of a vector to its own part of the output (Iandola et al. 2020, 3.2). With an `adapter_rank`, the
    projection up and that of the gate have adapters: two more projections, by way of that many numbers, are
    added (LoRA; Hu et al. 2021, 4.1).
    """

    hidden_size: int
    intermediate_size: int
    activation: Activation
    bias: bool = True
    gated: bool = False
    clip: float | None = None
    cutoff: float | None = None
    up_groups: int = 1
    down_groups: int = 1
    adapter_rank: int | None = None

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "intermediate_size", "up_groups", "down_groups")
        if self.adapter_rank is not None:
            positive(self, "adapter_rank")
            if not self.gated or self.clip is not None:
                raise SpecError(
                    f"FeedForwardSpec: adapter_rank is {self.adapter_rank} with gated={self.gated}, "
                    f"clip={self.clip}; expected True and None, or adapter_rank=None"
                )
        for name, groups in (("up_groups", self.up_groups), ("down_groups", self.down_groups)):
            if self.hidden_size % groups or self.intermediate_size % groups or (self.gated and groups > 1):
                raise SpecError(
                    f"FeedForwardSpec: {name} is {groups} with gated={self.gated}; expected a number that "
                    f"divides {self.hidden_size} and {self.intermediate_size}, 1 for a gated network"
                )
        if self.cutoff is not None and (not self.gated or self.clip is not None):
            raise SpecError(
                f"FeedForwardSpec: cutoff is {self.cutoff} with gated={self.gated}, clip={self.clip}; it is "
                "of a gate that is not clipped: expected True and None, or cutoff=None"
            )
        if self.clip is not None:
            positive(self, "clip")
            if not self.gated:
                raise SpecError(
                    f"FeedForwardSpec: clip is {self.clip} and gated False; expected None, or gated=True: "
                    "the clip applies to the factor of a gated network"
                )


@dataclass(frozen=True)
class XieluFeedForwardSpec:
    """Two projections without biases, and xIELU between them, whose two slopes are learned.

    With x > 0 it is a x² + x / 2, else b (exp(x) - 1 - x) + x / 2, where a is the softplus of a learned
    number, and b that of another plus 1/2; the exponent is at most -1e-6 (Huang and Schlag 2024, 3).
    """

    hidden_size: int
    intermediate_size: int

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "intermediate_size")


@dataclass(frozen=True)
class ExpertsSpec:
    """A mixture of `num_experts` feed-forward networks, of which a router picks `top_k` for each token.

    - Weights of the outputs: the router's softmax (Shazeer et al. 2017, 2; Jiang et al. 2024, 2.1), over the
      picked experts if `normalised`, else over all. `scale` multiplies the weights.
    - `corrected`: sigmoid scores in place of the softmax, divided by the sum of the picked ones, plus
      `sum_eps`, if `normalised`; experts are picked by score plus a learned e_score_correction_bias
      (DeepSeek-AI 2025, 2.1.2).
    - `softmax_scores`: with `corrected`, softmax in place of sigmoid scores (Baidu 2025, ERNIE 4.5, 2.2).
    - `sigmoid`: a sigmoid of each picked expert's score in place of the softmax, divided by their sum if
      `normalised`; experts are picked by the scores themselves (Cohere2MoeTopKRouter of transformers).
    - `num_groups`, `top_groups`: group-limited top-k. Experts are picked from the best groups only, ranked by
      their best expert, or if `corrected` by their best two (DeepSeek-AI 2024, 2.2.2).
    - `shared`: an expert that every token passes; if `shared_gated`, a sigmoid gate scales its output (Yang
      et al. 2024, 2.2.2).
    - `router_bias`, `output_bias`: a bias of the router's scores, and of the sum of all experts.
    - `jitter`: SparseMixer (Liu et al. 2024, 2.2). Each picked expert has a softmax of its own, over itself
      and those experts, not picked before it, whose scores are lower by at most 2 jitter times the larger of
      its score and their absolute value.
    - `weighted_inputs`: weights multiply the inputs of the experts, not their outputs (Meta 2025, Llama 4).
    - `expert_scale`: a learned number for each expert multiplies its weights.
    - `token_size`: the width of a token, where experts read a projection of it, and another one restores the
      width of their sum (NVIDIA 2025, LatentMoE). The router and the shared expert read the token.
    - `capacity`: the most tokens of a row that an expert takes, in their order, padding counted. Later ones
      get no expert (Fedus et al. 2021, 2.2).
    """

    expert: FeedForwardSpec
    num_experts: int
    top_k: int
    normalised: bool = True
    shared: FeedForwardSpec | None = None
    shared_gated: bool = True
    corrected: bool = False
    num_groups: int = 1
    top_groups: int = 1
    scale: float = 1.0
    router_bias: bool = False
    output_bias: bool = False
    jitter: float | None = None
    sum_eps: float = 1e-20
    softmax_scores: bool = False
    sigmoid: bool = False
    expert_scale: bool = False
    token_size: int | None = None
    capacity: int | None = None
    weighted_inputs: bool = False

    def __post_init__(self) -> None:
        positive(self, "num_experts", "top_k", "num_groups", "top_groups", "scale", "sum_eps")
        if self.token_size is not None:
            positive(self, "token_size")
        if self.capacity is not None:
            positive(self, "capacity")
            if self.top_k != 1:
                raise SpecError(
                    f"ExpertsSpec: capacity is {self.capacity} with top_k {self.top_k}; expected 1"
                )
        expert = self.expert
        grouped = expert.up_groups != 1 or expert.down_groups != 1 or expert.adapter_rank is not None
        if grouped or expert.activation is Activation.PRELU:
            raise SpecError(
                "ExpertsSpec: expert has groups, an adapter or a learned activation; expected none"
            )
        if self.top_k > self.num_experts:
            cannot = f"{self.top_k} of {self.num_experts} experts cannot be chosen"
            raise SpecError(f"ExpertsSpec: {cannot}; expected 1 to {self.num_experts}")
        if self.shared is not None and self.shared.hidden_size != self.hidden_size:
            raise SpecError(
                f"ExpertsSpec: the shared expert is {self.shared.hidden_size} wide, expected the others' "
                f"{self.hidden_size}"
            )
        if self.softmax_scores and not self.corrected:
            raise SpecError("ExpertsSpec: softmax_scores is True without corrected; expected False")
        if self.sigmoid and (self.corrected or self.num_groups > 1 or self.jitter is not None):
            raise SpecError(
                f"ExpertsSpec: sigmoid is True with corrected={self.corrected}, num_groups={self.num_groups} "
                f"and jitter={self.jitter}; expected False, 1 and None"
            )
        self._check_groups()
        if self.jitter is not None:
            positive(self, "jitter")
            if self.corrected or self.num_groups > 1 or not self.normalised:
                raise SpecError(
                    f"ExpertsSpec: jitter is {self.jitter} with corrected={self.corrected}, "
                    f"num_groups={self.num_groups}, normalised={self.normalised}; no architecture has both: "
                    "expected None, or False, 1 and True"
                )

    def _check_groups(self) -> None:
        """Raise SpecError unless the groups are equal in size and have enough experts to pick from."""
        size, rest = divmod(self.num_experts, self.num_groups)
        if rest or self.top_groups > self.num_groups:
            raise SpecError(
                f"ExpertsSpec: the best {self.top_groups} of {self.num_groups} groups of {self.num_experts} "
                "experts; expected num_groups to divide num_experts, and top_groups to be at most num_groups"
            )
        if self.num_groups > 1 and (self.top_groups * size < self.top_k or (self.corrected and size < 2)):
            raise SpecError(
                f"ExpertsSpec: {self.top_k} experts from {self.top_groups} groups of {size}; expected top_k "
                "to be at most the number of experts in these groups, and two experts a group with corrected"
            )
        if self.num_groups > 1 and self.normalised and not self.corrected:
            raise SpecError(
                "ExpertsSpec: normalised is True with groups of experts, but no architecture takes a softmax "
                "over the experts picked from groups; expected normalised=False, or corrected=True"
            )

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.expert.hidden_size if self.token_size is None else self.token_size


@dataclass(frozen=True)
class DenseAndExpertsSpec:
    """A dense network beside a mixture of experts (Gemma Team 2026, Gemma 4 26B-A4B).

    The network reads the normalised input of the sublayer. The experts and their router read that input as it
    is, by a norm each; the router's is also divided by the square root of its width. What both give is
    normalised, and added.
    """

    dense: FeedForwardSpec
    experts: ExpertsSpec
    norm: NormSpec

    def __post_init__(self) -> None:
        if len({self.dense.hidden_size, self.experts.hidden_size, self.norm.size}) > 1:
            raise SpecError(
                f"DenseAndExpertsSpec: the network is {self.dense.hidden_size} wide, experts "
                f"{self.experts.hidden_size}, the norm {self.norm.size}"
            )
        if self.experts.shared is not None or self.experts.output_bias or self.experts.token_size is not None:
            raise SpecError(
                "DenseAndExpertsSpec: experts with a shared one, output_bias or token_size; expected None, "
                "False and None"
            )

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.dense.hidden_size
