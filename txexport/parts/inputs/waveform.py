"""Waveforms through convolutions (Baevski et al. 2020, 2)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import ConvolutionNorm, PositionNorm, SignalStackSpec, WaveformSpec
from txexport.spec.lengths import behind, least_behind, resampled, strides
from txexport.spec.shapes import Shapes, linear, norm, under


class Waveform:
    """Samples (B,samples), of any number."""

    spec = WaveformSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ()

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_values, and attention_mask where the stack is masked."""
        shape = rows[0], names.NUM_SAMPLES
        signal = floats(names.INPUT_VALUES, *shape)
        return (signal, ints(names.ATTENTION_MASK, *shape)) if stack.masked else (signal,)

    def length(self, embedding: WaveformSpec, tokens: int | str) -> int | str:
        """Any number of vectors, by the name of the sequence that the stack's other ports have."""
        return tokens

    def vectors(self, embedding: WaveformSpec, tokens: int) -> int:
        """Those of ten seconds."""
        return embedding.length

    def facts(self, embedding: WaveformSpec) -> GraphFacts:
        """The least number of samples, and those from a vector to the next."""
        return GraphFacts(least_samples=embedding.least, vector_stride=embedding.stride)

    def parameters(self, embedding: WaveformSpec) -> Shapes:
        """Convolutions and their norms, the projection and its norm, positions, the final norm."""
        shapes: Shapes = {}
        channels, width = 1, embedding.hidden_size
        for number, convolution in enumerate(embedding.convolutions):
            shapes[f"convolutions.{number}.weight"] = (convolution.size, channels, convolution.kernel)
            if embedding.bias:
                shapes[f"convolutions.{number}.bias"] = (convolution.size,)
            channels = convolution.size
        shapes |= self._convolution_norms(embedding)
        if embedding.norm is not None:
            shapes |= under("norm", norm(embedding.norm))
        if embedding.projected:
            shapes |= under("project", linear(channels, width, True))
        shapes |= self._positions(embedding)
        return shapes | (under("final_norm", norm(embedding.final_norm)) if embedding.final_norm else {})

    def _convolution_norms(self, embedding: WaveformSpec) -> Shapes:
        sizes = [convolution.size for convolution in embedding.convolutions]
        if embedding.convolution_norm == ConvolutionNorm.GROUP:
            return {"channel_norm.weight": (sizes[0],), "channel_norm.bias": (sizes[0],)}
        return {
            f"convolution_norms.{number}.{part}": (size,)
            for number, size in enumerate(sizes)
            for part in ("weight", "bias")
        }

    def _positions(self, embedding: WaveformSpec) -> Shapes:
        width, group = embedding.hidden_size, embedding.hidden_size // embedding.position_groups
        if embedding.position_kernel is None:
            return {}
        one: Shapes = {"weight": (width, group, embedding.position_kernel), "bias": (width,)}
        if embedding.position_norm == PositionNorm.LAYER:
            layers = range(embedding.position_layers)
            return {
                name: shape for layer in layers for name, shape in under(f"positions.{layer}", one).items()
            }
        if embedding.position_norm == PositionNorm.BATCH:
            one |= {f"norm.{part}": (width,) for part in ("weight", "bias", "mean", "variance")}
        return under("position", one)

    def fixed(self, embedding: WaveformSpec) -> tuple[str, ...]:
        """None: all are learned."""
        return ()

    def operations(self, embedding: WaveformSpec) -> int:
        """The convolutions and the positions; the projection is counted as a matrix."""
        (length,), channels, products = embedding.shape, 1, 0
        for convolution in embedding.convolutions:
            length = (length - convolution.kernel) // convolution.stride + 1
            products += length * convolution.size * channels * convolution.kernel
            channels = convolution.size
        width, group = embedding.hidden_size, embedding.hidden_size // embedding.position_groups
        kernel = embedding.position_kernel or 0
        return 2 * (products + length * width * group * kernel * embedding.position_layers)

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Convolutions, samples of a vector, positions."""
        embedding = stack.embedding
        assert isinstance(embedding, WaveformSpec)
        count = f"a waveform through {len(embedding.convolutions)} convolutions"
        every, kernel = f"a vector every {embedding.stride:,} samples", embedding.position_kernel
        if stack.squeeze is not None:
            squeezed = f"means of every {stack.squeeze.factor} vectors"
            return [count, every, squeezed, f"positions by a convolution of {stack.squeeze.position_kernel}"]
        if kernel is None:
            return [count, every]
        layers = embedding.position_layers
        convolutions = f"{layers} convolutions" if layers > 1 else "a convolution"
        return [count, every, f"positions by {convolutions} of {kernel}"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Waveforms of random numbers, of that many vectors or more; without a mask all of one length."""
        assert isinstance(stack.embedding, WaveformSpec)
        least = stack.embedding.least
        each = lengths if stack.masked else [max(lengths)] * len(lengths)
        return [random.standard_normal(least * (1 + length), np.float32) for length in each]

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of several lengths: the shortest, odd numbers of samples, ragged rows, nine rows, silence.

        Shorter rows are padded with zeros on the right, as the original's extractor does.
        """
        embedding = stack.embedding
        assert isinstance(embedding, WaveformSpec)
        random, first = np.random.default_rng(0), least_behind(stack, vectors)
        fewest = first if stack.squeeze is None else vectors  # of a row beside longer ones
        least, more = embedding.samples(max(strides(stack))), embedding.samples(fewest) - embedding.least
        shortest = embedding.samples(first) - more
        uneven = [embedding.samples(fewest - 1 + count) - more for count in (11, 8, 7, 4, 2, 1)]
        for name, lengths in (
            ("one vector" if first == 1 else f"{first} vectors", [shortest]),
            ("one", [5 * least + 1]),
            ("three", [8 * least] * 3),
            ("three ragged rows padded with zeros", [3 * least, 9 * least + 3, least]),
            ("one longer than the positions' kernel", [least * ((embedding.position_kernel or 0) + 7)]),
            ("nine", [2 * least + row for row in range(9)]),
            *[("rows that end within groups of vectors", uneven)] * resampled(stack),
        ):
            longer = [more + length for length in lengths]
            signals = random.standard_normal((len(longer), max(longer)), np.float32)
            yield _case(name, stack, signals, longer)
        length = more + 4 * least
        yield _case("one of zeros", stack, np.zeros((1, length), np.float32), [length])


def _case(name: str, stack: SignalStackSpec, signals: np.ndarray, lengths: Sequence[int]) -> SignalCase:
    """The case of signals (B,samples) that end after `lengths`, with zeros there."""
    embedding = stack.embedding
    assert isinstance(embedding, WaveformSpec)
    mask = np.arange(signals.shape[1]) < np.array(lengths)[:, None]
    signals = signals * mask
    if not embedding.masked:
        return SignalCase(name, signals)
    vectors = [embedding.vectors(length) for length in (*lengths, signals.shape[1])]
    embedded = _prefixes(vectors)
    real = _prefixes([behind(stack, count) for count in vectors])
    within = embedded if stack.length_adapter is not None else None
    if stack.squeeze is not None:
        groups = embedded.shape[1] // stack.squeeze.factor
        within = embedded[:, :: stack.squeeze.factor][:, :groups]  # a group is real if its first vector is
    return SignalCase(name, signals, mask.astype(np.int64), real, within)


def _prefixes(lengths: Sequence[int]) -> np.ndarray:
    """Masks (B,S) that are true for the first vectors of rows; the last of `lengths` is S."""
    *rows, longest = lengths
    masks: np.ndarray = np.arange(longest) < np.array(rows)[:, None]
    return masks


INPUT = Waveform()
