"""Pages and queries as a vector for each token, for late interaction."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.connector import ConnectorSpec
from txexport.spec.enums import Architecture, PositionKind
from txexport.spec.packed import PackedSpec
from txexport.spec.signal_embedding import PatchSpec
from txexport.spec.stack import SignalStackSpec, StackSpec, TextStackSpec, check_stateless


@dataclass(frozen=True)
class VisualRetrieverSpec:
    """An image encoder, a connector, and a stack that reads pages or queries whole (Faysse et al. 2024, 4).

    The connector's vectors of images, in their order, replace the embeddings of the tokens `image_token_id`.
    Every token's hidden state is projected to `size` numbers and L2-normalised; padding has zeros. Images are
    of one size, or of any size as packed patches.
    """

    text: TextStackSpec
    vision: SignalStackSpec
    connector: ConnectorSpec
    size: int
    image_token_id: int

    architecture: ClassVar[Architecture] = Architecture.VISUAL_RETRIEVER
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "size")
        check_stateless(self, self.text)
        patches, connector, embedding = self.vision.embedding, self.connector, self.text.embedding
        if not 0 <= self.image_token_id < embedding.vocab_size:
            raise SpecError(
                f"VisualRetrieverSpec: image_token_id is {self.image_token_id}, expected 0 to "
                f"{embedding.vocab_size - 1}"
            )
        if self.text.has_cross_attention or embedding.position.kind != PositionKind.NONE:
            raise SpecError(
                "VisualRetrieverSpec: the stack adds positions to the vectors of tokens, or has "
                "cross-attention; expected rotary positions alone"
            )
        expected: tuple[tuple[int, int] | None, int, int]
        if isinstance(patches, PackedSpec):
            expected = None, patches.merged, 0
        elif isinstance(patches, PatchSpec) and not patches.any_size and patches.length == patches.patches:
            expected = patches.grid, 1, 0
        else:
            raise SpecError(
                f"VisualRetrieverSpec: the encoder reads {type(patches).__name__}, expected packed patches, "
                "or patches alone of images of one size"
            )
        shape = connector.grid, connector.merged, connector.skipped
        sizes = connector.hidden_size, connector.size
        if shape != expected or sizes != (self.vision.hidden_size, self.text.hidden_size):
            raise SpecError(
                f"VisualRetrieverSpec: the connector has grid, merged, skipped {shape} and {sizes[0]} to "
                f"{sizes[1]} numbers, expected {expected} and {self.vision.hidden_size} to "
                f"{self.text.hidden_size}"
            )

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"text": self.text, "vision": self.vision}

    @property
    def vocab_size(self) -> int:
        """The number of tokens that it knows."""
        return self.text.embedding.vocab_size

    @property
    def any_size(self) -> bool:
        """True where the number of an image's vectors depends on its size."""
        return self.connector.grid is None
