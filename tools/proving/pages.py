"""The pages of docs/reference that list what was tried, from the records beside this file."""

import json
import textwrap
from collections import Counter
from pathlib import Path

from proving import config_page
from proving.bounded import BATCH
from proving.changes import FACTOR
from proving.enumerated import SPLIT, TOKENS

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs/reference"
KINDS = ("masks", "splits", "rewinds", "batches")
COLUMNS = (
    "| family | masks | splits | rewinds | batches | largest error, of its bound | seconds | not tried |"
)


def record(name: str) -> dict:
    """The record of a command."""
    return json.loads((HERE / f"{name}.json").read_text())


def exhaustive(results: dict) -> str:
    """The page of every case of a bounded size."""
    families = results["families"]
    total = Counter({kind: sum(_cases(one)[kind] for one in families.values()) for kind in KINDS})
    wrong = [name for name, one in families.items() if one.get("failed") or one.get("error")]
    numbers = sum(one["numbers"] for one in families.values() if "numbers" in one)
    counts = ", ".join(f"{total[kind]:,} {kind}" for kind in KINDS)
    verdict = f"wrong: {', '.join(wrong)}" if wrong else "no case is wrong"
    lines = [
        "# Every case of a bounded size",
        "",
        "`verify` samples: its cases are seeded. For each family's tiny model",
        "(`tools/tiny_checkpoint`),",
        "`tools/prove exhaustive` tries all inputs of a form up to a size, in ONNX Runtime beside",
        "the class of",
        "transformers, with the bounds of `verify`: our graphs over both caches, and those for",
        "other clients.",
        f"Recorded with {_versions(results)}.",
        "",
        f"**{len(families)} families, {total.total():,} cases** ({counts}), {numbers:,} numbers compared;",
        f"{verdict}.",
        "",
        "- **masks**: every 0/1 mask of up to",
        f"  {TOKENS} tokens with at least one, all of a length in one batch and each alone; of two",
        "  tokens in",
        "  all batches of two and three, of three tokens in all pairs (a decoder's: of two tokens",
        "  in all pairs). Of a growing cache also",
        "  paddings of 0",
        f"  to {TOKENS - 1} on the left in all batches up to {BATCH}, and two steps after each",
        "  mask. Of an encoder",
        "  before a decoder, each mask of its source. A dual encoder's texts are padded on the right only.",
        f"- **splits**: every way to read {SPLIT} tokens in pieces ({TOKENS} after an encoder), and",
        "  all pairs of ways to",
        "  read four and threes of ways to read three in one batch; where rows of a growing cache",
        "  must read alike, the same way in two and three rows.",
        f"- **rewinds**: after {SPLIT} tokens ({TOKENS}) back to each earlier one, then on with",
        "  others, at once and one by",
        "  one; in a static cache all pairs, and threes of the first four places.",
        f"- **batches**: every choice of up to {BATCH} of the first four images or sounds of each",
        "  seeded batch.",
        "",
        "Logits of every token, hidden states and caches are compared whole. Not tried here: images",
        "and points of",
        "arbitrary content, prompts with images (their texts alone are split), other variants than",
        "the default",
        "of a family, other dtypes, longer sequences, and generation, whose cases `verify` has.",
        "",
        COLUMNS,
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in families.items():
        cases = " | ".join(f"{_cases(one)[kind]:,}" for kind in KINDS)
        lines.append(f"| {name} | {cases} | {one['worst']:.0%} | {one['seconds']:.0f} | {_left(one)} |")
    return _filled(lines)


def _filled(lines: list[str]) -> str:
    """The lines of a page; those of a paragraph, or of a point of a list, are broken anew."""
    result: list[str] = []
    text: list[str] = []
    for line in [*lines, ""]:
        if not line or line.startswith(("|", "#", "- ")):
            result += textwrap.wrap(" ".join(text), 118, subsequent_indent="  " if text[:1] == ["-"] else "")
            text = []
        if line.startswith("- "):
            text = ["-", line[2:]]
        elif not line or line.startswith(("|", "#")):
            result.append(line)
        else:
            text.append(line.strip())
    return "\n".join(result)


def _cases(one: dict) -> Counter:
    counts: Counter[str] = Counter()
    for kinds in one.get("graphs", {}).values():
        counts.update({kind: number for kind, number in kinds.items() if kind != "left"})
    return counts


def _left(one: dict) -> str:
    """The reasons why a family has no case of a kind."""
    reasons = {reason for kinds in one["graphs"].values() for reason in kinds.get("left", ())}
    if not sum(_cases(one).values()):
        return "prompts and descriptions of images: the cases of verify alone"
    static = "masks: the graph takes no mask of tokens"  # of the static cache alone
    return "; ".join(sorted(reasons - ({static} if len(one["graphs"]) > 1 else set())))


def mutants(results: dict) -> str:
    """The page of all small changes of graphs."""
    families = results["families"]
    total: dict[str, Counter] = {}
    for one in families.values():
        for kind, fates in one["counts"].items():
            total.setdefault(kind, Counter()).update(fates)
    every = sum(sum(fates.values()) for fates in total.values())
    survived = sum(fates["survives"] for fates in total.values())
    ran = sum(fates["wrong numbers"] for fates in total.values()) + survived
    lines = [
        "# Every small change of a graph",
        "",
        "`tools/prove mutants` changes the flat graphs of tiny models one place at a time, and asks",
        "the cases of",
        "`verify` alone; that a changed graph is not the exported one, which `verify` also sees, is",
        "left out.",
        "Each node is dropped (its first input of the same type and shape passed on), exchanged for",
        "a like operator,",
        f"has each number moved (whole ones by 1, others by a factor of {FACTOR}), or its inputs swapped.",
        "One that survives answers all cases as before. The wrong graphs of the guide on CI are",
        "others, written as mistakes that people make, and all of them are caught.",
        f"Recorded with {_versions(results)}.",
        "",
        f"**{len(families)} families, {every:,} changed graphs: {every - survived:,} caught",
        f"({(every - survived) / every:.2%})**. Without those that ONNX Runtime refuses to load or to run,",
        f"{ran - survived:,} of {ran:,} ({(ran - survived) / ran:.2%}).",
        "",
        "| change | graphs | refused | raises | wrong numbers | survives | caught |",
        "|---|---|---|---|---|---|---|",
        *[_row(kind, fates) for kind, fates in total.items()],
        "",
        "| family | nodes | changed graphs | survive | caught | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in families.items():
        count = sum(sum(fates.values()) for fates in one["counts"].values())
        left = len(one["survivors"])
        caught = f"{(count - left) / count:.1%}"
        lines.append(f"| {name} | {one['nodes']} | {count} | {left} | {caught} | {one['seconds']:.0f} |")
    reasons = Counter(_kind(one["reason"]) for family in families.values() for one in family["survivors"])
    lines += [
        "",
        "## Survivors",
        "",
        "A program decides the reason of each from its values in all cases. Weights are not changed",
        "here, since `verify` compares each with the checkpoint, nor nodes within a branch of an If.",
        "",
    ]
    lines += ["| reason | survivors |", "|---|---|"]
    lines += [f"| {reason} | {count} |" for reason, count in reasons.most_common()]
    lines += ["", "| family | graph | node | change | reason |", "|---|---|---|---|---|"]
    for name, family in families.items():
        for one in family["survivors"]:
            node = f"`{one['node']}` ({one['operator']})"
            lines.append(f"| {name} | {one['graph']} | {node} | {one['change']} | {one['reason']} |")
    return _filled(lines)


def _kind(reason: str) -> str:
    """A reason without the figures and operators of one survivor."""
    if reason.startswith("below the bound"):
        return "below the bound of the cases: a norm's epsilon"
    if reason.startswith("another branch"):
        return reason.partition(":")[0]
    return "equal: later operators give the same for either" if reason.endswith("either") else reason


def _row(kind: str, fates: Counter) -> str:
    count = sum(fates.values())
    names = ("refused by the runtime", "raises", "wrong numbers", "survives")
    numbers = " | ".join(str(fates[name]) for name in names)
    return f"| {kind} | {count} | {numbers} | {(count - fates['survives']) / count:.1%} |"


def _versions(results: dict) -> str:
    return ", ".join(f"{name} {number}" for name, number in results["versions"].items())


def configs(results: dict) -> str:
    """The page of other values of config.json's keys."""
    return _filled(config_page.lines(results["families"], _versions(results)))


def write() -> None:
    """Write all pages."""
    for name, page in (("exhaustive", exhaustive), ("mutants", mutants), ("configs", configs)):
        (DOCS / f"{name}.md").write_text(page(record(name)))
