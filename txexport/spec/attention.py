"""Multi-head attention with a mask of pairs: causal or bidirectional, self- or cross-attention, GQA."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec
from txexport.spec.rotary import RotarySpec


class Reach(NamedTuple):
    """The keys that a query sees: `window` and `chunked` of AttentionSpec."""

    window: int | None
    chunked: bool = False


@dataclass(frozen=True)
class AttentionSpec:
    """Multi-head attention: `num_heads` query heads share `num_kv_heads` key and value heads.

    `bias` is of query, key and value projections, `output_bias` of the output's. `scale` multiplies the
    scores; None is 1/sqrt(head_dim). Keys and values of a cross attention are made of vectors `source_size`
    wide, None for `hidden_size`. A query sees itself and the `window` - 1 tokens before it, and as many
    after it where attention is not causal; None is no limit. If `chunked`, tokens are in chunks of `window`,
    and a query sees those of its own chunk up to itself (Meta 2025). `head_norm` normalises every query and
    key head before it is rotated, or where it is a `joint_norm`, all heads of queries, and all of keys, as
    one vector; where it is a `rotated_norm`, every head after it is rotated. Queries, keys and values are
    clipped to [-clip, clip] before the rotation.
    Scores s become softcap * tanh(s / softcap). Where it `has_position_bias`, the mask is numbers to add to
    the scores; where it is `unmasked`, every query sees every key, without a mask. With `sinks`, the softmax
    of each query head has one more score, a learned attention sink without a value. A `gated`
    bias is multiplied by a gate of each query and head, and the mask is of pairs (Chen et al. 2022, 3.1).
    With a `gated_output`, the sigmoid of one more projection of a token multiplies what its heads give (Qiu
    et al. 2025, 2.2); with `head_gates` it is one number a head. With a `value_norm`, `head_norm` normalises
    values too. If `keys_as_values`, values are the projection of keys, before its norm and rotation. The four
    projections of bidirectional attention may be in groups, each from its own part of a vector to its own
    part of the output (Iandola et al. 2020, 3.2). With an `input_size`, queries, keys and values are
    projections of vectors of that width. With an `adapter_rank`, each of the three projections has an
    adapter: two more projections, by way of that many numbers, are added (LoRA; Hu et al. 2021, 4.1).
    """

    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    causal: bool
    bias: bool = True
    output_bias: bool = True
    scale: float | None = None
    rotary: RotarySpec | None = None
    window: int | None = None
    head_norm: NormSpec | None = None
    has_position_bias: bool = False
    softcap: float | None = None
    unmasked: bool = False
    joint_norm: bool = False
    rotated_norm: bool = False
    clip: float | None = None
    sinks: bool = False
    source_size: int | None = None
    gated: bool = False
    gated_output: bool = False
    head_gates: bool = False
    value_norm: bool = False
    keys_as_values: bool = False
    q_groups: int = 1
    k_groups: int = 1
    v_groups: int = 1
    o_groups: int = 1
    chunked: bool = False
    input_size: int | None = None
    adapter_rank: int | None = None

    token_masks: ClassVar[tuple[str, ...]] = ()  # it takes a mask of pairs instead

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "num_kv_heads", "head_dim")
        self._check_groups()
        self._check_inputs()
        if self.unmasked and not (self.maskless_static and not self.causal):
            raise SpecError(
                f"AttentionSpec: unmasked with causal={self.causal}, window={self.window}, "
                f"softcap={self.softcap}, has_position_bias={self.has_position_bias}, sinks={self.sinks}; "
                "what sees everything has no window, no cap, no bias and no sinks: expected False, None, "
                "None, False, False, or unmasked=False"
            )
        if self.sinks and (self.softcap is not None or self.has_position_bias):
            raise SpecError(
                f"AttentionSpec: sinks with softcap={self.softcap}, "
                f"has_position_bias={self.has_position_bias}, but no architecture has both; expected None "
                "and False, or sinks=False"
            )
        if self.window is not None:
            positive(self, "window")
        if self.chunked and (self.window is None or not self.causal):
            raise SpecError(
                f"AttentionSpec: chunked with window={self.window}, causal={self.causal}; expected the size "
                "of a chunk and True, or chunked=False"
            )
        if self.softcap is not None:
            positive(self, "softcap")
            if self.has_position_bias:
                raise SpecError(
                    f"AttentionSpec: softcap is {self.softcap} and has_position_bias True, but no "
                    "architecture caps scores and adds a bias to them; expected one of the two"
                )
        if self.has_position_bias and self.num_kv_heads != self.num_heads:
            raise SpecError(
                f"AttentionSpec: num_kv_heads is {self.num_kv_heads}, expected num_heads, {self.num_heads}: "
                "a bias is of a query head, so every one needs keys of its own"
            )
        if self.rotary is not None and 2 * len(self.rotary.frequencies) > self.head_dim:
            raise SpecError(
                f"AttentionSpec: {len(self.rotary.frequencies)} pairs exceed a head of {self.head_dim}; "
                f"expected {self.head_dim // 2} frequencies at most"
            )
        if self.head_norm is not None and self.head_norm.size != self.head_dim:
            raise SpecError(f"AttentionSpec: head norm is {self.head_norm.size} wide, a head {self.head_dim}")
        if self.joint_norm and self.head_norm is None:
            raise SpecError("AttentionSpec: joint_norm is True, but there is no head_norm; expected False")
        if self.clip is not None:
            positive(self, "clip")
        if self.source_size is not None:
            positive(self, "source_size")
        if self.rotated_norm and (self.head_norm is None or self.rotary is None or self.joint_norm):
            raise SpecError(
                f"AttentionSpec: rotated_norm with head_norm={self.head_norm}, rotary={self.rotary}, "
                f"joint_norm={self.joint_norm}; expected a norm of each head and a rotation, or False"
            )
        if self.gated and (not self.has_position_bias or self.hidden_size % self.num_heads or self.causal):
            raise SpecError(
                f"AttentionSpec: gated with has_position_bias={self.has_position_bias}, "
                f"causal={self.causal} and {self.num_heads} heads of a hidden_size of {self.hidden_size}; "
                "expected True, False and a number of heads that divides it, or gated=False"
            )
        if self.head_gates and not self.gated_output:
            raise SpecError("AttentionSpec: head_gates is True without gated_output; expected False")
        if self.value_norm and (self.head_norm is None or self.joint_norm):
            raise SpecError(
                f"AttentionSpec: value_norm with head_norm={self.head_norm}, joint_norm={self.joint_norm}; "
                "expected a norm of each head, or value_norm=False"
            )
        if self.keys_as_values and (self.joint_norm or self.source_size is not None):
            raise SpecError(
                f"AttentionSpec: keys_as_values with joint_norm={self.joint_norm}, "
                f"source_size={self.source_size}; expected False and None, or keys_as_values=False"
            )
        if self.num_heads % self.num_kv_heads:
            raise SpecError(
                f"AttentionSpec: {self.num_heads} query heads cannot share {self.num_kv_heads} "
                "key/value heads evenly"
            )

    def _check_groups(self) -> None:
        """Raise SpecError for projections in groups that do not divide the vectors, or in a decoder."""
        positive(self, "q_groups", "k_groups", "v_groups", "o_groups")
        queries, keys = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        for name, outputs in (("q", queries), ("k", keys), ("v", keys), ("o", queries)):
            groups: int = getattr(self, f"{name}_groups")
            plain = not self.causal and self.source_size is None and not self.keys_as_values
            if groups > 1 and (self.hidden_size % groups or outputs % groups or not plain):
                raise SpecError(
                    f"AttentionSpec: {name}_groups is {groups} with causal={self.causal}, source_size="
                    f"{self.source_size}, keys_as_values={self.keys_as_values}; expected a number that "
                    f"divides {self.hidden_size} and {outputs}, and False, None, False, or 1"
                )

    def _check_inputs(self) -> None:
        """Raise SpecError for inputs of another width, or adapters, in attention that has none."""
        for name in ("input_size", "adapter_rank"):
            if getattr(self, name) is None:
                continue
            positive(self, name)
            others = self.source_size is not None, self.keys_as_values, self.gated_output
            if not self.causal or any(others):
                raise SpecError(
                    f"AttentionSpec: {name} with causal={self.causal}, source_size={self.source_size}, "
                    f"keys_as_values={self.keys_as_values}, gated_output={self.gated_output}; expected True, "
                    f"None, False, False, or {name}=None"
                )

    @property
    def reach(self) -> Reach:
        """The keys that a query sees; layers alike in that share a mask."""
        return Reach(self.window, self.chunked)

    @property
    def key_value_size(self) -> int:
        """Width of the vectors that keys and values are made of."""
        return self.source_size or self.input_size or self.hidden_size

    @property
    def q_norm(self) -> NormSpec | None:
        """The norm of queries: of a head's, or of all."""
        return self._norm_of(self.num_heads)

    @property
    def k_norm(self) -> NormSpec | None:
        """The norm of keys: of a head's, or of all."""
        return self._norm_of(self.num_kv_heads)

    def _norm_of(self, heads: int) -> NormSpec | None:
        if self.head_norm is None or not self.joint_norm:
            return self.head_norm
        return replace(self.head_norm, size=heads * self.head_dim)

    @property
    def shares_keys(self) -> bool:
        """True for grouped-query and multi-query attention (Ainslie et al. 2023)."""
        return self.num_heads != self.num_kv_heads

    @property
    def maskless_static(self) -> bool:
        """True where attention over a static cache needs its lengths only, and no mask."""
        plain = self.softcap is None and not self.has_position_bias and not self.sinks
        return plain and self.window is None

    @property
    def cache_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Heads, and numbers of each, that a cache keeps of a token's keys, and of its values."""
        return ((self.num_kv_heads, self.head_dim),) * 2
