"""Token ids, with a padding mask, and token types, a mask of global tokens or boxes if the stack reads them.

Patches of a page's image may follow them.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs.patches import INPUT as PATCHES
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import (
    AlibiSpec,
    EmbeddingSpec,
    MaskedAttentionSpec,
    PageBiasSpec,
    PageImageSpec,
    PositionKind,
    RelativeSpec,
    RelativeVectorsSpec,
    RoundedAlibiSpec,
    SinusoidVectorsSpec,
    TextStackSpec,
)
from txexport.spec.parameters import box_tables
from txexport.spec.shapes import Shapes, linear, norm, under

BOX_TABLES = ("x", "y", "height", "width")


class Tokens:
    """Token ids (B,S)."""

    spec = EmbeddingSpec
    reads_tokens = True
    last_state_before_norm = False
    tables = (
        *("position.weight", "segment.weight", "task.weight"),
        *(f"boxes.{table}.weight" for table in BOX_TABLES),
        *(f"page.patches.{table}" for table in PATCHES.tables),
    )

    def ports(self, stack: TextStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_ids, attention_mask and the other inputs of the stack, all of shape `rows`.

        Last are the vectors of the images among the tokens, where there may be any, or boxes and an image.
        """
        inputs = [names.INPUT_IDS, names.ATTENTION_MASK]
        inputs += [names.TOKEN_TYPE_IDS] * (stack.token_types > 1)
        inputs += [names.GLOBAL_ATTENTION_MASK] * stack.global_tokens
        tokens = tuple(ints(name, *rows) for name in inputs)
        if stack.boxes is not None:
            tokens = *tokens, ints(names.BBOX, *rows, 4)
        if stack.embedding.page is not None:
            shape = stack.embedding.page.patches.shape
            tokens = *tokens, floats(names.PIXEL_VALUES, rows[0], *shape)
        if stack.embedding.image_token_id is None:
            return tokens
        return *tokens, floats(names.IMAGE_FEATURES, names.NUM_FEATURES, stack.hidden_size)

    def length(self, embedding: EmbeddingSpec, tokens: int | str) -> int | str:
        """One vector a token, and those of patches."""
        return tokens if embedding.page is None else names.PAGE_LENGTH

    def vectors(self, embedding: EmbeddingSpec, tokens: int) -> int:
        """One vector a token, and those of patches."""
        return tokens if embedding.page is None else tokens + embedding.page.patches.length

    def facts(self, embedding: EmbeddingSpec) -> GraphFacts:
        """The vocabulary, the padding id if positions skip padding, and the vectors of a page's image."""
        patches = 0 if embedding.page is None else embedding.page.patches.length
        return GraphFacts(
            embedding.vocab_size, pad_token_id=embedding.position.pad_token_id, page_patches=patches
        )

    def parameters(self, embedding: EmbeddingSpec) -> Shapes:
        """Tables of words, positions, token types and boxes, the norm, the projection of factored embeddings,
        and the patches of a page.
        """
        size = embedding.table_size
        shapes: Shapes = {"word.weight": (embedding.vocab_size, embedding.word_size)}
        if embedding.position.table:
            shapes["position.weight"] = (embedding.position.size, size)
        if embedding.type_vocab_size:
            shapes["segment.weight"] = (embedding.type_vocab_size, size)
        if embedding.task_type_vocab_size:
            shapes["task.weight"] = (embedding.task_type_vocab_size, size)
        if embedding.boxes is not None:
            shapes |= under("boxes", box_tables(embedding.boxes))
        if embedding.norm is not None:
            shapes |= under("norm", norm(embedding.norm))
        if embedding.factored_size is not None:
            read = embedding.word_size * 3 if embedding.trigrams else embedding.word_size
            bias = embedding.trigrams or not embedding.project_first
            projection = linear(read, embedding.hidden_size, bias)
            shapes |= under("project", projection)
        if embedding.page is not None:
            patches = PATCHES.parameters(embedding.page.patches)
            shapes |= under("page.patches", patches) | under("page.norm", norm(embedding.page.norm))
        return shapes

    def fixed(self, embedding: EmbeddingSpec) -> tuple[str, ...]:
        """The positions, if they are sinusoids."""
        return ("position.weight",) if embedding.position.kind == PositionKind.FIXED else ()

    def operations(self, embedding: EmbeddingSpec) -> int:
        """None, as vectors are looked up in a table, but for those of patches."""
        return 0 if embedding.page is None else PATCHES.operations(embedding.page.patches)

    def summary(self, stack: TextStackSpec) -> list[str]:
        """Vocabulary, size of factored word embeddings, inputs of layers, token types, positions, boxes."""
        embedding = stack.embedding
        return [
            f"vocabulary {embedding.vocab_size:,}",
            *([f"word embeddings of {embedding.factored_size:,}"] if embedding.factored_size else []),
            *([f"{stack.layer_inputs.size:,} numbers for each layer"] if stack.layer_inputs else []),
            *([f"{embedding.type_vocab_size} segments"] if embedding.type_vocab_size > 1 else []),
            _positions(stack),
            *(["boxes of words"] if stack.boxes is not None else []),
            *([_image(embedding.page)] if embedding.page is not None else []),
        ]

    def rows(self, stack: TextStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Ids of the vocabulary, but for the one in whose places images stand."""
        vocab_size, image = stack.embedding.vocab_size, stack.embedding.image_token_id
        rows = [random.integers(0, vocab_size, length) for length in lengths]
        return [np.where(row == image, (row + 1) % vocab_size, row).tolist() for row in rows]

    def cases(self, stack: TextStackSpec, vectors: int) -> Iterator[SignalCase]:
        """None: the architecture has the cases of texts."""
        return iter(())


def _image(page: PageImageSpec) -> str:
    height, width = page.patches.image_size
    return f"{height} x {width} pixels in squares of {page.patches.patch_size} after the words"


def _positions(stack: TextStackSpec) -> str:
    position = stack.embedding.position
    kind = f"{position.kind} positions" if position.table else _relative_positions(stack)
    return f"{kind} of any length" if position.limit is None else f"{kind} up to {position.limit:,}"


def _relative_positions(stack: TextStackSpec) -> str:
    match stack.relative:
        case RelativeSpec(buckets=buckets):
            return f"relative positions in {buckets} buckets"
        case RelativeVectorsSpec(span=span):
            return f"{2 * span} vectors of relative positions"
        case SinusoidVectorsSpec():
            return "sinusoids of relative positions"
        case PageBiasSpec(tables=tables):
            return f"biases of {' and '.join(tables)}"
        case AlibiSpec() | RoundedAlibiSpec():
            return "ALiBi"
        case None:
            kinds = [block.attention for block in stack.blocks]
            rotary = any(isinstance(kind, MaskedAttentionSpec) and kind.rotary is not None for kind in kinds)
            return "rotary positions" if rotary else "no positions"
        case kind:
            assert_never(kind)


INPUT = Tokens()
