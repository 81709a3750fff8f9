"""Words in their boxes on a page, under a head."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.attention import AttentionSpec
from txexport.spec.enums import Architecture, HeadKind, Pick
from txexport.spec.head import HeadSpec
from txexport.spec.layer_checks import check_no_crossing
from txexport.spec.page import PageBiasSpec
from txexport.spec.stack import StackSpec, TextStackSpec

HEADS = (HeadKind.NONE, HeadKind.SEQUENCE, HeadKind.TOKENS, HeadKind.SPANS)


@dataclass(frozen=True)
class DocumentSpec:
    """A stack that reads the words of a page in their boxes, under a head (Xu et al. 2020).

    Patches of the page's image may follow the words; labels of tokens are those of words alone. `pooler` is
    BERT's.
    """

    encoder: TextStackSpec
    head: HeadSpec = HeadSpec()
    pooler: bool = False

    architecture: ClassVar[Architecture] = Architecture.DOCUMENT
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        stack = self.encoder
        check_no_crossing(self, stack.blocks)
        if stack.boxes is None:
            raise SpecError("DocumentSpec: embedding.boxes is None, expected tables of boxes")
        if stack.layout is not None and (stack.embedding.boxes is not None or stack.relative is not None):
            raise SpecError("DocumentSpec: boxes or relative beside a layout, expected None")
        if self.head.kind not in HEADS or self.head.pick != Pick.FIRST:
            raise SpecError(
                f"DocumentSpec: a head of kind '{self.head.kind}' that picks '{self.head.pick}'; expected "
                f"{', '.join(HEADS)}, and '{Pick.FIRST}'"
            )
        if self.pooler and self.head.kind != HeadKind.NONE:
            raise SpecError(
                f"DocumentSpec: pooler is True under a head of kind '{self.head.kind}'; expected "
                f"'{HeadKind.NONE}'"
            )
        for block in stack.blocks:
            kind = block.attention
            plain = isinstance(kind, AttentionSpec) and kind.rotary is None and kind.window is None
            if not plain or kind.causal or block.cross_attention is not None:
                raise SpecError(
                    f"DocumentSpec: layers of {type(kind).__name__}, causal={kind.causal}; expected "
                    "bidirectional attention without rotary, window and cross-attention"
                )
        if stack.relative is not None and not isinstance(stack.relative, PageBiasSpec):
            raise SpecError(
                f"DocumentSpec: relative is {type(stack.relative).__name__}, expected PageBiasSpec or None"
            )

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stack by name."""
        return {"encoder": self.encoder}

    @property
    def stack(self) -> StackSpec:
        """The stack under the head."""
        return self.encoder

    @property
    def vocab_size(self) -> int:
        """Tokens that the stack knows."""
        return self.encoder.embedding.vocab_size
