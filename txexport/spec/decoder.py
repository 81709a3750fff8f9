"""One decoder under a causal LM head, and the checks of decoders."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.enums import Architecture, HeadKind
from txexport.spec.head import HeadSpec, check_tied
from txexport.spec.stack import StackSpec, TextStackSpec


@dataclass(frozen=True)
class DecoderSpec:
    """A stack that reads new tokens over a cache of past ones, and scores what comes next.

    `several_axes` is true of the text model within one that reads images, if it has positions on several axes
    (equal for texts). Clients pass position_ids as (B,S) or (3,B,S), so graphs for them have no such input:
    they compute positions from attention_mask.
    """

    decoder: TextStackSpec
    head: HeadSpec
    several_axes: bool = False

    architecture: ClassVar[Architecture] = Architecture.DECODER
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_decoder(self, self.decoder)
        if self.decoder.has_cross_attention:
            raise SpecError(
                "DecoderSpec: there is no encoder to cross-attend to; expected cross_attention=None, or an "
                "EncoderDecoderSpec"
            )
        check_causal_lm(self, self.head, self.decoder)

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"decoder": self.decoder}

    @property
    def stack(self) -> TextStackSpec:
        """The stack under the head."""
        return self.decoder

    @property
    def vocab_size(self) -> int:
        """Tokens that the stack under the head knows."""
        return self.decoder.embedding.vocab_size


def check_decoder(owner: object, decoder: TextStackSpec, crosses: bool = False) -> None:
    if decoder.crosses and not crosses:
        raise SpecError(
            f"{type(owner).__name__}: layers attend to images in place of tokens, but there are none; "
            "expected a CrossVisionLanguageSpec"
        )
    if any(block.attention.token_masks for block in decoder.blocks):
        kinds = sorted({type(block.attention).__name__ for block in decoder.blocks})
        raise SpecError(
            f"{type(owner).__name__}: sparse attention has no cache, so it stands in an encoder only; "
            f"blocks have {', '.join(kinds)}, expected AttentionSpec"
        )
    if not decoder.causal:
        raise SpecError(
            f"{type(owner).__name__}: attention.causal is False, expected True: "
            "a decoder's attention must be causal"
        )
    if decoder.embedding.position.pad_token_id is not None:
        skipped = decoder.embedding.position.pad_token_id
        raise SpecError(
            f"{type(owner).__name__}: position.pad_token_id is {skipped}, expected None: "
            "a decoder's positions continue a cache, so they cannot skip padding"
        )


def check_causal_lm(owner: object, head: HeadSpec, decoder: TextStackSpec) -> None:
    if head.kind != HeadKind.CAUSAL_LM:
        raise SpecError(f"{type(owner).__name__}: a decoder needs a causal LM head, not '{head.kind}'")
    check_tied(head, decoder)
