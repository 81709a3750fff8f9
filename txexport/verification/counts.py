"""How many numbers were compared with what, by kind of output.

A proof that compares less than before reads as before, unless it says how much it compared of what.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from txexport.contracts import cache_names
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import ATTENTIONS, LAST_HIDDEN_STATE, LOGITS, POOLER_OUTPUT
from txexport.verification.checks import (
    CALIBRATED,
    COPIED_FILES,
    EVERY_WEIGHT,
    FORMAT_LOSS,
    FORMAT_LOSS_ON_TEXTS,
    IDENTITY,
    PROCESSORS,
    CaseReport,
)

LOGITS_KIND, CACHES, HIDDEN, WEIGHTS = "logits", "caches", "hidden states", "weights"
ATTENTION, VECTORS, TOKENS, OTHERS = "attentions", "vectors", "tokens", "other outputs"
KINDS = (WEIGHTS, LOGITS_KIND, CACHES, HIDDEN, ATTENTION, VECTORS, TOKENS, OTHERS)  # in the order of a report

# Cases of no numbers, or of none that should be equal.
UNCOUNTED = (IDENTITY, COPIED_FILES, FORMAT_LOSS, FORMAT_LOSS_ON_TEXTS, CALIBRATED, *PROCESSORS)

Numbers = dict[str, dict[str, int]]  # how many, by what they were compared with, and by kind


def kind(output: str) -> str:
    """The kind of an output, one of KINDS, by its name."""
    if cache_names.is_present(output):
        return CACHES
    if (of_layer := kind_of(output)) is not None:
        return ATTENTION if of_layer == ATTENTIONS else HIDDEN
    if output == LAST_HIDDEN_STATE:
        return HIDDEN
    if LOGITS in output:
        return LOGITS_KIND
    if output == POOLER_OUTPUT or output.endswith("_embeds"):
        return VECTORS
    return TOKENS if output == "tokens" or output.startswith("beam ") else OTHERS


def counted(cases: Iterable[CaseReport]) -> list[CaseReport]:
    """The cases whose numbers are those of a proof."""
    return [case for case in cases if case.name not in UNCOUNTED and case.checks]


def compared(cases: Iterable[CaseReport]) -> Numbers:
    """The numbers that cases compared, by reference and then by kind, in the order of KINDS."""
    counts: dict[str, Counter[str]] = {}
    for case in counted(cases):
        of = counts.setdefault(case.reference, Counter())
        for check in case.checks:
            of[WEIGHTS if case.name == EVERY_WEIGHT else kind(check.output)] += check.elements
    return {name: {one: of[one] for one in KINDS if of[one]} for name, of in counts.items()}


def totals(numbers: Numbers) -> dict[str, int]:
    """The same by kind, of all references together."""
    sums = {one: sum(of.get(one, 0) for of in numbers.values()) for one in KINDS}
    return {one: count for one, count in sums.items() if count}


def words(counts: Mapping[str, int]) -> str:
    """Counts by kind, in words."""
    return ", ".join(f"{count:,} of {one}" for one, count in counts.items())
