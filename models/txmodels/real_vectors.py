"""The vectors of sounds, without padding."""

from torch import Tensor


def real_vectors(consecutive: int, features: Tensor, mask: Tensor) -> Tensor:
    """features (I,N,W), mask (I,N*consecutive) -> y (M,W): the features of real vectors alone, in order."""
    real = mask[:, consecutive - 1 :: consecutive] > 0  # (I, N)
    y = features[real]
    return y
