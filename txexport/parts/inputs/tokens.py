"""Token ids, with a mask of padding, types of tokens and a mask of global tokens where the stack has them."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import EmbeddingSpec, TextStackSpec
from txexport.spec.shapes import Shapes, linear, norm, under


class Tokens:
    """Token ids (B,S)."""

    spec = EmbeddingSpec
    reads_tokens = True
    last_state_before_norm = False

    def ports(self, stack: TextStackSpec, rows: Shape) -> tuple[Port, ...]:
        """input_ids and attention_mask, and the others that the stack reads, all of shape `rows`."""
        inputs = [names.INPUT_IDS, names.ATTENTION_MASK]
        inputs += [names.TOKEN_TYPE_IDS] * (stack.token_types > 1)
        inputs += [names.GLOBAL_ATTENTION_MASK] * stack.global_tokens
        return tuple(ints(name, *rows) for name in inputs)

    def length(self, embedding: EmbeddingSpec, tokens: int | str) -> int | str:
        """One vector a token."""
        return tokens

    def vectors(self, embedding: EmbeddingSpec, tokens: int) -> int:
        """One vector a token."""
        return tokens

    def facts(self, embedding: EmbeddingSpec) -> GraphFacts:
        """The vocabulary, and the id of padding where positions skip it."""
        return GraphFacts(embedding.vocab_size, pad_token_id=embedding.position.pad_token_id)

    def parameters(self, embedding: EmbeddingSpec) -> Shapes:
        """Tables of words, positions and segments, the norm, and the projection of narrower tables."""
        size = embedding.table_size
        shapes: Shapes = {"word.weight": (embedding.vocab_size, embedding.word_size)}
        if embedding.position.table:
            shapes["position.weight"] = (embedding.position.size, size)
        if embedding.type_vocab_size:
            shapes["segment.weight"] = (embedding.type_vocab_size, size)
        if embedding.task_type_vocab_size:
            shapes["task.weight"] = (embedding.task_type_vocab_size, size)
        if embedding.norm is not None:
            shapes |= under("norm", norm(embedding.norm))
        if embedding.factored_size is not None:
            projection = linear(embedding.word_size, embedding.hidden_size, not embedding.project_first)
            shapes |= under("project", projection)
        return shapes

    def operations(self, embedding: EmbeddingSpec) -> int:
        """None: vectors are looked up in a table."""
        return 0

    def rows(self, stack: TextStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Ids of the vocabulary."""
        words = stack.embedding.vocab_size
        return [random.integers(0, words, length).tolist() for length in lengths]

    def cases(self, stack: TextStackSpec) -> Iterator[SignalCase]:
        """None: the cases of texts are their architecture's."""
        return iter(())


INPUT = Tokens()
