"""Attention beside convolutions whose kernels are made of the tokens."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class ConvolvedAttentionSpec:
    """Bidirectional attention beside a span-based dynamic convolution (Jiang et al. 2020, 4).

    As many heads are convolutions over `kernel` tokens, around each token as many before it as after it. The
    numbers of a token's kernel are a softmax, of its query times a vector of the same span. Padding is hidden
    from attention alone: convolutions read it.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    kernel: int

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ("attention_mask",)

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "kernel")
        if self.kernel < 3 or self.kernel % 2 == 0:
            raise SpecError(
                f"ConvolvedAttentionSpec: kernel is {self.kernel}, expected an odd number, 3 or more"
            )

    @property
    def operations(self) -> int:
        """Operations of the convolutions for a token: of its span, and of the heads."""
        return 2 * self.kernel * (self.hidden_size + self.num_heads * self.head_dim)
