"""Attention of an image's patches, with learned biases of the distances in rows and columns."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import positive


@dataclass(frozen=True)
class PatchBiasAttentionSpec:
    """Attention over a vector of the image and `rows` by `columns` of patches (Bao et al. 2022, 2.4).

    Each head adds to a score the bias of the pair's distance in rows and columns; the image's vector has a
    bias of its own for patches, another that patches have for it, and one for itself. Keys have no bias.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    rows: int
    columns: int

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "rows", "columns")

    @property
    def distances(self) -> int:
        """The number of distances between two patches, and the three biases of the image's vector."""
        return (2 * self.rows - 1) * (2 * self.columns - 1) + 3
