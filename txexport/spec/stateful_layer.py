"""The base class of layers with states."""

from typing import ClassVar

from txexport.errors import SpecError


class StatefulLayer:
    """A causal layer without attention scores; its convolution, if any, reads the last `kernel` tokens."""

    kernel: int

    new_tokens: ClassVar[tuple[str, ...]] = ("real", "ends")  # what it reads of new tokens beside vectors
    num_heads: ClassVar[int] = 0  # of attention scores
    causal: ClassVar[bool] = True
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ()

    def check_kernel(self) -> None:
        """Raise SpecError for a convolution of a single token, which needs no state."""
        if self.kernel < 2:
            raise SpecError(f"{type(self).__name__}: kernel is {self.kernel}, expected 2 or more tokens")
