"""Spectrograms folded into squares, as grids of patches (Chen et al. 2022, 3.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import signal_cases
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import SpectrogramGridSpec, StagedStackSpec
from txexport.spec.shapes import Shapes, norm, under

FEWER = 5  # frames less than the most, of each next length of a case


class SpectrogramGrid:
    """A spectrogram (B,1,frames,bands) of up to `max_length` frames."""

    spec = SpectrogramGridSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ()

    def ports(self, stack: StagedStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_features."""
        embedding = stack.embedding
        assert isinstance(embedding, SpectrogramGridSpec)
        return (floats(names.INPUT_FEATURES, rows[0], 1, names.NUM_FRAMES, embedding.num_mel_bins),)

    def length(self, embedding: SpectrogramGridSpec, tokens: int | str) -> int | str:
        """One vector for each patch, or in the last stage for each square of patches."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: SpectrogramGridSpec, tokens: int) -> int:
        """The patches of a sound."""
        return embedding.length

    def facts(self, embedding: SpectrogramGridSpec) -> GraphFacts:
        """None: no tokens precede the patches."""
        return GraphFacts()

    def parameters(self, embedding: SpectrogramGridSpec) -> Shapes:
        """The norm of bands, the projection of patches and their norm."""
        width, size = embedding.hidden_size, embedding.patch_size
        shapes: Shapes = {f"bands.{name}": (embedding.num_mel_bins,) for name in ("weight", "bias")}
        shapes |= {f"bands.{name}": (embedding.num_mel_bins,) for name in ("mean", "variance")}
        shapes |= {"project.weight": (width, 1, size, size), "project.bias": (width,)}
        return shapes | (under("norm", norm(embedding.norm)) if embedding.norm is not None else {})

    def fixed(self, embedding: SpectrogramGridSpec) -> tuple[str, ...]:
        """None: there are no positions."""
        return ()

    def operations(self, embedding: SpectrogramGridSpec) -> int:
        """The projection of every patch."""
        return 2 * embedding.length * embedding.hidden_size * embedding.patch_size**2

    def summary(self, stack: StagedStackSpec) -> list[str]:
        """Frames, bands, parts, and patches."""
        embedding = stack.embedding
        assert isinstance(embedding, SpectrogramGridSpec)
        size = f"up to {embedding.max_length:,} frames of {embedding.num_mel_bins} bands"
        folded = f"in {embedding.folds} parts, one below the other"
        return [size, folded, f"squares of {embedding.patch_size}"]

    def rows(self, stack: StagedStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random spectrograms: of length 0 with the most frames, of each next one with fewer."""
        channels, frames, bands = stack.embedding.shape
        sizes = [(channels, max(frames - FEWER * length, 1), bands) for length in lengths]
        return [random.standard_normal(size, np.float32) for size in sizes]

    def cases(self, stack: StagedStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of spectrograms, one of silence, and one of fewer frames."""
        channels, frames, bands = stack.embedding.shape
        return signal_cases(stack, [("two of fewer frames", (2, channels, frames - FEWER, bands))])


INPUT = SpectrogramGrid()
