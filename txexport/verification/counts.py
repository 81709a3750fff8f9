"""Counts of compared numbers, by reference and kind of output.

They show if a verification compares less than an earlier one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from txexport.contracts import cache_names
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import ALIGNMENT_WEIGHTS, ATTENTIONS, LAST_HIDDEN_STATE, LOGITS, POOLER_OUTPUT
from txexport.verification.checks import (
    CALIBRATED,
    COPIED_FILES,
    EVERY_WEIGHT,
    IDENTITY,
    LOSSES,
    PROCESSORS,
    RANGE,
    UNSET_OPTIONS,
    CaseReport,
)

LOGITS_KIND, CACHES, HIDDEN, WEIGHTS = "logits", "caches", "hidden states", "weights"
ATTENTION, VECTORS, TOKENS, OTHERS = "attentions", "vectors", "tokens", "other outputs"
KINDS = (WEIGHTS, LOGITS_KIND, CACHES, HIDDEN, ATTENTION, VECTORS, TOKENS, OTHERS)  # in the order of a report

# Cases without numbers, or whose numbers need not be equal.
UNCOUNTED = (IDENTITY, COPIED_FILES, *LOSSES, UNSET_OPTIONS, CALIBRATED, RANGE, *PROCESSORS)

Numbers = dict[str, dict[str, int]]  # counts by reference and by kind


def kind(output: str) -> str:
    """The kind of an output by its name, one of KINDS."""
    if cache_names.is_present(output):
        return CACHES
    if (of_layer := kind_of(output)) is not None:
        return ATTENTION if of_layer == ATTENTIONS else HIDDEN
    if output == ALIGNMENT_WEIGHTS:
        return ATTENTION
    if output == LAST_HIDDEN_STATE:
        return HIDDEN
    if LOGITS in output:
        return LOGITS_KIND
    if output == POOLER_OUTPUT or output.endswith("_embeds"):
        return VECTORS
    return TOKENS if output == "tokens" or output.startswith("beam ") else OTHERS


def counted(cases: Iterable[CaseReport]) -> list[CaseReport]:
    """The cases that compare numbers which should be equal."""
    return [case for case in cases if case.name not in UNCOUNTED and case.checks]


def compared(cases: Iterable[CaseReport]) -> Numbers:
    """The count of compared numbers by reference and kind, in the order of KINDS."""
    counts: dict[str, Counter[str]] = {}
    for case in counted(cases):
        by_kind = counts.setdefault(case.reference, Counter())
        for check in case.checks:
            by_kind[WEIGHTS if case.name == EVERY_WEIGHT else kind(check.output)] += check.elements
    return {name: {one: by_kind[one] for one in KINDS if by_kind[one]} for name, by_kind in counts.items()}


def totals(numbers: Numbers) -> dict[str, int]:
    """The count by kind over all references."""
    sums = {one: sum(by_kind.get(one, 0) for by_kind in numbers.values()) for one in KINDS}
    return {one: count for one, count in sums.items() if count}


def words(counts: Mapping[str, int]) -> str:
    """Counts by kind in words."""
    return ", ".join(f"{count:,} of {one}" for one, count in counts.items())
