"""The page of docs/reference that lists what becomes of every model type of transformers, from the record."""

import json
import re
import textwrap
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/reference/traced.md"
RECORD = HERE / "traced_types.json"
RIGHT, LIMITED, REFUSED, UNTRIED = "right", "limited", "refused", "untried"
OPEN = "open"
LONGEST = 200  # characters of a reason
WRAPPED = 115  # characters of a line of a long list
ONE_SIZE = "the model takes no other size"


def record() -> dict:
    """The versions of the libraries, and the outcomes of all types that were tried, by type."""
    return json.loads(RECORD.read_text())


def page(results: dict, classes: dict[str, str], families: list[str], parts: list[str]) -> str:
    """The page of all outcomes: counts, the families, a row for each traced type, and what has no class.

    `classes` are those that an auto class opens, by type; `parts` are the types that none does.
    """
    outcomes = {kind: one for kind, one in results["types"].items() if kind in classes}
    rows = {kind: outcomes.get(kind) or _not_tried(architecture) for kind, architecture in classes.items()}
    counts = Counter(one["outcome"] for one in rows.values())
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    authored, every = len(families), len(rows) + len(families)
    intro = f"""What txexport makes of the {every} model types that an auto class of transformers opens:
    {authored} are [families](families.md), and the others are tried as
    [`export --traced`](../guides/traced.md) takes them, with seeded weights and small numbers. An
    encoder-decoder or a decoder of texts is tried in steps, any other type as one pass of its base class. A
    class that reads images or sounds beside a text gets as many tokens in their place as it makes vectors of
    them; a mask of these images or sounds has ones alone, so no padded recording beside a text was tried.
    Recorded in `tools/traced_types.json` by `tools/traced_types.py` with {versions}."""
    meanings = {
        RIGHT: "traced, and equal at every batch and size that the class itself takes",
        LIMITED: "traced, with dimensions that are fixed or have a least size, which the bundle enforces",
        REFUSED: "not exported, for the reason in its row",
        UNTRIED: "no small model could be made or run here in time; a checkpoint may be exported",
        OPEN: "not tried yet",
    }
    lines = [
        "# Traced types",
        "",
        *_wrapped(intro),
        "",
        "| outcome | types | |",
        "|---|---|---|",
        f"| authored | {authored} | a family |",
        *(f"| {outcome} | {counts[outcome]} | {meaning} |" for outcome, meaning in meanings.items()),
        "",
        *_list("Authored", families),
        "",
        "| type | class | outcome | free dimensions, limits, or the reason |",
        "|---|---|---|---|",
    ]
    for kind, one in rows.items():
        lines.append(f"| {kind} | {one['architecture']} | {one['outcome']} | {_note(one)} |")
    lines += ["", *_list("Of parts of these models, which no auto class opens", parts)]
    return "\n".join(lines) + "\n"


def _not_tried(architecture: str) -> dict:
    return {"architecture": architecture, "outcome": OPEN, "why": "a small model runs"}


def _list(title: str, kinds: list[str]) -> list[str]:
    """A paragraph of model types with their number."""
    return _wrapped(f"**{title} ({len(kinds)})**: {', '.join(f'`{kind}`' for kind in kinds)}.")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WRAPPED, break_on_hyphens=False, break_long_words=False)


def _note(one: dict) -> str:
    """The free dimensions and limits of an outcome, or its reason, for a cell."""
    note = one.get("why") or ", ".join(one["varied"])
    for axis, why in one.get("limits", {}).items():
        note += "" if why == ONE_SIZE else f"; {axis}: {why}"
    return _cell(note)


def _cell(text: str) -> str:
    """A text in a table's cell: one line of bounded length, without a table's own characters."""
    text = " ".join(text.split())
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return re.sub(r"([|<>*_\[\]`])", r"\\\1", text)
