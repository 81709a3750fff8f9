"""Batches texts of similar length under a token budget; B rows, S tokens."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from tokenizers import Encoding

from txexport.bundle.manifest import Manifest
from txexport.contracts import roles
from txexport.contracts.names import (
    ATTENTION_MASK,
    BATCH_SIZE,
    GLOBAL_ATTENTION_MASK,
    INPUT_IDS,
    NUM_CHOICES,
    TOKEN_TYPE_IDS,
)
from txexport.errors import BundleError, InputError, shown
from txexport.runtime import memory
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import LEFT, LONGEST_FIRST, Item, Text, as_rows, pad
from txexport.runtime.preprocessing.token_types import gives_types
from txexport.runtime.session import Session, finite
from txexport.support.arguments import check_flag, is_whole
from txexport.support.progress import ByInput, Progress
from txexport.tasks import TASKS, GlobalTokens

Batch: TypeAlias = tuple[list[int], Mapping[str, np.ndarray], np.ndarray]

SCORES_AT_ONCE = 2**26  # float32 logits of one batch: 256 megabytes
CUT = "cut it with truncate=True (--truncate)"
BATCH_TOKENS = 2048  # padding included; on a CPU, memory bandwidth makes larger batches no faster


def encode(
    bundle: LoadedBundle,
    items: Sequence[Item],
    truncate: bool,
    longest: int | None = None,
    strategy: str = LONGEST_FIRST,
    advice: str = CUT,
    lower: bool = False,
) -> list[Encoding]:
    """Tokenize texts or pairs, each to at most as many tokens as the model and its files allow.

    `longest` replaces the files' limit where a task has its own. `strategy` is which text of a pair is cut:
    "longest_first", "only_first" or "only_second"; `lower` lowercases texts first. Raises InputError for a
    text without tokens and, unless `truncate` cuts it, for one that is too long; that message ends with
    `advice`.
    """
    check_flag("truncate", truncate)
    limit = longest_text(bundle, longest)
    if not truncate:
        bundle.files.text_size.check(items, limit, f"shorten it, or {advice}")
    text = bundle.files.text.lowered if lower else bundle.files.text
    encodings = text.encode(items, limit if truncate else None, strategy)
    for item, encoding in zip(items, encodings, strict=True):
        first, tokens = item if isinstance(item, str) else item[0], len(encoding)
        if not tokens:
            raise InputError(f"a text has no tokens: {first!r}")
        if limit is not None and tokens > limit:
            start = f"{first[:40]!r}..."
            raise InputError(
                f"a text of {tokens} tokens is longer than {limit}; shorten it, or {advice}: {start}"
            )
    check_marks(bundle.manifest, encodings)
    return encodings


def check_marks(manifest: Manifest, encodings: Sequence[Encoding]) -> None:
    """Raise BundleError for a text without the end-of-sequence token at which the head reads."""
    mark = manifest.text_stage.facts.eos_token_id
    if mark is not None and any(mark not in encoding.ids for encoding in encodings):
        raise BundleError(
            f"the tokenizer adds no end-of-sequence token {mark} to a text, which the model's head reads"
        )


def longest_text(bundle: LoadedBundle, longest: int | None = None) -> int | None:
    """The most tokens of a text: the model's limit, or the files' limit or `longest` if that is lower."""
    limits = text_limit(bundle.manifest), bundle.files.max_length if longest is None else longest
    return min((limit for limit in limits if limit), default=None)


def text_limit(manifest: Manifest) -> int | None:
    """The most tokens that the model reads at once."""
    return manifest.max_length(manifest.text_stage)


def run(
    bundle: LoadedBundle,
    encodings: Sequence[Encoding],
    batch_tokens: int,
    progress: Progress | None,
    owners: Sequence[int] | None = None,
    *,
    beside: Callable[[Sequence[int]], Mapping[str, np.ndarray]] | None = None,
) -> Iterator[Batch]:
    """Yield each batch's indices in `encodings`, the outputs and the mask (B,S); longest texts first.

    `progress` is called with the numbers of finished and of all inputs; `owners` has the input of each
    encoding, where an input may have several. `beside` gives the inputs of a batch beside its tokens, by its
    indices. Errors as `batches_by_length`.
    """
    role = bundle.manifest.text_stage.role
    as_rows([encoding.ids for encoding in encodings], bundle.vocab_size(role))
    lengths = [padded_length(bundle.manifest) or len(encoding) for encoding in encodings]
    patches = bundle.manifest.text_stage.facts.page_patches
    costs = [length + patches for length in lengths]
    tell = ByInput(progress, range(len(encodings)) if owners is None else owners)
    equal = bundle.manifest.text_stage.facts.equal_lengths
    for indices in batches_by_length(lengths, costs, batch_tokens, equal):
        session = bundle.sessions[role]
        check_room(session, len(indices), max(costs[i] for i in indices))
        feeds = inputs_of(bundle, role, [encodings[i] for i in indices])
        feeds |= {} if beside is None else beside(indices)
        outputs = finite(session.run(feeds))
        yield indices, outputs, feeds[ATTENTION_MASK]
        tell(indices)


def check_room(session: Session, rows: int, longest: int) -> None:
    """Raise InputError where the outputs of `rows` texts of `longest` tokens exceed the memory."""
    size = 0
    for port in session.outputs.values():
        dims = [
            dim if isinstance(dim, int) else {BATCH_SIZE: rows, NUM_CHOICES: 1}.get(dim, longest)
            for dim in port.shape
        ]
        size += 4 * math.prod(dims)
    memory.check(f"a batch of {rows:,} texts of {longest:,} tokens", size)


def batches_by_length(
    lengths: Sequence[int], costs: Sequence[int], budget: int, equal: bool = False
) -> Iterator[list[int]]:
    """Yield batches of indices, longest items first; each batch in ascending order.

    The size of a batch times its largest cost is at most `budget`, except for a single item. If `equal`, the
    items of a batch have one length.
    Raises InputError for a budget of less than 1.
    """
    if not is_whole(budget, 1):
        raise InputError(f"batch_tokens is {shown(budget)}, expected at least 1")
    batch: list[int] = []
    largest = 0
    for place in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        largest = max(largest, costs[place])
        other = equal and bool(batch) and lengths[place] != lengths[batch[0]]
        if batch and ((len(batch) + 1) * largest > budget or other):
            yield sorted(batch)
            batch, largest = [], costs[place]
        batch.append(place)
    if batch:
        yield sorted(batch)


def gather(
    bundle: LoadedBundle,
    encodings: Sequence[Encoding],
    output: str,
    batch_tokens: int,
    progress: Progress | None,
    owners: Sequence[int] | None = None,
) -> np.ndarray:
    """The scores `output` (N,K) of every encoding, in their order; `owners` as in `run`."""
    width = bundle.sessions[roles.MODEL].outputs[output].shape[-1]
    scores = np.empty((len(encodings), width if isinstance(width, int) else 1), np.float32)
    for indices, outputs, _ in run(bundle, encodings, batch_tokens, progress, owners):
        scores[indices] = outputs[output]
    return scores


class Tokens(Protocol):
    """A text's token ids and their types, as in an Encoding."""

    @property
    def ids(self) -> list[int]:
        """Token ids (S)."""

    @property
    def type_ids(self) -> list[int]:
        """Token types (S): which text of a pair each token belongs to."""


