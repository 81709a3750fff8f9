"""The result of a comparison of dtypes."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class DtypeResult:
    """One dtype of a bundle.

    `bytes` is the size of its graphs and weights, which a client downloads. `accuracy` has a number for each
    measure, those of the first dtype its own; `measures` of the comparison describes them. `seconds` are
    medians by workload, `speedup` the first dtype's seconds divided by these, the median of rounds.
    """

    dtype: str
    bytes: int
    accuracy: dict[str, float]
    seconds: dict[str, float]
    speedup: dict[str, float]


@dataclass(frozen=True)
class DtypeComparison:
    """The dtypes of a bundle compared with `reference`: float32 if the bundle has it.

    `texts` is the number of texts; `built_in` is True for txexport's own. `measures` and `works` describe
    each measure and each workload, by name.
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
