"""Attention whose keys and values are compressed into one vector a token, and are kept as that."""

from dataclasses import dataclass, replace
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.norm import NormSpec
from txexport.spec.rotary import RotarySpec


@dataclass(frozen=True)
class LatentAttentionSpec:
    """Keys and values of all heads in one vector of `kv_lora_rank` numbers (DeepSeek-AI 2024, 2.1).

    A head's query and key have `qk_nope_head_dim` numbers of content, which are not rotated, and those that
    are; the rotated ones of keys are the same for all heads, and their neighbours lie `apart`, all first ones
    before all second ones, by the time they are rotated. Values have `v_head_dim`. Queries come through
    `q_lora_rank` numbers, where it is given. `scale` multiplies the scores, `norm` is of the compressed keys
    and values, and of as many numbers as there are, of the compressed queries. `bias` is of the projections
    from and to the hidden states, but for queries that are not compressed.
    """

    hidden_size: int
    num_heads: int
    qk_nope_head_dim: int
    v_head_dim: int
    kv_lora_rank: int
    rotary: RotarySpec
    norm: NormSpec
    scale: float
    q_lora_rank: int | None = None
    bias: bool = False
    apart: bool = False

    causal: ClassVar[bool] = True
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    maskless_static: ClassVar[bool] = False
    shares_keys: ClassVar[bool] = False  # all heads read the same latents as it is
    token_masks: ClassVar[tuple[str, ...]] = ()  # it takes a mask of pairs instead

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank", "scale")
        if self.q_lora_rank is not None:
            positive(self, "q_lora_rank")
        if self.norm.size != self.kv_lora_rank:
            raise SpecError(
                f"LatentAttentionSpec: the norm is {self.norm.size} wide, expected kv_lora_rank, "
                f"{self.kv_lora_rank}"
            )
        if self.apart and self.rotary.interleaved:
            raise SpecError(
                "LatentAttentionSpec: apart and rotary.interleaved are True, but neighbours that lie apart "
                "are no neighbours; expected False for one of them"
            )

    @property
    def qk_rope_head_dim(self) -> int:
        """Numbers of a head that are rotated."""
        return 2 * len(self.rotary.frequencies)

    @property
    def head_dim(self) -> int:
        """Numbers of a head's query."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def q_norm(self) -> NormSpec:
        """The norm of compressed queries."""
        return replace(self.norm, size=self.q_lora_rank or self.norm.size)

    @property
    def cache_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """As AttentionSpec's: the compressed vector for keys, the rotated numbers for values."""
        return (1, self.kv_lora_rank), (1, self.qk_rope_head_dim)


MaskedAttentionSpec = AttentionSpec | LatentAttentionSpec  # what reads a mask of pairs, and may have a cache
