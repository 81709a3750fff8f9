"""The longest sequences of a model, and where config.json promises longer ones."""

from collections.abc import Mapping

LONG = "longrope"
BEYOND = {
    LONG: "beyond, it has long factors; export with --rope-factors long for those",
    "dynamic": "beyond, tokens turn anew at every length, which a cache cannot follow; for longer ones give "
    "config.json another rope_scaling, as yarn",
}


def limited(limits: Mapping[str, int | None], promised: Mapping[str, int]) -> str | None:
    """Where sequences end before what is promised, by kind of rotary scaling, and what to do; else None."""
    for kind, length in promised.items():
        (limit, *_) = limits.values()
        ends = (
            f"sequences end at {limit:,} tokens, of {length:,} that config.json promises with '{kind}' rope"
        )
        return f"{ends}: {BEYOND[kind]}"
    return None
