"""A layer between two stages that makes a grid smaller by pooling the queries of its attention."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class QueryPoolingSpec:
    """A layer whose queries are the maxima of squares (Fan et al. 2021, 3.1; Ryali et al. 2023).

    Vectors attend within windows of `window` by `window`, padded by zeros at the bottom and on the right, or
    `everywhere` in a grid, which is that large for an image of the size of training; of every square of
    `stride` by `stride` one query is left. The residual is pooled alike, from a projection of
    the normed input to the new width, that of `feed_forward`. `norm` precedes attention; the norm before the
    feed-forward network has the same epsilon.
    """

    num_heads: int
    head_dim: int
    window: int
    norm: NormSpec
    feed_forward: FeedForwardSpec
    stride: int = 2
    everywhere: bool = False

    def __post_init__(self) -> None:
        positive(self, "num_heads", "head_dim", "window", "stride")
        if self.num_heads * self.head_dim != self.size:
            raise SpecError(
                f"QueryPoolingSpec: {self.num_heads} heads of {self.head_dim}, expected {self.size} in all, "
                "as the feed-forward network is wide"
            )
        if self.window % self.stride:
            raise SpecError(
                f"QueryPoolingSpec: windows of {self.window} by {self.window}, a stride of {self.stride}; "
                "expected a multiple"
            )

    @property
    def hidden_size(self) -> int:
        """The width of the vectors that it reads."""
        return self.norm.size

    @property
    def size(self) -> int:
        """The width of the vectors that it returns."""
        return self.feed_forward.hidden_size

    @property
    def last_norm(self) -> NormSpec:
        """The norm before the feed-forward network."""
        return NormSpec(self.size, self.norm.eps, self.norm.kind, self.norm.bias)

    @property
    def operations(self) -> int:
        """Those of a vector beside each matrix once: the projections of its square, and its attention."""
        projections = 2 * (self.stride**2 - 1) * 4 * self.hidden_size * self.size
        return projections + 4 * self.window**2 * self.size
