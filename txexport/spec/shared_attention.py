"""Attention of a layer that has no keys and values, and reads those of an earlier layer."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.attention import AttentionSpec, Reach
from txexport.spec.rotary import RotarySpec


@dataclass(frozen=True)
class SharedAttentionSpec:
    """Attention of a layer's queries over the keys and values of the layer number `layer`, counted from 0.

    Queries, their norm, the mask and the output projection are those of `attention`; its keys and values have
    no projections and no cache (cross-layer attention; Brandon et al. 2024, 3.1).
    """

    attention: AttentionSpec
    layer: int

    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ()  # it takes a mask of query and key pairs instead
    cache_shapes: ClassVar[tuple[tuple[int, int], ...]] = ()  # nothing is cached

    def __post_init__(self) -> None:
        if self.layer < 0:
            raise SpecError(f"SharedAttentionSpec: layer is {self.layer}, expected 0 or more")
        kind = self.attention
        if kind.rotary is not None and kind.rotary.growth is not None:
            raise SpecError(
                "SharedAttentionSpec: rotary.growth is given; no architecture has both: expected None"
            )
        switches = kind.has_position_bias, kind.joint_norm, kind.gated_output, kind.source_size is not None
        if not kind.causal or any(switches):
            raise SpecError(
                f"SharedAttentionSpec: attention with causal={kind.causal}, has_position_bias="
                f"{kind.has_position_bias}, joint_norm={kind.joint_norm}, gated_output={kind.gated_output}, "
                f"source_size={kind.source_size}; expected True, False, False, False, None"
            )

    @property
    def hidden_size(self) -> int:
        """Width of a token."""
        return self.attention.hidden_size

    @property
    def num_heads(self) -> int:
        """Query heads."""
        return self.attention.num_heads

    @property
    def head_dim(self) -> int:
        """Size of a head."""
        return self.attention.head_dim

    @property
    def causal(self) -> bool:
        """True: a layer of a decoder."""
        return self.attention.causal

    @property
    def window(self) -> int | None:
        """As AttentionSpec's."""
        return self.attention.window

    @property
    def reach(self) -> Reach:
        """As AttentionSpec's."""
        return self.attention.reach

    @property
    def rotary(self) -> RotarySpec | None:
        """The rotation of queries; keys come rotated."""
        return self.attention.rotary

    @property
    def shares_keys(self) -> bool:
        """As AttentionSpec's: heads of queries share those of keys."""
        return self.attention.shares_keys

    @property
    def maskless_static(self) -> bool:
        """As AttentionSpec's."""
        return self.attention.maskless_static
