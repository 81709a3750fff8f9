"""Built-in texts: sentences of a small grammar, the same at every run."""

import numpy as np

from txexport.runtime.preprocessing.text import Item

COUNT = 64
SUBJECTS = (
    *("The committee", "A young engineer", "My neighbour", "The old library", "Every student", "The river"),
    *("A stray cat", "The central bank", "Our team", "The museum", "A passing storm", "The new compiler"),
)
VERBS = (
    *("has changed", "will soon reopen", "surprised everyone", "is waiting patiently", "moved slowly"),
    *("was repaired", "failed twice", "costs more than expected", "stayed silent", "found a better way"),
)
ENDS = (
    *("near the harbour.", "after the long winter.", "because nobody had asked.", "in less than an hour."),
    *("despite the warnings.", "at the end of March.", "while the others slept.", "for the third time."),
    *("without any explanation.", "on the way to Lisbon.", "with 25 new members.", "as the report says."),
)


def built_in() -> list[Item]:
    """Seeded sentences."""
    random = np.random.default_rng(0)
    parts = [random.permutation(np.resize(part, COUNT)) for part in (SUBJECTS, VERBS, ENDS)]
    return [" ".join(row) for row in zip(*parts, strict=True)]


def pairs(items: list[Item]) -> list[tuple[str, str]]:
    """Pairs unchanged; a single text is paired with the one that follows."""
    following = [*items[1:], *items[:1]]
    return [
        (item, other if isinstance(other, str) else other[0]) if isinstance(item, str) else item
        for item, other in zip(items, following, strict=True)
    ]


def singles(items: list[Item]) -> list[str]:
    """Single texts: the first text of each pair."""
    return [item if isinstance(item, str) else item[0] for item in items]
