"""The numbers of vectors of a signal: of its embedding, in the layers, and behind them."""

from txexport.spec.length_adapter import LengthAdapterSpec
from txexport.spec.squeeze import SqueezeSpec
from txexport.spec.stack import SignalStackSpec, StackSpec


def squeeze_of(stack: StackSpec) -> SqueezeSpec | None:
    """The squeeze of a stack over a waveform; None where there is none."""
    return stack.squeeze if isinstance(stack, SignalStackSpec) else None


def adapter_of(stack: StackSpec) -> LengthAdapterSpec | None:
    """The length adapter of a stack over a sound; None where there is none."""
    return stack.length_adapter if isinstance(stack, SignalStackSpec) else None


def resampled(stack: StackSpec) -> bool:
    """True where the layers have another number of vectors than the stack returns."""
    return squeeze_of(stack) is not None or adapter_of(stack) is not None


def inside(stack: StackSpec, vectors: int) -> int:
    """The number of vectors that the layers read, of those of the embedding."""
    squeeze = squeeze_of(stack)
    return vectors if squeeze is None else vectors // squeeze.factor


def behind(stack: StackSpec, vectors: int) -> int:
    """The number of vectors that the stack returns, of those of the embedding."""
    adapter = adapter_of(stack)
    for _ in range(0 if adapter is None else adapter.num_layers):
        assert adapter is not None
        vectors = adapter.after(vectors)
    return vectors


def least_behind(stack: StackSpec, vectors: int) -> int:
    """The least number of the embedding's vectors that `vectors` vectors behind the layers need."""
    squeeze, adapter = squeeze_of(stack), adapter_of(stack)
    if squeeze is not None:
        return max(vectors, squeeze.factor)
    return vectors if adapter is None else adapter.least(vectors)


def strides(stack: StackSpec) -> tuple[int, int]:
    """The embedding's vectors from one of the layers to the next, and from one behind them to the next."""
    squeeze, adapter = squeeze_of(stack), adapter_of(stack)
    within = 1 if squeeze is None else squeeze.factor
    return within, 1 if adapter is None else adapter.stride**adapter.num_layers


def output_size(stack: StackSpec) -> int:
    """The width of the vectors that the stack returns."""
    adapter = adapter_of(stack)
    return stack.hidden_size if adapter is None else adapter.hidden_size
