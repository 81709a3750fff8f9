"""docs/reference/peers.md, from the results of tools/peers/run."""

import statistics

VERDICTS = ("right", "wrong", "not judged", "no export")
HEAD = """# Other tools' exports

{count} models, exported in float32 by each tool in an environment of its own, and judged by
[`txexport verify FOLDER --source CHECKPOINT`](../guides/compare.md#another-tools-export).
`tools/peers/run` makes the exports and this page. The judge is the class of transformers ({judge}).

The first models are those that the project ships, with trained weights. The others, named by their
type, have seeded weights and small sizes, which no tool was made for: some refuse sizes that no
published checkpoint has. *Right* is no difference in any case; *wrong* differs, or does not run, at
a size or padding that its graphs do not exclude. txexport's own graphs for other clients were judged
in the same way, without what else a bundle has.

transformers' exporters got a padded batch of two rows, as in their documentation; the other tools
take the checkpoint's folder.
"""
FIGURES = """
## Versions, sizes and times

Seconds are those of the whole command that exports, on two cores. Bytes and the time of a pass are of
the right exports, as ratios to txexport's of the same model: the median, and the range. A pass is a
batch of two rows in ONNX Runtime, the two exports in turn: a prompt of a decoder without a past, after
its encoder.

| tool | version | right | wrong | not judged | no export | seconds | bytes | time of a pass |
|---|---|---|---|---|---|---|---|---|
"""
WRONG = """
## What was wrong

The first case that failed, of how many, or the reason why there is no export.

| tool | model | outcome |
|---|---|---|
"""
LIMITS = """
## Limits that the graphs declare

| tool | model | limit |
|---|---|---|
"""


def page(results: dict, models: list[str]) -> str:
    """The page of all outcomes, by tool and model."""
    outcomes = {peer: entry["models"] for peer, entry in results.items() if peer != "judge"}
    judge = ", ".join(f"{name} {number}" for name, number in results["judge"].items())
    text = HEAD.format(count=len(models), judge=judge)
    text += f"\n| model | {' | '.join(outcomes)} |\n|---|{'---|' * len(outcomes)}\n"
    for name in models:
        text += row(name, *(of_tool.get(name, {}).get("verdict", "") for of_tool in outcomes.values()))
    text += FIGURES
    ours = outcomes["txexport"]
    for peer, of_tool in outcomes.items():
        counts = (str(sum(one["verdict"] == kind for one in of_tool.values())) for kind in VERDICTS)
        text += row(peer, results[peer]["version"], *counts, *figures(of_tool, ours))
    text += WRONG
    for peer, of_tool in outcomes.items():
        for name, one in of_tool.items():
            if one["verdict"] != "right":
                failed = f"{len(one['failed'])} of {one['cases']} cases, " if "cases" in one else ""
                text += row(peer, name, f"{one['verdict']}: {failed}{one['reason']}")
    text += LIMITS
    for peer, of_tool in outcomes.items():
        for name, one in of_tool.items():
            text += "".join(row(peer, name, note) for note in one.get("notes", []))
    return text


def figures(of_tool: dict, ours: dict) -> list[str]:
    """Seconds of an export, and bytes and times of right ones beside ours."""
    right = {name: one for name, one in of_tool.items() if one["verdict"] == "right"}
    seconds = [one["seconds"] for one in of_tool.values() if "seconds" in one]
    sizes = [one["bytes"] / ours[name]["bytes"] for name, one in right.items() if "bytes" in ours[name]]
    times = [one["times"][0] / one["times"][1] for one in right.values() if one.get("times")]
    return [span(seconds, 1), span(sizes, 2), span(times, 2)]


def span(numbers: list[float], digits: int) -> str:
    """The median, and the range."""
    if not numbers:
        return ""
    middle, least, most = (
        f"{one:.{digits}f}" for one in (statistics.median(numbers), min(numbers), max(numbers))
    )
    return f"{middle} ({least} to {most})"


def row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |\n"
