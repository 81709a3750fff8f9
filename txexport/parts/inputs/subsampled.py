"""Spectrograms through convolutions over time and frequency (Rekesh et al. 2023, 2.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import SignalStackSpec, SubsampledSpec
from txexport.spec.shapes import Shapes, linear, under


class Subsampled:
    """Frames (B,frames,bands), of any number, and their mask."""

    spec = SubsampledSpec
    reads_tokens = False
    last_state_before_norm = False
    tables = ()

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_features, attention_mask."""
        embedding = stack.embedding
        assert isinstance(embedding, SubsampledSpec)
        shape = rows[0], names.NUM_FRAMES
        return (
            floats(names.INPUT_FEATURES, *shape, embedding.num_mel_bins),
            ints(names.ATTENTION_MASK, *shape),
        )

    def length(self, embedding: SubsampledSpec, tokens: int | str) -> int | str:
        """Any number of vectors."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: SubsampledSpec, tokens: int) -> int:
        """Those of ten seconds."""
        return embedding.length

    def facts(self, embedding: SubsampledSpec) -> GraphFacts:
        """The frames from a vector to the next."""
        return GraphFacts(least_samples=1, vector_stride=embedding.vector_stride)

    def parameters(self, embedding: SubsampledSpec) -> Shapes:
        """The convolutions and the projection."""
        size, kernels = embedding.channels, (embedding.kernel, embedding.kernel)
        shapes: Shapes = {"first.weight": (size, 1, *kernels), "first.bias": (size,)}
        for number in range(embedding.layers - 1):
            shapes[f"depthwise.{number}.weight"] = (size, 1, *kernels)
            shapes[f"depthwise.{number}.bias"] = (size,)
            shapes[f"pointwise.{number}.weight"] = (size, size, 1, 1)
            shapes[f"pointwise.{number}.bias"] = (size,)
        return shapes | under("project", linear(size * embedding.bands, embedding.hidden_size, True))

    def fixed(self, embedding: SubsampledSpec) -> tuple[str, ...]:
        """None: all are learned."""
        return ()

    def operations(self, embedding: SubsampledSpec) -> int:
        """The convolutions; the projection is counted as a matrix."""
        frames, bands = embedding.shape
        products = 0
        for number in range(embedding.layers):
            frames, bands = embedding.after(frames), embedding.after(bands)
            between = embedding.channels**2 if number else 0
            products += frames * bands * (embedding.channels * embedding.kernel**2 + between)
        return 2 * products

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Bands, frames of a vector."""
        embedding = stack.embedding
        assert isinstance(embedding, SubsampledSpec)
        stride = embedding.vector_stride
        return [f"frames of {embedding.num_mel_bins} bands", f"a vector every {stride} frames"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Frames of random numbers, of that number of vectors."""
        embedding = stack.embedding
        assert isinstance(embedding, SubsampledSpec)
        stride = embedding.vector_stride
        return [
            random.standard_normal((length * stride, embedding.num_mel_bins), np.float32)
            for length in lengths
        ]

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of several lengths: one frame, odd numbers, ragged rows, nine rows, zeros.

        Shorter rows are padded on the right, with random numbers in place of the original extractor's zeros.
        """
        embedding = stack.embedding
        assert isinstance(embedding, SubsampledSpec)
        random, size = np.random.default_rng(0), embedding.num_mel_bins
        for name, lengths in (
            ("one frame", [1]),
            ("one", [83]),
            ("three", [64, 64, 64]),
            ("three ragged rows", [25, 131, 9]),
            ("long and short row", [1001, 17]),
            ("nine ragged rows", [20, 77, 240, 1, 136, 33, 96, 168, 64]),
            ("one of zeros", [50]),
        ):
            mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
            signals = random.standard_normal((*mask.shape, size), np.float32)
            counts = np.array([[embedding.vectors(length)] for length in lengths])
            real = np.arange(counts.max()) < counts
            signals = signals * (name != "one of zeros")
            yield SignalCase(name, signals, mask.astype(np.int64), real)


INPUT = Subsampled()
