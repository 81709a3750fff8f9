"""Values that every stack over an image has in common, for code that reads stacks of all kinds."""

from typing import ClassVar

from txexport.spec.layer import BlockSpec
from txexport.spec.norm import NormSpec
from txexport.spec.signal_embedding import PatchSpec


class ImagesAlone:
    """A stack that reads images and no tokens, so that nothing limits or masks them."""

    causal: ClassVar[bool] = False
    has_cross_attention: ClassVar[bool] = False
    limit: ClassVar[None] = None
    masked: ClassVar[bool] = False
    relative: ClassVar[None] = None
    rotary: ClassVar[None] = None
    patches: ClassVar[PatchSpec | None] = None


class WithoutBlocks(ImagesAlone):
    """One whose layers are no blocks of an encoder."""

    final_norm: ClassVar[NormSpec | None] = None
    blocks: ClassVar[tuple[BlockSpec, ...]] = ()
    layers: ClassVar[tuple[BlockSpec, ...]] = ()
    num_layers: ClassVar[int] = 0
