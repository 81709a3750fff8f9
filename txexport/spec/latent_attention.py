"""Multi-head latent attention: keys and values are compressed into one vector a token, which is cached."""

from dataclasses import dataclass, replace
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec, Reach
from txexport.spec.norm import NormSpec
from txexport.spec.rotary import RotarySpec
from txexport.spec.shared_attention import SharedAttentionSpec
from txexport.spec.source_attention import SourceAttentionSpec


@dataclass(frozen=True)
class LatentAttentionSpec:
    """Keys and values of all heads in one vector of `kv_lora_rank` numbers (DeepSeek-AI 2024, 2.1).

    A head's query and key have `qk_nope_head_dim` numbers without RoPE and `qk_rope_head_dim` with it; the
    keys' rotated numbers are shared by all heads. Without `rotary` there are `shared_dim` such numbers, which
    nothing rotates (Kimi Team 2025, 4). With `apart`, interleaved RoPE pairs are de-interleaved
    before rotation: all first numbers, then all second ones. Values have `v_head_dim` numbers. Queries are
    compressed to `q_lora_rank` numbers if it is given. `scale` multiplies the scores. `norm` normalises the
    compressed keys and values, and with the size of `q_lora_rank` the compressed queries. `bias` is that of
    the projections from and to the hidden states, except of queries that are not compressed.
    """

    hidden_size: int
    num_heads: int
    qk_nope_head_dim: int
    v_head_dim: int
    kv_lora_rank: int
    rotary: RotarySpec | None
    norm: NormSpec
    scale: float
    q_lora_rank: int | None = None
    bias: bool = False
    apart: bool = False
    shared_dim: int = 0

    causal: ClassVar[bool] = True
    window: ClassVar[None] = None
    reach: ClassVar[Reach] = Reach(None)
    has_position_bias: ClassVar[bool] = False
    maskless_static: ClassVar[bool] = False
    shares_keys: ClassVar[bool] = False  # all heads already read the same latents
    token_masks: ClassVar[tuple[str, ...]] = ()  # it takes a mask of query and key pairs instead

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank", "scale")
        if self.q_lora_rank is not None:
            positive(self, "q_lora_rank")
        if self.norm.size != self.kv_lora_rank:
            raise SpecError(
                f"LatentAttentionSpec: the norm is {self.norm.size} wide, expected kv_lora_rank, "
                f"{self.kv_lora_rank}"
            )
        if (self.rotary is None) != (self.shared_dim > 0):
            raise SpecError(
                f"LatentAttentionSpec: shared_dim is {self.shared_dim}, expected "
                f"{'1 or more without rotary' if self.rotary is None else '0, as rotary is given'}"
            )
        if self.apart and self.rotary is None:
            raise SpecError("LatentAttentionSpec: apart is True without rotary, expected False")
        if self.apart and self.rotary is not None and self.rotary.interleaved:
            raise SpecError(
                "LatentAttentionSpec: apart and rotary.interleaved are True, but pairs that were "
                "de-interleaved cannot be rotated as interleaved ones; expected False for one of them"
            )

    @property
    def qk_rope_head_dim(self) -> int:
        """Size of the part of a head's query and key that RoPE rotates, or nothing."""
        return self.shared_dim if self.rotary is None else 2 * len(self.rotary.frequencies)

    @property
    def head_dim(self) -> int:
        """Size of a head's query and key."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def q_norm(self) -> NormSpec:
        """The norm of compressed queries."""
        return replace(self.norm, size=self.q_lora_rank or self.norm.size)

    @property
    def cache_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """As AttentionSpec's: the compressed vector for keys, the rotated numbers for values."""
        return (1, self.kv_lora_rank), (1, self.qk_rope_head_dim)


# Attention that takes a mask of query and key pairs and may have a cache.
MaskedAttentionSpec = AttentionSpec | LatentAttentionSpec | SharedAttentionSpec | SourceAttentionSpec