def inputs_of(bundle: LoadedBundle, role: str, encodings: Sequence[Tokens]) -> dict[str, np.ndarray]:
    """The graph's inputs (B,S), or (B,1,S) where it takes choices."""
    wanted = {port.name: port for port in bundle.manifest.graphs[role].inputs}
    rows = [encoding.ids for encoding in encodings]
    padding = bundle.files.config.get("pad_token_id")
    if not isinstance(padding, int) or not 0 <= padding < bundle.vocab_size(role):
        padding = 0
    ids, mask = pad(rows, padding)
    if (length := padded_length(bundle.manifest)) is not None:
        ids, mask = to_one_length(bundle.files.text, rows, length, bundle.vocab_size(role))
    feeds = {INPUT_IDS: ids, ATTENTION_MASK: mask}
    if TOKEN_TYPE_IDS in wanted:
        feeds[TOKEN_TYPE_IDS] = np.zeros_like(ids)
        if gives_types(bundle.files.text.settings, bundle.files.config):
            feeds[TOKEN_TYPE_IDS], _ = pad([encoding.type_ids for encoding in encodings], 0)
    if GLOBAL_ATTENTION_MASK in wanted:
        separator = bundle.files.config.get("sep_token_id", 2)
        feeds[GLOBAL_ATTENTION_MASK], _ = pad(
            [global_tokens(bundle.manifest.task, row, separator) for row in rows], 0
        )
    if len(wanted[INPUT_IDS].shape) == 3:
        feeds = {name: array[:, None] for name, array in feeds.items()}
    return feeds


def padded_length(manifest: Manifest) -> int | None:
    """The fixed length of texts for a model that reads padding; None where padding is masked."""
    return text_limit(manifest) if manifest.text_stage.facts.pads_to_limit else None


def to_one_length(
    text: Text, rows: Sequence[Sequence[int]], length: int, vocab_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids padded to `length` on the tokenizer's side, and their mask, both (B,length) int64.

    As in transformers, the mask hides padding only where the tokenizer's settings include an attention mask.
    Raises BundleError where the tokenizer has no padding token.
    """
    token = text.special("pad_token")
    if token is None or token[1] >= vocab_size:
        raise BundleError(
            "the model reads padding, but the tokenizer's files name no pad_token that it knows; name one in "
            "tokenizer_config.json"
        )
    step = -1 if text.padding_side == LEFT else 1
    padded = pad([*(row[::step] for row in rows), [token[1]] * length], token[1])
    ids, mask = (np.ascontiguousarray(array[:, ::step]) for array in padded)
    hides = ATTENTION_MASK in text.settings.get("model_input_names", (ATTENTION_MASK,))
    return ids[:-1], mask[:-1] if hides else np.ones_like(mask[:-1])


def global_tokens(task: str, row: Sequence[int], separator: int) -> list[int]:
    """Tokens with global attention (Beltagy et al. 2020, 3.1), by transformers' defaults."""
    end = row.index(separator) if separator in row else len(row)
    chosen = TASKS[task].global_tokens if task in TASKS else GlobalTokens.NONE
    if chosen == GlobalTokens.FIRST:
        return [int(i == 0) for i in range(len(row))]
    if chosen == GlobalTokens.QUESTION:
        return [int(i < end) for i in range(len(row))]
    if chosen == GlobalTokens.CHOICE:
        return [int(i > end + 1) for i in range(len(row))]
    return [0] * len(row)
