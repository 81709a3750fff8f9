"""Patches of an image of any shape, in a row (Lee et al. 2023, 2.1)."""

from torch import Tensor, nn

from txexport.spec import FlattenedPatchesSpec
from txmodels.linear import Linear


class FlattenedPatchesEmbedding(nn.Module):
    """Patches projected, plus learned vectors of their rows and columns."""

    def __init__(self, spec: FlattenedPatchesSpec):
        super().__init__()
        self.row = nn.Embedding(spec.positions, spec.hidden_size)
        self.column = nn.Embedding(spec.positions, spec.hidden_size)
        self.project = Linear(spec.numbers, spec.hidden_size)

    def forward(self, flattened_patches: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """flattened_patches (B,S,2+numbers), attention_mask (B,S) -> x (B,S,W), mask (B,S).

        The first two numbers of a patch are its row and its column.
        """
        row, column, numbers = flattened_patches.tensor_split([1, 2], dim=2)  # (B, S, 1), (B, S, 1)
        placed = self.project(numbers) + self.row(row[:, :, 0].long())  # (B, S, W)
        x = placed + self.column(column[:, :, 0].long())
        return x, attention_mask


Embedding = FlattenedPatchesEmbedding
