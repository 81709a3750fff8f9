"""Embeddings of tokens, with absolute positions."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import PositionKind
from txexport.spec.norm import NormSpec
from txexport.spec.page import BoxTablesSpec, PageImageSpec


@dataclass(frozen=True)
class PositionSpec:
    """Positions added to the embedding: a table of `size` rows, read at position + `offset`.

    Where there is none, `size` is the longest sequence that the model was made for, or 0 for no limit.
    Tokens of the id `pad_token_id` are not counted and take the row `offset`; the first other takes the next.
    `longest` is the longest sequence that is read as the model says, where its table has more rows.
    """

    kind: PositionKind
    size: int = 0
    offset: int = 0
    pad_token_id: int | None = None
    longest: int | None = None

    def __post_init__(self) -> None:
        if self.longest is not None:
            positive(self, "longest")
        if self.kind == PositionKind.NONE:
            if self.offset or self.pad_token_id is not None or self.size < 0:
                raise SpecError(
                    f"PositionSpec: kind '{self.kind}' with size={self.size}, offset={self.offset}, "
                    f"pad_token_id={self.pad_token_id}; without a table there is no offset and no padding to "
                    "skip: expected a size of 0 or more, 0, None"
                )
        elif self.offset < 0 or self.size <= self.offset:
            raise SpecError(
                f"PositionSpec: a table of {self.size} rows read at offset {self.offset} holds no position; "
                "expected an offset of 0 or more, and more rows than that"
            )

    @property
    def table(self) -> bool:
        """True where there is a table."""
        return self.kind != PositionKind.NONE

    @property
    def limit(self) -> int | None:
        """The longest sequence, in tokens; None where there is no limit."""
        rows = self.size - self.offset - (self.pad_token_id is not None) if self.table else self.size or None
        return min((number for number in (rows, self.longest) if number is not None), default=None)


@dataclass(frozen=True)
class EmbeddingSpec:
    """Token embeddings times `scale`, plus positions, plus one of `type_vocab_size` vectors, then a norm.

    Where `norm_first`, it is a norm of the words alone, before anything is added.
    The tables are `hidden_size` wide, or `factored_size` and then projected to `hidden_size`. With a
    `dropped` token id, training left out the vectors of such tokens: they are 0, and the others are scaled to
    make up for it (Rives et al. 2021; ESM's token dropout). Where `masked`, padding has vectors of 0. Of
    `task_type_vocab_size` vectors, one for each task of training, the first is added too (Sun et al. 2020).
    Where `project_first`, words alone are narrower: they are projected, without a bias, before all else.
    Where `trigrams`, so are the vectors of the next word, a word and the one before it, side by side, and the
    projection has a bias (Sun et al. 2020, 3.1); beyond the ends they are 0, and padding is read as words.
    Vectors of images stand in the places of words `image_token_id`, before positions are added. With `boxes`,
    those of the words' boxes on a page are added too, and with a `page`, patches of its image follow.
    """

    vocab_size: int
    hidden_size: int
    position: PositionSpec
    type_vocab_size: int = 0
    norm: NormSpec | None = None
    scale: float = 1.0
    factored_size: int | None = None
    dropped: int | None = None
    masked: bool = False
    task_type_vocab_size: int = 0
    norm_first: bool = False
    project_first: bool = False
    trigrams: bool = False
    image_token_id: int | None = None
    boxes: BoxTablesSpec | None = None
    page: PageImageSpec | None = None

    @property
    def word_size(self) -> int:
        """Width of the table of words."""
        return self.hidden_size if self.factored_size is None else self.factored_size

    @property
    def table_size(self) -> int:
        """Width of the other tables, and of what is added up."""
        return self.hidden_size if self.project_first else self.word_size

    def __post_init__(self) -> None:
        positive(self, "vocab_size", "hidden_size", "scale", "word_size")
        for name in ("type_vocab_size", "task_type_vocab_size"):
            if getattr(self, name) < 0:
                raise SpecError(f"EmbeddingSpec: {name} is {getattr(self, name)}, expected 0 or more")
        if self.norm_first and self.norm is None:
            raise SpecError("EmbeddingSpec: norm_first is True without a norm; expected one, or False")
        if self.project_first and self.factored_size is None:
            raise SpecError(
                "EmbeddingSpec: project_first is True without a factored_size; expected one, or False"
            )
        if self.trigrams and not self.project_first:
            raise SpecError("EmbeddingSpec: trigrams is True without project_first; expected True, or False")
        if self.image_token_id is not None and not (
            0 <= self.image_token_id < self.vocab_size
            and self.dropped is None
            and self.factored_size is None
            and not self.norm_first
        ):
            raise SpecError(
                f"EmbeddingSpec: image_token_id is {self.image_token_id}, expected 0 to "
                f"{self.vocab_size - 1}, and no factored_size, dropped words or norm before positions"
            )
        self._check_page()
        if self.norm is not None and self.norm.size != self.table_size:
            raise SpecError(f"EmbeddingSpec: norm is {self.norm.size} wide, the embedding {self.table_size}")

    def _check_page(self) -> None:
        """Raise SpecError where vectors of boxes or patches do not fit those of words."""
        if self.boxes is not None and (self.boxes.size != self.table_size or self.norm_first):
            raise SpecError(
                f"EmbeddingSpec: vectors of boxes have {self.boxes.size} numbers, those of words "
                f"{self.table_size}, norm_first={self.norm_first}; expected as many, and False"
            )
        if self.page is not None and (self.boxes is None or self.page.norm.size != self.hidden_size):
            raise SpecError(
                f"EmbeddingSpec: patches of {self.page.norm.size} numbers follow words of "
                f"{self.hidden_size}, boxes={self.boxes}; expected as many, and boxes"
            )
