"""Spectrograms in overlapping square patches (Gong et al. 2021, 2.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise, signal_cases
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import SignalStackSpec, SpectrogramSpec
from txexport.spec.shapes import Shapes


class Spectrogram:
    """A spectrogram (B,frames,bands)."""

    spec = SpectrogramSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ("tokens.0.weight", "tokens.1.weight", "position.weight")

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_values."""
        return (floats(names.INPUT_VALUES, rows[0], *stack.embedding.shape),)

    def length(self, embedding: SpectrogramSpec, tokens: int | str) -> int | str:
        """One vector a patch, and two learned tokens."""
        return embedding.length

    def vectors(self, embedding: SpectrogramSpec, tokens: int) -> int:
        """One vector a patch, and two learned tokens."""
        return embedding.length

    def facts(self, embedding: SpectrogramSpec) -> GraphFacts:
        """None: spectrograms have one size."""
        return GraphFacts()

    def parameters(self, embedding: SpectrogramSpec) -> Shapes:
        """Both learned tokens, the table of positions and the projection of patches."""
        width, size = embedding.hidden_size, embedding.patch_size
        return {
            "tokens.0.weight": (1, width),
            "tokens.1.weight": (1, width),
            "position.weight": (embedding.length, width),
            "project.weight": (width, 1, size, size),
            "project.bias": (width,),
        }

    def fixed(self, embedding: SpectrogramSpec) -> tuple[str, ...]:
        """None: positions are learned."""
        return ()

    def operations(self, embedding: SpectrogramSpec) -> int:
        """The projection of every patch."""
        return 2 * (embedding.length - 2) * embedding.hidden_size * embedding.patch_size**2

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Frames and bands of the spectrogram, patches, positions."""
        embedding = stack.embedding
        assert isinstance(embedding, SpectrogramSpec)
        size = f"{embedding.max_length:,} frames of {embedding.num_mel_bins} bands"
        strides = f"every {embedding.time_stride} frames and {embedding.frequency_stride} bands"
        squares = f"squares of {embedding.patch_size}, {strides}"
        return [size, squares, f"{embedding.length:,} learned positions"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of spectrograms, one of silence."""
        return signal_cases(stack)


INPUT = Spectrogram()
