"""Waveforms through a short stem of convolutions (Jeffries et al. 2024, 3.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import SignalStackSpec, WaveformStemSpec
from txexport.spec.shapes import Shapes


class WaveformStem:
    """Samples (B,samples), of any number; the rows of a batch have one length, since there is no mask."""

    spec = WaveformStemSpec
    reads_tokens = False
    last_state_before_norm = False
    tables = ()

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_values."""
        return (floats(names.INPUT_VALUES, rows[0], names.NUM_SAMPLES),)

    def length(self, embedding: WaveformStemSpec, tokens: int | str) -> int | str:
        """Any number of vectors, by the name of the sequence that the stack's other ports have."""
        return tokens

    def vectors(self, embedding: WaveformStemSpec, tokens: int) -> int:
        """Those of ten seconds."""
        return embedding.length

    def facts(self, embedding: WaveformStemSpec) -> GraphFacts:
        """The least number of samples, and those from a vector to the next."""
        return GraphFacts(least_samples=embedding.least, vector_stride=embedding.stride)

    def parameters(self, embedding: WaveformStemSpec) -> Shapes:
        """Convolutions, and the norm of the first one's output."""
        shapes: Shapes = {}
        channels = 1
        for number, convolution in enumerate(embedding.convolutions):
            shapes[f"convolutions.{number}.weight"] = (convolution.size, channels, convolution.kernel)
            if number > 0:
                shapes[f"convolutions.{number}.bias"] = (convolution.size,)
            channels = convolution.size
        size = embedding.convolutions[0].size
        return shapes | {"norm.weight": (size,), "norm.bias": (size,)}

    def fixed(self, embedding: WaveformStemSpec) -> tuple[str, ...]:
        """None: all are learned."""
        return ()

    def operations(self, embedding: WaveformStemSpec) -> int:
        """Each convolution over the output of the one before."""
        (length,), channels, products = embedding.shape, 1, 0
        for convolution in embedding.convolutions:
            length = (length - convolution.kernel) // convolution.stride + 1
            products += length * convolution.size * channels * convolution.kernel
            channels = convolution.size
        return 2 * products

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Convolutions, samples of a vector, positions."""
        embedding = stack.embedding
        assert isinstance(embedding, WaveformStemSpec)
        count = f"a waveform through {len(embedding.convolutions)} convolutions"
        return [count, f"a vector every {embedding.stride:,} samples", "RoPE"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Waveforms of random numbers, all of one vector more than the largest of the `lengths`."""
        assert isinstance(stack.embedding, WaveformStemSpec)
        samples = stack.embedding.samples(1 + max(lengths))
        return [random.standard_normal(samples, np.float32) for _ in lengths]

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of several lengths: the shortest, odd numbers of samples, nine rows, silence."""
        embedding = stack.embedding
        assert isinstance(embedding, WaveformStemSpec)
        random, stride = np.random.default_rng(0), embedding.stride
        least = embedding.samples(vectors)
        for name, rows, samples in (
            ("one vector" if vectors == 1 else f"{vectors} vectors", 1, least),
            ("one", 1, least + 5 * stride + 1),
            ("three", 3, least + 8 * stride),
            ("nine", 9, least + 2 * stride - 1),
        ):
            yield SignalCase(name, random.standard_normal((rows, samples), np.float32))
        yield SignalCase("one of zeros", np.zeros((1, least + 4 * stride), np.float32))


INPUT = WaveformStem()
