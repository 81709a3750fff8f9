"""The page of docs/reference about every key of config.json, from its record."""

from collections import Counter

from proving.config_fates import FOLLOWED, INERT, KNOWN, LIBRARY, REFUSED, WRONG

FATES = (FOLLOWED, REFUSED, LIBRARY, INERT, WRONG)


def counts(one: dict) -> dict[str, Counter[str]]:
    """The values of each key of a family by what became of them."""
    result = {}
    for fate, keys in one["keys"].items():
        result[fate] = Counter()
        for key in keys.split():
            name, _, number = key.partition("*")
            result[fate][name] += int(number or 1)
    return result


def lines(families: dict[str, dict], versions: str) -> list[str]:
    """The lines of the page."""
    by_family = {name: counts(one) for name, one in families.items()}
    total: Counter[str] = Counter()
    for of_family in by_family.values():
        total.update({fate: keys.total() for fate, keys in of_family.items()})
    failed = [f"{name}: {_with_reason(name, one)}" for name in families for one in families[name]["failed"]]
    keys = {key for of_family in by_family.values() for of_fate in of_family.values() for key in of_fate}
    result = [
        "# Every key of config.json",
        "",
        "A setting that an exporter does not read is a wrong graph as soon as a checkpoint sets it.",
        "`tools/prove configs` writes the config.json of each family's tiny model",
        "(`tools/tiny_checkpoint`) with every key that transformers knows, and gives each key, also",
        "those of nested configurations, one to three other values: a flag turned over, a number one larger",
        "and half as large, an epsilon of 0.01, another activation, a name that does not exist, a list in",
        f"another order or one shorter. Recorded with {versions}.",
        "",
        f"**{len(families)} families, {len(keys):,} keys, {total.total():,} other values:**",
        "",
        "| outcome | values | |",
        "|---|---|---|",
        f"| followed | {total[FOLLOWED]:,} | the graph changes, equal to transformers with that value |",
        f"| refused | {total[REFUSED]:,} | `export` ends with one line |",
        f"| refused by transformers | {total[LIBRARY]:,} | exported; transformers raises with that value |",
        f"| inert | {total[INERT]:,} | the graph stays the same, and so do transformers' numbers |",
        f"| wrong | {total[WRONG]:,} | the graph differs from transformers with that value |",
        "",
        *([f"- {one}" for one in failed] or ["No value is wrong."]),
        "",
        "The library judges: an unread key counts as inert only if the class of transformers, loaded with",
        "the other value, answers the quick cases of `verify` as before, for all unread keys at once and,",
        "where they differ, for halves of them. A value is tried for the family's first task, in float32.",
        "",
        "| family | values | followed | refused | refused by transformers | inert | wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, of_family in by_family.items():
        numbers = [of_family.get(fate, Counter()).total() for fate in FATES]
        result.append(f"| {name} | {sum(numbers)} | {' | '.join(map(str, numbers))} |")
    inert: dict[str, list[str]] = {}
    for name, of_family in by_family.items():
        for key in of_family.get(INERT, ()):
            inert.setdefault(key, []).append(name)
    result += ["", "## Inert keys", "", "| key | families | |", "|---|---|---|"]
    for key, names in sorted(inert.items(), key=lambda one: (-len(one[1]), one[0])):
        result.append(f"| `{key}` | {len(names)} | {', '.join(names[:4])}{', …' if len(names) > 4 else ''} |")
    return result


def _with_reason(family: str, failed: str) -> str:
    """A wrong value, with the reason if it is known."""
    key = failed.partition(" = ")[0]
    reason = KNOWN.get((family, key))
    return failed if reason is None else f"{failed.partition(': ')[0]}: {reason}"
