"""Frames of a sound, projected."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import FramesSpec, SignalStackSpec
from txexport.spec.lengths import least_behind
from txexport.spec.shapes import Shapes, linear, norm, under


class Frames:
    """Frames (B,S,features), of any number, and their mask."""

    spec = FramesSpec
    reads_tokens = False
    last_state_before_norm = False
    tables = ()

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_features, attention_mask."""
        embedding = stack.embedding
        assert isinstance(embedding, FramesSpec)
        shape = rows[0], rows[1] if stack.length_adapter is None else names.NUM_FRAMES
        return (
            floats(names.INPUT_FEATURES, *shape, embedding.feature_size),
            ints(names.ATTENTION_MASK, *shape),
        )

    def length(self, embedding: FramesSpec, tokens: int | str) -> int | str:
        """Any number of vectors, by the name of the sequence that the stack's other ports have."""
        return tokens

    def vectors(self, embedding: FramesSpec, tokens: int) -> int:
        """Those of ten seconds."""
        return embedding.length

    def facts(self, embedding: FramesSpec) -> GraphFacts:
        """A vector for every frame."""
        return GraphFacts(least_samples=1, vector_stride=1)

    def parameters(self, embedding: FramesSpec) -> Shapes:
        """The norm and the projection."""
        project = linear(embedding.feature_size, embedding.hidden_size, True)
        return under("norm", norm(embedding.norm)) | under("project", project)

    def fixed(self, embedding: FramesSpec) -> tuple[str, ...]:
        """None: all are learned."""
        return ()

    def operations(self, embedding: FramesSpec) -> int:
        """None but the projection, which is counted as a matrix."""
        return 0

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Numbers of a frame."""
        embedding = stack.embedding
        assert isinstance(embedding, FramesSpec)
        return [f"frames of {embedding.feature_size} numbers"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Frames of random numbers, of these numbers."""
        assert isinstance(stack.embedding, FramesSpec)
        size = stack.embedding.feature_size
        return [random.standard_normal((length, size), np.float32) for length in lengths]

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of several lengths: one frame, odd numbers, ragged rows, scattered padding, nine, zeros.

        Shorter rows are padded on the right, with random numbers in place of the original extractor's. A
        causal convolution never reads them, but it reads the scattered ones. The vectors of padding are
        compared too: pipelines read the text of a last one that is half a sound's.
        """
        assert isinstance(stack.embedding, FramesSpec)
        random, size = np.random.default_rng(0), stack.embedding.feature_size
        vectors = least_behind(stack, vectors)
        for name, lengths in (
            ("one frame" if vectors == 1 else f"{vectors} frames", [1]),
            ("one", [23]),
            ("three", [8, 8, 8]),
            ("three ragged rows", [3, 19, 1]),
            ("three rows, scattered padding", [12, 12, 12]),
            ("long and short row", [157, 5]),
            ("nine ragged rows", [2, 9, 30, 1, 17, 4, 12, 21, 8]),
        ):
            longer = np.array(lengths) + vectors - 1
            mask = np.arange(longer.max()) < longer[:, None]
            if name.endswith("scattered padding"):
                mask[:, 1:] = random.random(mask[:, 1:].shape) < 0.6
            signals = random.standard_normal((*mask.shape, size), np.float32)
            yield SignalCase(name, signals, mask.astype(np.int64))
        mask = np.ones((1, 6 + vectors), bool)
        signals = np.zeros((*mask.shape, size), np.float32)
        yield SignalCase("one of zeros", signals, mask.astype(np.int64))


INPUT = Frames()
