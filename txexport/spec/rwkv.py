"""RWKV's sublayers, which keep the last token, and time mixing a weighted mean of each channel too."""

from dataclasses import dataclass

from txexport.errors import positive
from txexport.spec.stateful_layer import StatefulLayer


@dataclass(frozen=True)
class TimeMixSpec(StatefulLayer):
    """A mean of past values in place of attention (Peng et al. 2023, RWKV, 3.1).

    A token's weight in the mean is the exponential of its key, and decays by a factor of each channel with
    every token after it. Keys, values and the gate of the output are projections of a token and the one
    before it, interpolated.
    """

    hidden_size: int

    def __post_init__(self) -> None:
        positive(self, "hidden_size")

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps, by kind: the last token, and sums of each channel.

        The sums of weighted values and of weights are divided by the exponential of `maximum`.
        """
        return dict.fromkeys(("time_shift", "numerator", "denominator", "maximum"), (self.hidden_size,))


@dataclass(frozen=True)
class ChannelMixSpec:
    """A feed-forward network over a token and the one before it, interpolated (Peng et al. 2023, RWKV, 3.1).

    Between its two projections is a squared ReLU, and a sigmoid gate multiplies the output.
    """

    hidden_size: int
    intermediate_size: int

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "intermediate_size")

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shape of what a row keeps between steps, by kind: the last token."""
        return {"channel_shift": (self.hidden_size,)}
