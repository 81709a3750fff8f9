"""A decoder some of whose layers attend to images, in place of the tokens before."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.decoder import check_causal_lm, check_decoder
from txexport.spec.enums import Architecture, PositionKind
from txexport.spec.head import HeadSpec
from txexport.spec.source_attention import SourceAttentionSpec
from txexport.spec.stack import StackSpec, TextStackSpec
from txexport.spec.tiled_stack import TiledStackSpec


@dataclass(frozen=True)
class CrossVisionLanguageSpec:
    """An image encoder, a projector, and a decoder under a causal LM head (Alayrac et al. 2022, 2).

    Layers of the decoder with SourceAttentionSpec attend to the vectors of images, projected to its width. A
    token `image_token_id` marks where an image stands; it has an embedding as others have. The head scores
    the first `vocab_size` of the tokens that the embedding knows.
    """

    vision: TiledStackSpec
    decoder: TextStackSpec
    head: HeadSpec
    image_token_id: int
    vocab_size: int

    architecture: ClassVar[Architecture] = Architecture.CROSS_VISION_LANGUAGE
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_decoder(self, self.decoder, crosses=True)
        check_causal_lm(self, self.head, self.decoder)
        embedding, known = self.decoder.embedding, self.decoder.embedding.vocab_size
        if not self.decoder.crosses or not self.decoder.has_keys or self.decoder.has_cross_attention:
            raise SpecError(
                "CrossVisionLanguageSpec: expected layers that attend to images, and others with keys and "
                "values of tokens; a VisionLanguageSpec reads images among tokens"
            )
        expected = self.vision.embedding.length, self.width
        for kind in [block.attention for block in self.decoder.blocks]:
            if not isinstance(kind, SourceAttentionSpec):
                continue
            if (kind.vectors, kind.attention.key_value_size) != expected:
                raise SpecError(
                    f"CrossVisionLanguageSpec: layers attend to {kind.vectors} vectors of "
                    f"{kind.attention.key_value_size} numbers, expected {expected[0]} of {expected[1]}"
                )
        if embedding.position.kind != PositionKind.NONE or self.decoder.relative or self.decoder.stateful:
            raise SpecError(
                "CrossVisionLanguageSpec: the decoder adds positions to tokens or to scores, or keeps "
                "states; expected rotary positions alone"
            )
        if self.head.tied or not 1 <= self.vocab_size <= known or not 0 <= self.image_token_id < known:
            raise SpecError(
                f"CrossVisionLanguageSpec: tied={self.head.tied}, {self.vocab_size} tokens are scored and "
                f"image_token_id is {self.image_token_id}; expected False, and no more than {known}, which "
                "have embeddings"
            )

    @property
    def width(self) -> int:
        """Width of the decoder, and of the vectors of images that it attends to."""
        return self.decoder.hidden_size

    @property
    def crossed(self) -> tuple[int, ...]:
        """The numbers of the layers that attend to images."""
        return tuple(layer for layer, block in enumerate(self.decoder.layers) if block.crosses)

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"vision": self.vision, "decoder": self.decoder}

    @property
    def stack(self) -> TextStackSpec:
        """The stack under the head."""
        return self.decoder
