"""The parameters of a model: shared names, and whether its graphs use all of them."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

from txexport.errors import GraphError
from txexport.parts import architecture_of
from txexport.spec import ModelSpec

Stored = TypeVar("Stored")


def with_shared(spec: ModelSpec, stored: Mapping[str, Stored]) -> Mapping[str, Stored]:
    """`stored` by name, with each shared parameter under its second name too."""
    shared = architecture_of(spec).shared(spec).items()
    again = {second: stored[first] for second, first in shared if first in stored and second not in stored}
    return {**stored, **again} if again else stored


def check_balance(asked: AbstractSet[str], stored: AbstractSet[str]) -> None:
    """Raise GraphError unless the graphs request exactly the stored parameters."""
    problems = [
        f"{kind}: {', '.join(sorted(parameters))}"
        for kind, parameters in (("missing", asked - stored), ("unused", stored - asked))
        if parameters
    ]
    if problems:
        raise GraphError(f"the graphs do not fit the stored parameters: {'; '.join(problems)}")
