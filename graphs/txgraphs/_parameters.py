"""The parameters of a whole model: which go by two names, and whether its graphs ask for all of them."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

from txexport.errors import GraphError
from txexport.spec import EncoderDecoderSpec, ModelSpec

Stored = TypeVar("Stored")


def with_shared(spec: ModelSpec, stored: Mapping[str, Stored]) -> Mapping[str, Stored]:
    """`stored` by name, with a word matrix that serves encoder and decoder under both of its names."""
    encoder, decoder = (f"{stack}.embedding.word.weight" for stack in ("encoder", "decoder"))
    shared = isinstance(spec, EncoderDecoderSpec) and spec.shared_embedding
    again = shared and encoder in stored and decoder not in stored
    return {**stored, decoder: stored[encoder]} if again else stored


def check_balance(asked: AbstractSet[str], stored: AbstractSet[str]) -> None:
    """Raise GraphError unless what graphs ask for is what is stored: no more, and no less."""
    problems = [
        f"{kind}: {', '.join(sorted(parameters))}"
        for kind, parameters in (("missing", asked - stored), ("unused", stored - asked))
        if parameters
    ]
    if problems:
        raise GraphError(f"the graphs do not fit the stored parameters: {'; '.join(problems)}")
