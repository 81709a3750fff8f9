"""A short run that left out a test, or a family's only proof, would call a broken change green."""

import subprocess
import sys
from pathlib import Path

from helpers.mutation_table import MUTATIONS
from helpers.sampled import spread

ROOT = Path(__file__).parents[2]
PROOF = "tests/verification/test_mutations.py"


def collected(*options: str) -> list[str]:
    """The tests of wrong graphs that pytest would run."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=--strict-markers --import-mode=importlib"]
    listing = subprocess.run(
        [*command, "-m", "not slow", "--collect-only", "-q", *options, PROOF],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.removeprefix(PROOF + "::") for line in listing.stdout.splitlines() if "::" in line]


def test_cases_are_the_root_of_their_number_and_spread():
    assert spread(range(1)) == [0]
    assert spread(range(3)) == [0]
    assert spread(range(9)) == [0, 3, 6]
    assert len(spread(range(655))) == 25


def test_a_sample_has_every_test_and_every_family():
    every, sampled = collected(), collected("--sampled")
    assert set(sampled) < set(every)
    assert {name.split("[")[0] for name in sampled} == {name.split("[")[0] for name in every}
    test = "test_changed_mathematics_is_caught["
    families = sorted({family for family, *_ in MUTATIONS}, key=len)

    def of(names):
        ids = [name.removeprefix(test) for name in names if name.startswith(test)]
        return {family for name in ids for family in families if name.startswith(f"{family}-")}

    assert of(sampled) == of(every)
    assert len(of(every)) > 100
