"""Log-mel spectrograms through two convolutions over time (Radford et al. 2022, 2.2)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise, signal_cases
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import LogMelSpec, SignalStackSpec
from txexport.spec.shapes import Shapes


class LogMel:
    """A spectrogram (B,bands,frames)."""

    spec = LogMelSpec
    reads_tokens = False
    last_state_before_norm = False
    tables = ("position.weight",)

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_features, with feature_attention_mask where it is masked."""
        features = floats(names.INPUT_FEATURES, rows[0], *stack.embedding.shape)
        mask = ints(names.FEATURE_ATTENTION_MASK, rows[0], stack.embedding.shape[1])
        return (features, mask) if stack.masked else (features,)

    def length(self, embedding: LogMelSpec, tokens: int | str) -> int | str:
        """Half as many vectors as frames."""
        return embedding.length

    def vectors(self, embedding: LogMelSpec, tokens: int) -> int:
        """Half as many vectors as frames."""
        return embedding.length

    def facts(self, embedding: LogMelSpec) -> GraphFacts:
        """None: spectrograms have one size."""
        return GraphFacts()

    def parameters(self, embedding: LogMelSpec) -> Shapes:
        """Two convolutions over time, and the table of positions."""
        width = embedding.hidden_size
        return {
            "first.weight": (width, embedding.num_mel_bins, 3),
            "first.bias": (width,),
            "second.weight": (width, width, 3),
            "second.bias": (width,),
            "position.weight": (embedding.length, width),
        }

    def fixed(self, embedding: LogMelSpec) -> tuple[str, ...]:
        """The positions, which are sinusoids."""
        return ("position.weight",)

    def operations(self, embedding: LogMelSpec) -> int:
        """The operations of both convolutions, each with a kernel of 3."""
        weights = 2 * embedding.num_mel_bins + embedding.hidden_size
        return 2 * embedding.length * embedding.hidden_size * 3 * weights

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Frames and bands of the spectrogram, positions."""
        embedding = stack.embedding
        assert isinstance(embedding, LogMelSpec)
        size = f"{2 * embedding.length:,} frames of {embedding.num_mel_bins} bands"
        return [size, f"{embedding.length:,} fixed positions"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of spectrograms, one of silence."""
        return signal_cases(stack)


INPUT = LogMel()
