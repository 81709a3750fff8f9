"""Spectrograms through gated convolutions over time (Synnaeve et al. 2019, 2.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import GatedFramesSpec, SignalStackSpec
from txexport.spec.shapes import Shapes


class GatedFrames:
    """Frames (B,frames,bands), of any number up to the table of positions, and their mask."""

    spec = GatedFramesSpec
    reads_tokens = False
    last_state_before_norm = False
    tables = ("position.weight",)

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_features, attention_mask."""
        embedding = stack.embedding
        assert isinstance(embedding, GatedFramesSpec)
        shape = rows[0], names.NUM_FRAMES
        return (
            floats(names.INPUT_FEATURES, *shape, embedding.num_mel_bins),
            ints(names.ATTENTION_MASK, *shape),
        )

    def length(self, embedding: GatedFramesSpec, tokens: int | str) -> int | str:
        """Any number of vectors, by the name of the sequence that the stack's other ports have."""
        return tokens

    def vectors(self, embedding: GatedFramesSpec, tokens: int) -> int:
        """Those of ten seconds."""
        return embedding.length

    def facts(self, embedding: GatedFramesSpec) -> GraphFacts:
        """The frames from a vector to the next."""
        return GraphFacts(least_samples=1, vector_stride=embedding.vector_stride)

    def parameters(self, embedding: GatedFramesSpec) -> Shapes:
        """The convolutions and the table of positions."""
        shapes: Shapes = {}
        for number, (size, out_size) in enumerate(embedding.sizes):
            shapes[f"convolutions.{number}.weight"] = (out_size, size, embedding.kernels[number])
            shapes[f"convolutions.{number}.bias"] = (out_size,)
        rows = embedding.max_length + embedding.offset
        return shapes | {"position.weight": (rows, embedding.hidden_size)}

    def fixed(self, embedding: GatedFramesSpec) -> tuple[str, ...]:
        """The positions, which are sinusoids."""
        return ("position.weight",)

    def operations(self, embedding: GatedFramesSpec) -> int:
        """Each convolution over the output of the one before."""
        frames, products = embedding.shape[0], 0
        for (size, out_size), kernel in zip(embedding.sizes, embedding.kernels, strict=True):
            frames = (frames - 1) // embedding.stride + 1
            products += frames * out_size * size * kernel
        return 2 * products

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Bands, frames of a vector, positions."""
        embedding = stack.embedding
        assert isinstance(embedding, GatedFramesSpec)
        stride, positions = embedding.vector_stride, f"{embedding.max_length:,} fixed positions"
        return [f"frames of {embedding.num_mel_bins} bands", f"a vector every {stride} frames", positions]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Frames of random numbers, of that number of vectors; the last vector is of one frame or more."""
        embedding = stack.embedding
        assert isinstance(embedding, GatedFramesSpec)
        stride, size = embedding.vector_stride, embedding.num_mel_bins
        most = [min(length, embedding.max_length) * stride for length in lengths]
        return [
            random.standard_normal((length - random.integers(stride), size), np.float32) for length in most
        ]

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """None: a decoder reads its vectors."""
        return iter(())


INPUT = GatedFrames()
