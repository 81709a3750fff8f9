"""A stack over fewer vectors than its embedding gives, and as many again behind it."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class SqueezeSpec:
    """Squeezing before the layers, and upsampling behind them (Wu et al. 2022).

    Means of every `factor` vectors, plus positions, are normalised by `norm`. Positions are a convolution
    with that stride over the vectors, in `position_groups`, with a kernel of `position_kernel` vectors.
    Vectors behind the last complete group are dropped. Behind the layers, a projection makes `factor` vectors
    of each; as many zeros as vectors were dropped follow. `activation` is that of both.
    """

    factor: int
    position_kernel: int
    position_groups: int
    norm: NormSpec
    activation: Activation

    def __post_init__(self) -> None:
        positive(self, "factor", "position_kernel", "position_groups")
        if self.norm.size % self.position_groups:
            raise SpecError(
                f"SqueezeSpec: {self.norm.size} channels are not divisible by position_groups "
                f"{self.position_groups}"
            )

    def check_around(self, name: str, bare: bool, hidden_size: int) -> None:
        """Raise SpecError unless the embedding, of class `name`, is `bare`, and the stack as wide."""
        if not bare:
            raise SpecError(
                f"SignalStackSpec: squeeze is given for {name}, expected None, or a waveform without "
                "positions and final norm"
            )
        if self.norm.size != hidden_size:
            raise SpecError(f"SignalStackSpec: squeeze is {self.norm.size} wide, the stack {hidden_size}")

    def operations(self, vectors: int) -> int:
        """Floating-point operations of the positions of that number of the embedding's vectors."""
        width, kernel = self.norm.size, self.position_kernel
        positions = (vectors + kernel // 2 * 2 - kernel) // self.factor + 1
        return 2 * positions * width * (width // self.position_groups) * kernel
