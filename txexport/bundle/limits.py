"""The longest sequences of a model, and the reason if config.json promises longer ones."""

from collections.abc import Mapping

LONG = "longrope"
BEYOND = {
    LONG: "beyond, it has long factors; export with --rope-factors long for those",
    "dynamic": "beyond, dynamic NTK RoPE rescales with the length and cannot be cached; for longer ones give "
    "config.json another rope_scaling, such as yarn",
}


def limited(limits: Mapping[str, int | None], promised: Mapping[str, int]) -> str | None:
    """The message if sequences are shorter than config.json promises, by rotary scaling; else None."""
    for kind, length in promised.items():
        (limit, *_) = limits.values()
        ends = (
            f"sequences end at {limit:,} tokens, of {length:,} that config.json promises with '{kind}' rope"
        )
        return f"{ends}: {BEYOND[kind]}"
    return None
