"""The result of a comparison of dtypes."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class DtypeResult:
    """One dtype of a bundle.

    `bytes` is what a client downloads to run it: graphs and weights. `accuracy` has a number a measure, those
    of the first dtype its own; `measures` of the comparison says what they are. `seconds` are medians by
    work, and `speedup` how many times as fast as the first dtype that is, the median of rounds.
    """

    dtype: str
    bytes: int
    accuracy: dict[str, float]
    seconds: dict[str, float]
    speedup: dict[str, float]


@dataclass(frozen=True)
class DtypeComparison:
    """The dtypes of a bundle, each held against `reference`: float32 where the bundle has it.

    `texts` is how many were read, `built_in` whether they are those that txexport brings. `measures` says of
    each measure what it is, `works` of each work what was timed.
    """

    bundle: str
    model_type: str
    task: str
    device: str
    threads: int | None
    reference: str
    texts: int
    built_in: bool
    measures: dict[str, str]
    works: dict[str, str]
    dtypes: list[DtypeResult]

    def to_dict(self) -> dict:
        """The whole tree as plain JSON values."""
        return dataclasses.asdict(self)
