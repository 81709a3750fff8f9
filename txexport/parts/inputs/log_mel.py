"""Log-mel spectrograms through two convolutions over time (Radford et al. 2022, 2.2)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import LogMelSpec, SignalStackSpec
from txexport.spec.shapes import Shapes


class LogMel:
    """A spectrogram (B,bands,frames)."""

    spec = LogMelSpec
    reads_tokens = False
    last_state_before_norm = False

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_features."""
        return (floats(names.INPUT_FEATURES, rows[0], *stack.embedding.shape),)

    def length(self, embedding: LogMelSpec, tokens: int | str) -> int | str:
        """Half as many vectors as frames."""
        return embedding.length

    def vectors(self, embedding: LogMelSpec, tokens: int) -> int:
        """Half as many vectors as frames."""
        return embedding.length

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

    def operations(self, embedding: LogMelSpec) -> int:
        """The first convolution over 3 frames and the second over 3 of its outputs."""
        weights = 2 * embedding.num_mel_bins + embedding.hidden_size
        return 2 * embedding.length * embedding.hidden_size * 3 * weights


LOG_MEL = LogMel()
