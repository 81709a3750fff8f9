"""Which cases apply to a bundle, and which of them are wanted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from txexport.errors import InputError
from txexport.parity import cases, runs
from txexport.parity.beams import run_beams
from txexport.parity.contents import CHECKS
from txexport.parity.report import TensorCheck
from txexport.spec import EmbeddingSpec, HeadKind, ModelSpec, StackSpec

# A handful for every change of a model, in seconds: padding on each side, rows of several lengths, chunks,
# cached steps, and so every output. The longest sequences are left to the full run.
QUICK = frozenset(
    {
        *CHECKS,
        "one token",
        "one token, then steps",
        "three ragged rows, right padding",
        "three rows, scattered padding",
        "two equal rows, several tokens a step",
        "three ragged rows in chunks",
        "three ragged rows, left padding",
        "greedy, three ragged rows",
        "beams, two rows",
        "three",
        "two of 3 by 2 patches",
        "three ragged texts, two images",
        "sentences",
    }
)


@dataclass(frozen=True)
class Planned:
    """A case and the function of `runs` that tries it, or, where it does not apply, why."""

    name: str
    case: Any = None
    run: Callable[..., list[TensorCheck]] | None = None
    skipped: str | None = None


def plan(spec: ModelSpec, *, static: bool) -> list[Planned]:
    """Every case for a model of that spec, with a static cache or not, in the order of a report."""
    if spec.towers is not None:
        return [Planned(case.name, case, runs.run_towers) for case in cases.tower_cases(spec.towers)]
    if spec.decoder is None or not spec.generates:
        assert spec.encoder is not None
        return list(_of_encoder(spec, spec.encoder))
    return list(_of_decoder(static, spec, spec.decoder))


def _of_encoder(spec: ModelSpec, encoder: StackSpec) -> Iterator[Planned]:
    if not isinstance(encoder.embedding, EmbeddingSpec):
        for signals in cases.signal_cases(encoder.embedding):
            yield Planned(signals.name, signals, runs.run_signals)
        return
    words, run = encoder.words, runs.run_encoder
    if spec.head.kind == HeadKind.CHOICES:
        run = runs.run_choices
    padding, window = spec.head.padding, _widest(encoder)
    for batch in cases.encoder_cases(
        words.vocab_size, words.segments, encoder.limit, window, padding, words.dropped, spec.head.mark
    ):
        yield Planned(batch.name, batch, run)


def _of_decoder(static: bool, spec: ModelSpec, decoder: StackSpec) -> Iterator[Planned]:
    words, crossed = decoder.words.vocab_size, spec.encoder is not None
    for rows in cases.decoder_cases(
        words,
        decoder.limit,
        ragged=static or not crossed,
        left=not static and not crossed,
        window=_widest(decoder),
        source=spec.encoder,
    ):
        yield Planned(rows.name, rows, runs.run_decoder)
    for prompts in cases.greedy_cases(words, decoder.limit, spec.encoder):
        yield Planned(prompts.name, prompts, runs.run_greedy)
        beams = replace(
            prompts, name="beams, two rows", rows=prompts.rows[:2], new_tokens=min(8, prompts.new_tokens)
        )
        yield Planned(beams.name, beams, run_beams)
    if static:
        yield Planned("left padding", skipped="a static cache pads on the right")
    elif crossed:
        yield Planned(
            "ragged decoder rows", skipped="the dynamic encoder-decoder contract has no decoder mask"
        )


def _widest(stack: StackSpec) -> int | None:
    """The widest window of a stack's layers."""
    windows = [block.attention.window for block in stack.blocks if block.attention.window is not None]
    return max(windows, default=None)


def select(planned: Sequence[Planned], wanted: str | Sequence[str]) -> set[str]:
    """The names that `wanted` means: "full", "quick", or names themselves.

    Raises InputError for a name that no case has, with those that are like it, and where none of the named
    cases applies.
    """
    known = dict.fromkeys(CHECKS) | {case.name: case.skipped for case in planned}
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
