"""Texts that are compared with images or sounds; I of those, T texts, W width."""

from collections.abc import Callable, Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.compared import compared_in
from txexport.contracts.names import TEXT_EMBEDS
from txexport.errors import InputError, counted, shown
from txexport.runtime.batches import BATCH_TOKENS
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import as_texts
from txexport.runtime.session import finite
from txexport.runtime.tasks.feature_extraction import embed
from txexport.runtime.tasks.labels import Label, ranked, sigmoid, softmax


def matcher(
    bundle: LoadedBundle,
    texts: Sequence[str],
    template: str,
    truncate: bool = False,
    batch_tokens: int = BATCH_TOKENS,
) -> Callable[[np.ndarray], list[list[Label]]]:
    """A function of vectors (I,W) that returns the probabilities of `texts` for each, the highest first.

    The model reads `template` with a text in place of {}. Raises InputError for no texts, and for a template
    without {}.
    """
    labels = as_texts(texts)
    if not labels or not isinstance(template, str) or "{}" not in template:
        raise InputError(
            f"{counted(len(labels), 'text')} and template {shown(template)}, expected texts, {{}} for each"
        )
    read = [template.replace("{}", label) for label in labels]
    vectors = embed(bundle, read, truncate=truncate, batch_tokens=batch_tokens)
    probabilities = sigmoid if bundle.stage(roles.SIMILARITY).facts.sigmoid_scores else softmax
    session = bundle.sessions[roles.SIMILARITY]
    other = compared_in(session.inputs)

    def matched(embeds: np.ndarray) -> list[list[Label]]:
        logits = finite(session.run({TEXT_EMBEDS: vectors, other.vectors: embeds}))[other.scores]  # (I, T)
        return [ranked(labels, row, None) for row in probabilities(logits)]

    return matched
