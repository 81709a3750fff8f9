"""Images, cut into square patches (Dosovitskiy et al. 2021, 3.1)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import PatchSpec, SignalStackSpec
from txexport.spec.shapes import Shapes, norm, under


class Patches:
    """Pixels (B,channels,height,width)."""

    spec = PatchSpec
    reads_tokens = False
    last_state_before_norm = True

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values, of any height and width where positions are interpolated."""
        embedding = stack.embedding
        assert isinstance(embedding, PatchSpec)
        size = (names.HEIGHT, names.WIDTH) if embedding.any_size else embedding.image_size
        return (floats(names.PIXEL_VALUES, rows[0], embedding.channels, *size),)

    def length(self, embedding: PatchSpec, tokens: int | str) -> int | str:
        """One vector a patch, a learned token and a register."""
        return names.SEQUENCE_LENGTH if embedding.any_size else embedding.length

    def vectors(self, embedding: PatchSpec, tokens: int) -> int:
        """Those of an image of `image_size`."""
        return embedding.length

    def parameters(self, embedding: PatchSpec) -> Shapes:
        """The learned tokens, the table of positions, the projection of patches, and the norm."""
        width, size = embedding.hidden_size, embedding.patch_size
        shapes: Shapes = {f"tokens.{token}.weight": (1, width) for token in range(embedding.tokens)}
        if embedding.registers:
            shapes["registers.weight"] = (embedding.registers, width)
        if embedding.positioned:
            shapes["position.weight"] = (embedding.positions, width)
        shapes["project.weight"] = (width, embedding.channels, size, size)
        if embedding.bias:
            shapes["project.bias"] = (width,)
        return shapes | (under("norm", norm(embedding.norm)) if embedding.norm is not None else {})

    def operations(self, embedding: PatchSpec) -> int:
        """The projection of every patch of an image of `image_size`."""
        pixels = embedding.channels * embedding.patch_size**2
        return 2 * (embedding.positions - embedding.tokens) * embedding.hidden_size * pixels


PATCHES = Patches()
