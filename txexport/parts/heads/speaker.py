"""Speaker embeddings: x-vectors by time-delay layers, a TDNN (Snyder et al. 2018)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import HeadKind, HeadSpec
from txexport.spec.shapes import Shapes, linear, under


class Speaker:
    """A vector of a recording, and scores that are projected from it."""

    kind = HeadKind.SPEAKER
    component = "speaker"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,labels) and embeddings (B,D)."""
        assert head.time_delay is not None
        size = head.time_delay.vector_size
        return floats(names.LOGITS, hidden[0], head.labels), floats(names.EMBEDDINGS, hidden[0], size)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The projection, the layers, the vector's projection, and that of the scores."""
        assert head.time_delay is not None
        delay, shapes = head.time_delay, under("narrow", linear(hidden_size, head.time_delay.sizes[0], True))
        inner = delay.sizes[0]
        for number, (size, kernel) in enumerate(zip(delay.sizes, delay.kernels, strict=True)):
            shapes |= under(f"layers.{number}", linear(kernel * inner, size, True))
            inner = size
        shapes |= under("vector", linear(2 * inner, delay.vector_size, True))
        return shapes | under("scores", linear(delay.vector_size, head.labels, True))

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of layers and the size of the vector."""
        assert head.time_delay is not None
        layers = len(head.time_delay.sizes)
        return f"speaker, {layers} time-delay layers, a vector of {head.time_delay.vector_size:,}"


HEAD = Speaker()
