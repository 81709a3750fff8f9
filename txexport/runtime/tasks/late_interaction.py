"""Late interaction: a vector for each token, and document scores; T tokens, V numbers a vector.

Khattab and Zaharia 2020.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import ATTENTION_MASK, LAST_HIDDEN_STATE
from txexport.errors import BundleError, InputError
from txexport.runtime.batches import (
    BATCH_TOKENS,
    batches_by_length,
    check_room,
    encode,
    inputs_of,
    text_limit,
)
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.text import as_texts
from txexport.runtime.session import finite
from txexport.runtime.vectors.pooling import unit
from txexport.runtime.vectors.token_vectors import TokenVectors
from txexport.support.arguments import check_flag
from txexport.support.progress import ByInput, Progress


@dataclass(frozen=True)
class Row:
    """The tokens of a text with its prefix; the last `expansions` tokens of a query are mask tokens."""

    ids: list[int]
    type_ids: list[int]
    expansions: int = 0

    def __len__(self) -> int:
        return len(self.ids)


def embed_tokens(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    *,
    is_query: bool = False,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> np.ndarray | list[np.ndarray]:
    """A vector for each token of a text, (T, V) float32 L2-normalised, as ColBERT and PyLate make them.

    For late interaction: `texts` are documents, or queries with `is_query`. By the checkpoint's files, each
    kind has its own prefix token and longest length; queries are padded to theirs with mask tokens, which
    have vectors too; documents have no vectors for punctuation. `rerank` compares the two. Raises InputError
    for a checkpoint of another kind.
    """
    check_flag("is_query", is_query)
    check_task(bundle, "embed_tokens")
    how = bundle.late_interaction
    assert how is not None
    rows = _rows(bundle, how, as_texts(texts), is_query, truncate)
    skipped = [] if is_query else _skipped(bundle, how)
    tell = ByInput(progress, range(len(rows)))
    vectors = [np.empty((0, 0), np.float32)] * len(rows)
    lengths, equal = [len(row) for row in rows], bundle.manifest.text_stage.facts.equal_lengths
    for indices in batches_by_length(lengths, lengths, batch_tokens, equal):
        batch = [rows[place] for place in indices]
        for place, hidden in zip(indices, _hidden(bundle, batch, how.attends), strict=True):
            selected = hidden[: len(rows[place])][~np.isin(rows[place].ids, skipped)]
            for layer in how.dense:
                selected = layer.apply(selected)
            vectors[place] = unit(selected)
        tell(indices)
    return vectors[0] if isinstance(texts, str) else vectors


def max_sim(query: np.ndarray, document: np.ndarray) -> float:
    """The sum, over a query's vectors (T,V), of each one's greatest product with a document's (T,V)."""
    if not len(document):
        raise InputError("a document has only tokens that are skipped; leave it out")
    return float((query @ document.T).max(axis=1).sum())


def scores(
    bundle: LoadedBundle,
    queries: Sequence[str],
    documents: Sequence[str],
    truncate: bool,
    batch_tokens: int,
    progress: Progress | None,
) -> np.ndarray:
    """The MaxSim of each query and document, (queries, documents)."""
    document_vectors = embed_tokens(bundle, documents, truncate=truncate, batch_tokens=batch_tokens)
    query_vectors = embed_tokens(
        bundle, queries, is_query=True, truncate=truncate, batch_tokens=batch_tokens, progress=progress
    )
    return np.array(
        [[max_sim(query, document) for document in document_vectors] for query in query_vectors]
    ).reshape(len(queries), len(documents))


def _rows(
    bundle: LoadedBundle, how: TokenVectors, texts: Sequence[str], is_query: bool, truncate: bool
) -> list[Row]:
    """The tokens of each text; a query is padded to its length."""
    prefix = how.query_prefix if is_query else how.document_prefix
    added = [] if prefix == "" else [_id(bundle, prefix)]
    length = how.query_length if is_query else how.document_length
    length = min(length, text_limit(bundle.manifest) or length)
    texts = [how.prompt + text for text in texts]
    filler = _expansion(bundle) if is_query and how.expands else None
    rows = []
    for encoding in encode(bundle, texts, truncate, length - len(added), lower=how.lower):
        ids = [*encoding.ids[:1], *added, *encoding.ids[1:]]
        types = [*encoding.type_ids[:1], *(0 for _ in added), *encoding.type_ids[1:]]
        more = 0 if filler is None else length - len(ids)
        rows.append(Row(ids + [filler or 0] * more, types + [0] * more, more))
    return rows


def _id(bundle: LoadedBundle, prefix: str) -> int:
    """The token id of a prefix. Raises BundleError for a prefix that the tokenizer does not know."""
    number = bundle.files.text.tokenizer.token_to_id(prefix)
    if number is None:
        raise BundleError(
            f"the tokenizer has no token {prefix!r}, which config_sentence_transformers.json names; save it "
            "with the model"
        )
    return number


def _expansion(bundle: LoadedBundle) -> int:
    """The token that pads queries: the mask, or for a decoder the end of a text."""
    for name in ("mask_token", "eos_token", "pad_token"):
        token = bundle.files.text.special(name)
        if token is not None:
            return token[1]
    raise BundleError("the tokenizer's files name no mask_token, which pads queries")


def _skipped(bundle: LoadedBundle, how: TokenVectors) -> list[int]:
    """The ids of document tokens without a vector; unknown ones count as the unknown token."""
    text = bundle.files.text
    unknown = text.special("unk_token")
    ids = (text.tokenizer.token_to_id(word) for word in how.skiplist)
    named = [number if number is not None else unknown and unknown[1] for number in ids]
    return [number for number in named if number is not None]


def _hidden(bundle: LoadedBundle, rows: Sequence[Row], attends: bool) -> np.ndarray:
    """The hidden states (B,S,W); unless `attends`, expansions are masked."""
    session = bundle.sessions[roles.MODEL]
    check_room(session, len(rows), max(len(row) for row in rows))
    feeds = inputs_of(bundle, roles.MODEL, rows)
    for mask, row in zip(feeds[ATTENTION_MASK], rows, strict=True):
        if not attends:
            mask[len(row) - row.expansions : len(row)] = 0
    return finite(session.run(feeds))[LAST_HIDDEN_STATE]
