"""Selection of the cases that apply to a bundle."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from txexport.contracts.names import ATTENTIONS
from txexport.errors import InputError
from txexport.inspection import flops
from txexport.parts import architecture_of
from txexport.parts import cases as seeded
from txexport.parts.cases import (
    DecoderCase,
    DescribedCase,
    DescribedSegmentsCase,
    DualEncoderCase,
    EncoderCase,
    GreedyCase,
    PromptCase,
)
from txexport.parts.documents import DocumentCase
from txexport.parts.grounded import GroundedCase
from txexport.parts.pages import PageCase
from txexport.parts.part import SignalCase, Skipped, View
from txexport.spec import ModelSpec, StackSpec
from txexport.verification.cases import runs
from txexport.verification.cases.beam_search import run_beams
from txexport.verification.cases.descriptions import run_described, run_described_segments, run_grounded
from txexport.verification.cases.documents import run_document
from txexport.verification.cases.pages import run_pages
from txexport.verification.cases.prompts import run_prompts
from txexport.verification.checks import CONTENTS, PROCESSORS, Reach

# The limit of one pass of the longest case; two cores take half a minute for it.
OPERATIONS = 5e12
SCORES = 2 << 30  # bytes
KEPT = 4  # copies of every layer's weights: the bundle's, the reference's, and both in float64

# A few cases to run in seconds after every change of a model: padding on each side, ragged rows, chunks,
# cached steps, and so every output. The full run includes the longest sequences.
QUICK = frozenset(
    {
        *CONTENTS,
        *PROCESSORS,
        "one token",
        "one token, then steps",
        "three ragged rows, right padding",
        "three rows, scattered padding",
        "two equal rows, several tokens a step",
        "three ragged rows in chunks",
        "three ragged rows, left padding",
        "greedy, three ragged rows",
        "beams, two rows",
        "nine images in one padded batch",
        "nine sounds in one padded batch",
        "three",
        "three ragged rows",
        "two of 3 by 2 patches",
        "three ragged texts, two images",
        "three ragged texts, two sounds",
        "three ragged texts in two images",
        "three texts in three images of several sizes",
        "three ragged rows padded with zeros",
        "sentences",
        "three of several sizes",
        "two images, three groups of points each",
        "two images, a point and a box each",
        "two images, points and a mask each",
        "three rows of images in chunks",
        "three rows of sounds in chunks",
        "a token of images without an image",
        "a token of sounds without a sound",
        "three rows of one, no and two images",
        "three ragged queries, left padding",
        "greedy, images",
        "greedy, sounds",
    }
)


@dataclass(frozen=True)
class PlannedCase:
    """A case and the function of `runs` that runs it, or the reason why it does not apply."""

    name: str
    case: Any = None
    run: Callable[..., list[runs.Outcome]] | None = None
    skipped: str | None = None


RUNS: dict[type, Callable[..., list[runs.Outcome]]] = {
    SignalCase: runs.run_signals,
    DualEncoderCase: runs.run_dual_encoder,
    PromptCase: run_prompts,
    DescribedCase: run_described,
    DescribedSegmentsCase: run_described_segments,
    GroundedCase: run_grounded,
    PageCase: run_pages,
    DocumentCase: run_document,
    DecoderCase: runs.run_decoder,
}


def planned(case: Any) -> PlannedCase:
    """The case with the function that runs it."""
    if isinstance(case, Skipped):
        return PlannedCase(case.name, skipped=case.reason)
    if isinstance(case, EncoderCase):
        return PlannedCase(case.name, case, runs.run_choices if case.choices else runs.run_encoder)
    if isinstance(case, GreedyCase):
        return PlannedCase(case.name, case, run_beams if case.beam_search else runs.run_greedy)
    return PlannedCase(case.name, case, RUNS[type(case)])


def plan(
    spec: ModelSpec, *, static: bool, outputs: Collection[str] = (), hub: bool = False
) -> list[PlannedCase]:
    """Every case for a model of that spec, with a static cache or not, in the order of a report.

    With `outputs` of every layer, sequences are shorter, so that these fit into memory. Graphs of the `hub`
    have the long factors of LongRoPE, and so longer sequences than ours.
    """
    weight_copies = KEPT if ATTENTIONS in outputs else 0
    view = View(
        static,
        hub,
        lambda stack: _longest(spec, stack, weight_copies),
        lambda length, stack: _affordable(spec, length, weight_copies * stack.num_layers),
    )
    return [planned(case) for case in architecture_of(spec).cases(spec, view)]


def _longest(spec: ModelSpec, stack: StackSpec, kept: int) -> int:
    """Tokens of the longest case: the model's limit, or as many as a machine computes in reasonable time.

    It always exceeds a sliding window, so that the window has an effect.
    """
    windows = [block.attention.window for block in stack.blocks if block.attention.window is not None]
    least = max(seeded.LONGEST, max(windows, default=0) + 2)
    if stack.limit is None or stack.limit <= least:
        return stack.limit or least
    length = stack.limit
    while length > least and not _affordable(spec, length, kept * stack.num_layers):
        length //= 2
    return max(least, length)


def _affordable(spec: ModelSpec, length: int, kept: int) -> bool:
    """Tell whether one pass over `length` tokens takes seconds and its score matrices fit into memory.

    `kept` is the number of layers whose scores are kept at once, 0 for one layer.
    """
    operations = sum(one.total for one in flops.prefill(spec, length).values())
    return operations <= OPERATIONS and flops.scores_bytes(spec, length) * max(1, kept) <= SCORES


def computed(planned: Sequence[PlannedCase]) -> list[PlannedCase]:
    """The cases that compare outputs of graphs, without those of generation."""
    return [one for one in planned if one.run is not None and not isinstance(one.case, GreedyCase)]


def reach(spec: ModelSpec, cases: Sequence[PlannedCase]) -> Reach:
    """The largest batch and the longest row of the cases, and the longest source of a decoder."""
    stack_limits = [*architecture_of(spec).limits(spec).values()]
    limits = {"tokens": stack_limits[-1 if spec.generates else 0]}
    if spec.generates and len(stack_limits) > 1:
        limits["source tokens"] = stack_limits[0]
    result: dict[str, int] = {}
    for case in cases:
        for name, number in _sizes(case.case).items():
            result[name] = max(number, result.get(name, 0))
    return {
        name: (min(number, limits.get(name) or number), limits.get(name)) for name, number in result.items()
    }


def _sizes(case: Any) -> dict[str, int]:
    if isinstance(case, SignalCase):
        return {"rows": len(case.signals)}
    if isinstance(case, PromptCase):
        return {"rows": len(case.pixel_values)}
    if isinstance(case, EncoderCase | DualEncoderCase | GroundedCase | PageCase | DocumentCase):
        rows, tokens = case.input_ids.shape
        return {"rows": rows, "tokens": tokens}
    if not isinstance(case, DecoderCase | GreedyCase):
        return {}
    sources = (case.sources or []) if isinstance(case, DecoderCase) else []
    read = {"source tokens": max(map(len, sources))} if sources and isinstance(sources[0], list) else {}
    tokens = {"tokens": max(map(len, case.rows))} if isinstance(case, DecoderCase) else {}
    return {"rows": len(case.rows)} | tokens | read


def select(
    planned: Sequence[PlannedCase], wanted: str | Sequence[str], contents: Iterable[str] = CONTENTS
) -> set[str]:
    """The names of the cases that `wanted` selects: "full", "quick", or names; `contents` are other checks.

    Raises InputError for a name without a case, with similar names, and if none of the named cases applies.
    """
    known = dict.fromkeys(contents) | {case.name: case.skipped for case in planned}
    known |= {case.name: None for case in planned if case.run is not None}
    if wanted == "full":
        return set(known)
    if wanted == "quick":
        return set(QUICK & known.keys())
    if isinstance(wanted, str) or not wanted:
        raise InputError(f"cases are {wanted!r}, expected 'quick', 'full' or a list of names")
    for name in wanted:
        if name not in known:
            like = get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f"did you mean {_quoted(like)}?" if like else f"expected some of {_quoted(list(known))}"
            raise InputError(f"this bundle has no case '{name}'; {hint}")
    if all(known[name] is not None for name in wanted):
        raise InputError(f"case '{wanted[0]}' does not apply: {known[wanted[0]]}")
    return set(wanted)


def _quoted(names: Sequence[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)
