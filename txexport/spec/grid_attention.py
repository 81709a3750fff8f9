"""Attention over a grid, or windows of it, with learned vectors of the distances in rows and columns."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class GridAttentionSpec:
    """Attention over a grid of `rows` by `columns` vectors (Li et al. 2022, 3; Li et al. 2021, 4.1).

    If `windowed`, the grid is a window: a larger one is padded by zeros at the bottom and on the right to
    whole windows, and a vector attends to its own. If `relative`, a score gets the products of the query with
    the vector of the distance in rows, and with that in columns. `bias` is that of query, key and value.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    rows: int
    columns: int
    windowed: bool
    relative: bool = True
    bias: bool = True

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "rows", "columns")
        if self.num_heads * self.head_dim != self.hidden_size:
            raise SpecError(
                f"GridAttentionSpec: {self.num_heads} heads of {self.head_dim}, expected hidden_size, "
                f"{self.hidden_size}, in all"
            )

        if self.windowed and self.rows != self.columns:
            raise SpecError(f"GridAttentionSpec: windows of {self.rows} by {self.columns}, expected squares")

    @property
    def size(self) -> int:
        """The number of vectors that attend to one another."""
        return self.rows * self.columns
