"""Attention of a decoder's layer over vectors of another stack, in place of self-attention."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec, Reach


@dataclass(frozen=True)
class SourceAttentionSpec:
    """Attention of a layer's queries over the keys and values of images (Alayrac et al. 2022, 2.2).

    Those are computed once from an image's vectors and then only read, so the layer has no cache of its own.
    `attention` is a cross attention, whose `head_norm` normalises queries and keys; an image has `vectors`.
    """

    attention: AttentionSpec
    vectors: int

    causal: ClassVar[bool] = True  # a layer of a decoder: no token sees a later one
    window: ClassVar[None] = None
    reach: ClassVar[Reach] = Reach(None)
    rotary: ClassVar[None] = None
    maskless_static: ClassVar[bool] = True
    cache_shapes: ClassVar[tuple[tuple[int, int], ...]] = ()  # nothing is cached between steps
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ()  # it takes a mask of pairs instead

    def __post_init__(self) -> None:
        positive(self, "vectors")
        kind = self.attention
        switches = kind.causal, kind.rotary is not None, kind.unmasked, kind.softcap is not None
        others = kind.has_position_bias, kind.joint_norm, kind.gated_output, kind.sinks, kind.keys_as_values
        if any(switches) or any(others) or kind.window is not None or kind.clip is not None:
            raise SpecError(
                f"SourceAttentionSpec: attention with causal={kind.causal}, rotary={kind.rotary}, "
                f"unmasked={kind.unmasked}, window={kind.window}, or another switch of self-attention; "
                "expected a plain cross attention: False, None, False, None and none"
            )

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.attention.hidden_size

    @property
    def shares_keys(self) -> bool:
        """As AttentionSpec's: heads of queries share those of keys."""
        return self.attention.shares_keys

    @property
    def num_heads(self) -> int:
        """Query heads."""
        return self.attention.num_heads

    @property
    def head_dim(self) -> int:
        """Size of a head."""
        return self.attention.head_dim
