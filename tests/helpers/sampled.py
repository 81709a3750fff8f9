"""The cases of parametrised tests that a run of `tools/test` has: the root of their number, spread evenly."""

import math
from collections import defaultdict
from collections.abc import Sequence

import pytest

EACH_FAMILY = "each_family"  # a marker: at least the first case of each family is run


def sample(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Of the n cases of each test, floor(√n), the first one among them.

    A test marked `each_family`, whose parameter `row` or `family` names one, has the first case of each
    besides.
    """
    tests: dict[tuple, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.path, item.cls, item.originalname].append(item)
    chosen: set[pytest.Item] = set()
    for cases in tests.values():
        chosen.update(spread(cases))
        if cases[0].get_closest_marker(EACH_FAMILY):
            chosen.update({_family(case): case for case in reversed(cases)}.values())
    return chosen


def spread(cases: Sequence) -> list:
    """floor(√n) of n cases at equal distances, beginning with the first."""
    count = math.isqrt(len(cases))
    return [cases[number * len(cases) // count] for number in range(count)]


def _family(case: pytest.Item) -> str:
    parameters = case.callspec.params
    return parameters["row"].model_type if "row" in parameters else parameters["family"]
