"""Sentence vectors of texts; W width."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import IMAGE_EMBEDS, LAST_HIDDEN_STATE, POOLER_OUTPUT, TEXT_EMBEDS
from txexport.errors import InputError, counted, shown
from txexport.runtime.batches import BATCH_TOKENS, encode, run
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.text import as_texts
from txexport.runtime.vectors.pooling import Pooling, check_method, unit
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress

VECTORS = (TEXT_EMBEDS, IMAGE_EMBEDS, POOLER_OUTPUT)


def embed(
    bundle: LoadedBundle,
    texts: str | Sequence[str],
    *,
    prompt_name: str | None = None,
    prompt: str | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
    truncate_dim: int | None = None,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> np.ndarray:
    """Sentence vectors (len(texts), W) float32, or (W) for one text, as sentence-transformers makes them.

    `prompt` is put before every text, or the checkpoint's prompt called `prompt_name`, such as "query".
    `pooling` ("mean", "cls", "max", "lasttoken", "weightedmean" or "mean_sqrt_len_tokens") and `normalize`
    (L2) default to the checkpoint's sentence-transformers files. W is the model's width, or that of the last
    dense layer in these files, or `truncate_dim`: the first numbers of a vector that was trained for it
    (Kusupati et al. 2022), L2-normalised only with `normalize=True`. Raises InputError for an unknown prompt
    name, for a `truncate_dim` above the width, and where neither files nor arguments choose a pooling, unless
    the model returns a vector itself, as an encoder of CLIP does. A model of texts and images has its own
    pooling, L2-normalised.
    """
    check_task(bundle, "embed")
    check_flag("normalize", normalize)
    how = _how_to_pool(bundle, pooling, normalize)
    before = _prompt(bundle.files.pooling, prompt_name, prompt)
    rows = [before + text for text in as_texts(texts)]
    lower = how is not None and how.lower
    encodings = encode(bundle, rows, truncate, lower=lower)
    left_out = 0 if how is None or how.pooled else _length(bundle, before, lower)
    width = _width(bundle, how)
    size = _kept(truncate_dim, width)
    vectors = np.empty((len(rows), size), np.float32)
    for indices, outputs, mask in run(bundle, encodings, batch_tokens, progress):
        if how is None:
            batch = outputs[_given(bundle)][:, :size]
        else:
            batch = how.apply(outputs[LAST_HIDDEN_STATE], mask, left_out)[:, :size]
        vectors[indices] = unit(batch) if normalize and (how is None or size < width) else batch
    return vectors[0] if isinstance(texts, str) else vectors


def own_vector(bundle: LoadedBundle) -> str | None:
    """The output of an encoder that is a sequence's vector, other than BERT's pooler; None without one."""
    return bundle.stage(roles.MODEL).facts.vector


def _given(bundle: LoadedBundle) -> str:
    """The output that is a text's vector, where hidden states are not pooled."""
    return TEXT_EMBEDS if roles.TEXT in bundle.sessions else own_vector(bundle) or POOLER_OUTPUT


def _prompt(pooling: Pooling | None, name: str | None, prompt: str | None) -> str:
    """The prefix of every text: `prompt`, the checkpoint's prompt called `name`, or its default prompt."""
    known = {} if pooling is None else pooling.prompts
    if prompt is not None:
        if name is not None or not isinstance(prompt, str):
            raise InputError(f"prompt is {shown(prompt)} and prompt_name {shown(name)}, expected one text")
        return prompt
    if name is None:
        return (
            known[pooling.default_prompt]
            if pooling is not None and pooling.default_prompt is not None
            else ""
        )
    if name not in known:
        expected = f"one of {', '.join(known)}" if known else "none: the checkpoint names no prompts"
        raise InputError(f"prompt_name {shown(name)} is not known; expected {expected}")
    return known[name]


def _length(bundle: LoadedBundle, prompt: str, lower: bool) -> int:
    """The number of a text's tokens that belong to its prompt, as sentence-transformers counts them."""
    if not prompt:
        return 0
    [encoding] = (bundle.files.text.lowered if lower else bundle.files.text).encode([prompt])
    return len(encoding) - encoding.special_tokens_mask[-1]


def _width(bundle: LoadedBundle, how: Pooling | None) -> int:
    """The size of a vector before truncation."""
    if how is not None and how.dense:
        return len(how.dense[-1].weight)
    session = bundle.sessions[roles.TEXT if roles.TEXT in bundle.sessions else roles.MODEL]
    return session.width(_given(bundle) if how is None else LAST_HIDDEN_STATE)


def _kept(truncate_dim: int | None, width: int) -> int:
    """The size of a vector after truncation. Raises InputError for more than `width`."""
    if truncate_dim is None:
        return width
    check_count("truncate_dim", truncate_dim)
    if truncate_dim > width:
        raise InputError(f"truncate_dim is {truncate_dim}, and vectors have {counted(width, 'number')}")
    return truncate_dim


def _how_to_pool(bundle: LoadedBundle, pooling: str | None, normalize: bool | None) -> Pooling | None:
    """The pooling by the arguments and the files; None for a model whose graph returns the vector."""
    if roles.TEXT in bundle.sessions:
        if pooling is not None or normalize is False:
            raise InputError("a model of texts and images has its own pooling, normalized; choose neither")
        return None
    stored = bundle.files.pooling
    if stored is None and pooling is None and own_vector(bundle) is not None:
        return None
    if stored is None and pooling is None:
        raise InputError("the checkpoint does not say how to pool; choose pooling, as 'mean' or 'cls'")
    method = check_method(pooling) if pooling is not None else stored.method  # type: ignore[union-attr]
    if stored is None:
        return Pooling(method, bool(normalize))
    wanted = stored.normalize if normalize is None else normalize
    return replace(stored, method=method, normalize=wanted)
