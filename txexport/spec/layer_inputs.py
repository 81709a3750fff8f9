"""Inputs of single layers, computed from token ids (Gemma Team 2025, Gemma 3n: per-layer embeddings)."""

from dataclasses import dataclass

from txexport.errors import positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class LayerInputsSpec:
    """For every token and layer a vector of `size` numbers: one of a table, and a projection of the token.

    The table has `vocab_size` rows with the vectors of all layers, which are multiplied by sqrt(size). The
    projection of the embedded token of width W is multiplied by 1/sqrt(W), and normalised for each layer. The
    sum of both is divided by sqrt(2). If `partial`, there are larger ids, which read the first row.
    """

    vocab_size: int
    norm: NormSpec
    partial: bool = False

    def __post_init__(self) -> None:
        positive(self, "vocab_size")

    @property
    def size(self) -> int:
        """Width of a layer's vector."""
        return self.norm.size


@dataclass(frozen=True)
class LayerInputSpec:
    """The end of a layer that reads a vector of `size` numbers made for it, in a residual.

    The layer's output is projected to `size` numbers, activated, multiplied by that vector, projected back
    and normalised.
    """

    hidden_size: int
    size: int
    activation: Activation
    norm: NormSpec

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "size")
