"""A layer within a bottleneck: attention and several networks, narrower than the vectors around it."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class BottleneckSpec:
    """The sum that a layer of MobileBERT adds to its input (Sun et al. 2020, 3.1 and 3.2).

    Vectors of `hidden_size` are projected to the width of `feed_forward` twice, each with `norm`: once for
    queries and keys, once for the residual. Values are of the wide vectors. Attention, and then each of the
    `networks`, is added to the residual, with a norm behind the sum. The last sum is projected back.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    feed_forward: FeedForwardSpec
    networks: int
    norm: NormSpec

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "networks")
        if not self.size == self.norm.size == self.num_heads * self.head_dim:
            raise SpecError(
                f"BottleneckSpec: the networks are {self.size} wide, the norm {self.norm.size}, all heads "
                f"{self.num_heads * self.head_dim}"
            )

    @property
    def size(self) -> int:
        """Width of a vector within."""
        return self.feed_forward.hidden_size
