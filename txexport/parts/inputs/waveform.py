"""Waveforms through convolutions (Baevski et al. 2020, 2)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import SignalStackSpec, WaveformSpec
from txexport.spec.shapes import Shapes, linear, norm, under


class Waveform:
    """Samples (B,samples), of any number, without a mask."""

    spec = WaveformSpec
    reads_tokens = False
    last_state_before_norm = False
    tables = ()

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_values."""
        return (floats(names.INPUT_VALUES, rows[0], names.NUM_SAMPLES),)

    def length(self, embedding: WaveformSpec, tokens: int | str) -> int | str:
        """Any number of vectors."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: WaveformSpec, tokens: int) -> int:
        """Those of ten seconds."""
        return embedding.length

    def facts(self, embedding: WaveformSpec) -> GraphFacts:
        """The least number of samples."""
        return GraphFacts(least_samples=embedding.least)

    def parameters(self, embedding: WaveformSpec) -> Shapes:
        """Convolutions, the first one's norm, the projection and its norm, positions, the final norm."""
        shapes: Shapes = {}
        channels, width = 1, embedding.hidden_size
        for number, convolution in enumerate(embedding.convolutions):
            shapes[f"convolutions.{number}.weight"] = (convolution.size, channels, convolution.kernel)
            if embedding.bias:
                shapes[f"convolutions.{number}.bias"] = (convolution.size,)
            channels = convolution.size
        first = embedding.convolutions[0].size
        shapes |= {"channel_norm.weight": (first,), "channel_norm.bias": (first,)}
        shapes |= under("norm", norm(embedding.norm)) | under("project", linear(channels, width, True))
        shapes["position.weight"] = (width, width // embedding.position_groups, embedding.position_kernel)
        shapes["position.bias"] = (width,)
        return shapes | under("final_norm", norm(embedding.final_norm))

    def fixed(self, embedding: WaveformSpec) -> tuple[str, ...]:
        """None: all are learned."""
        return ()

    def operations(self, embedding: WaveformSpec) -> int:
        """Each convolution over the output of the one before, the projection, and the positions."""
        (length,), channels, products = embedding.shape, 1, 0
        for convolution in embedding.convolutions:
            length = (length - convolution.kernel) // convolution.stride + 1
            products += length * convolution.size * channels * convolution.kernel
            channels = convolution.size
        width, group = embedding.hidden_size, embedding.hidden_size // embedding.position_groups
        return 2 * (products + length * width * (channels + group * embedding.position_kernel))

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Convolutions, samples of a vector, positions."""
        embedding = stack.embedding
        assert isinstance(embedding, WaveformSpec)
        stride = 1
        for convolution in embedding.convolutions:
            stride *= convolution.stride
        count = f"a waveform through {len(embedding.convolutions)} convolutions"
        kernel = embedding.position_kernel
        return [count, f"a vector every {stride:,} samples", f"positions by a convolution of {kernel}"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Waveforms of random numbers, of that number of vectors and one more."""
        assert isinstance(stack.embedding, WaveformSpec)
        least = stack.embedding.least
        return [random.standard_normal(least * (1 + length), np.float32) for length in lengths]

    def cases(self, stack: SignalStackSpec) -> Iterator[SignalCase]:
        """Batches of several lengths: one vector, odd numbers of samples, ragged rows, nine rows, silence.

        Shorter rows are padded with zeros on the right, as the original's extractor does.
        """
        assert isinstance(stack.embedding, WaveformSpec)
        random, least = np.random.default_rng(0), stack.embedding.least
        for name, lengths in (
            ("one vector", [least]),
            ("one", [5 * least + 1]),
            ("three", [8 * least] * 3),
            ("three ragged rows padded with zeros", [3 * least, 9 * least + 3, least]),
            ("one longer than the positions' kernel", [least * (stack.embedding.position_kernel + 7)]),
            ("nine", [2 * least + row for row in range(9)]),
        ):
            signals = random.standard_normal((len(lengths), max(lengths)), np.float32)
            yield SignalCase(name, signals * (np.arange(max(lengths)) < np.array(lengths)[:, None]))
        yield SignalCase("one of zeros", np.zeros((1, 4 * least), np.float32))


INPUT = Waveform()
