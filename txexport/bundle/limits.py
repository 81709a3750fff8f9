"""The maximum lengths of a model, if config.json promises longer ones."""

from collections.abc import Mapping

LONG = "longrope"
BEYOND = {
    LONG: "for longer sequences, export with --rope-factors long",
    "dynamic": "for longer ones, the RoPE frequencies change with the length, which a cache does not "
    "support; set another rope_scaling in config.json, such as yarn",
}


def limited(limits: Mapping[str, int | None], promised: Mapping[str, int]) -> str | None:
    """A note on the maximum length, if config.json promises a longer one with a kind of RoPE scaling."""
    for kind, length in promised.items():
        (limit, *_) = limits.values()
        promise = f"though config.json promises {length:,} with '{kind}' RoPE"
        return f"a sequence has at most {limit:,} tokens, {promise}: {BEYOND[kind]}"
    return None
