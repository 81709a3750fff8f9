"""Which cases apply to a bundle, and which of them are wanted."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import ceil, log
from typing import Any, assert_never

from txexport.contracts.names import ATTENTIONS
from txexport.errors import InputError
from txexport.inspection import flops
from txexport.spec import (
    DecoderSpec,
    DualEncoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    HeadKind,
    ModelSpec,
    Pick,
    SignalStackSpec,
    StackSpec,
    TextStackSpec,
    VectorSpec,
)
from txexport.verification.bundle_contents import CHECKS
from txexport.verification.cases import runs, seeded
from txexport.verification.cases.beam_search import run_beams
from txexport.verification.checks import PROCESSORS, Reach

# What one pass of the longest case may cost; two cores take half a minute for it.
OPERATIONS = 5e12
SCORES = 2 << 30  # bytes
BEAM_TOKENS = 8  # that beams are extended by, at most
KEPT = 4  # copies of every layer's weights: what came out, what should have, and both in float64

# A handful for every change of a model, in seconds: padding on each side, rows of several lengths, chunks,
# cached steps, and so every output. The longest sequences are left to the full run.
QUICK = frozenset(
    {
        *CHECKS,
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
    run: Callable[..., list[runs.Outcome]] | None = None
    skipped: str | None = None


def plan(spec: ModelSpec, *, static: bool, outputs: Collection[str] = (), hub: bool = False) -> list[Planned]:
    """Every case for a model of that spec, with a static cache or not, in the order of a report.

    Where `outputs` of every layer are kept, sequences are as long as memory for them allows. Graphs of the
    `hub` turn longer sequences by the long factors of LongRoPE, where ours end.
    """
    kept = KEPT if ATTENTIONS in outputs else 0
    match spec:
        case DualEncoderSpec():
            cases = seeded.dual_encoder_cases(spec, _longest(spec, spec.text, kept))
            return [Planned(case.name, case, runs.run_dual_encoder) for case in cases]
        case EncoderSpec():
            return list(_of_encoder(spec, kept))
        case DecoderSpec():
            return [*_of_decoder(static, spec, kept), *(_beyond_short(spec, kept) if hub else [])]
        case EncoderDecoderSpec():
            return list(_of_decoder(static, spec, kept) if spec.generates else _of_encoder(spec, kept))
        case _:
            assert_never(spec)


def _of_encoder(spec: EncoderSpec | EncoderDecoderSpec, kept: int) -> Iterator[Planned]:
    encoder = spec.encoder
    if isinstance(encoder, SignalStackSpec):
        for signals in seeded.signal_cases(encoder.embedding):
            yield Planned(signals.name, signals, runs.run_signals)
        return
    words, run = encoder.embedding, runs.run_encoder
    if spec.head.kind == HeadKind.CHOICES:
        run = runs.run_choices
    padding, mark, alone = spec.head.pad_token_id, spec.head.eos_token_id, True
    match spec:
        case EncoderSpec(vector=VectorSpec() as vector):
            padding, mark = 0 if vector.pick == Pick.ARGMAX_ID else None, vector.eos_token_id
            alone = vector.pick != Pick.FINAL
    for batch in seeded.encoder_cases(
        words.vocab_size,
        encoder.token_types,
        _longest(spec, encoder, kept),
        padding,
        words.dropped,
        mark,
        alone,
    ):
        if spec.head.pick == Pick.LAST_SEEN and not batch.alone:
            causal = "without an id of padding the original reads one row at a time"
            others = "the original reads the last place of a row, padding or not"
            yield Planned(batch.name, skipped=causal if encoder.causal else others)
        else:
            yield Planned(batch.name, batch, run)


def _of_decoder(static: bool, spec: DecoderSpec | EncoderDecoderSpec, kept: int) -> Iterator[Planned]:
    decoder, words = spec.decoder, spec.vocab_size
    source = spec.encoder if isinstance(spec, EncoderDecoderSpec) else None
    crossed = source is not None
    for rows in seeded.decoder_cases(
        words,
        _longest(spec, decoder, kept),
        ragged=static or not crossed,
        left=not static and not crossed,
        experts=_tokens_for_experts(decoder),
        source=source,
        source_longest=_longest(spec, source, kept) if isinstance(source, TextStackSpec) else 0,
    ):
        yield Planned(rows.name, rows, runs.run_decoder)
    for prompts in seeded.greedy_cases(words, decoder.limit, source):
        yield Planned(prompts.name, prompts, runs.run_greedy)
        yield _beams(prompts, words)
    if static:
        yield Planned("left padding", skipped="a static cache pads on the right")
    elif crossed:
        yield Planned(
            "ragged decoder rows", skipped="the dynamic encoder-decoder contract has no decoder mask"
        )


def _beams(prompts: seeded.GreedyCase, words: int) -> Planned:
    """Beam search over the first of some prompts, with no more beams than `words` make different texts."""
    name, new_tokens = "beams, two rows", min(BEAM_TOKENS, prompts.new_tokens)
    beams = min(seeded.BEAMS, words**new_tokens)
    if beams == 1:
        return Planned(name, skipped="a vocabulary of one token makes no two beams")
    case = replace(prompts, name=name, rows=prompts.rows[:2], new_tokens=new_tokens, beams=beams)
    return Planned(name, case, run_beams)


def _beyond_short(spec: DecoderSpec, kept: int) -> Iterator[Planned]:
    """A row in one pass, which turns by long factors as the original does."""
    rotaries = {block.masked.rotary for block in spec.decoder.blocks}
    lengths = {rotary.short_length for rotary in rotaries if rotary is not None and rotary.short_length}
    for length in lengths:
        case = seeded.one_row("a row beyond the short factors", spec.vocab_size, length + 5)
        if _affordable(spec, length + 5, kept * spec.decoder.num_layers):
            yield Planned(case.name, case, runs.run_decoder)
        else:
            yield Planned(case.name, skipped=f"one pass over {length + 5:,} tokens takes too long")


def _longest(spec: ModelSpec, stack: StackSpec, kept: int) -> int:
    """Tokens of the longest case: the model's limit, or what of it a machine computes in reasonable time.

    In any case beyond a window, so that it is seen to hide something.
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
    """Whether one pass over that many tokens, with all its scores written out, is a matter of seconds.

    `kept` is how many layers' scores are held at once, where it is not one layer's.
    """
    operations = sum(one.total for one in flops.prefill(spec, length).values())
    return operations <= OPERATIONS and flops.scores_bytes(spec, length) * max(1, kept) <= SCORES


def _tokens_for_experts(stack: StackSpec) -> int:
    """Random tokens of which each expert of every layer gets one, but for one run in a thousand; 0 without.

    Three times as many as with equal chances, which routers do not give; a report says how many were reached.
    """
    kinds = [block.feed_forward for block in stack.layers if isinstance(block.feed_forward, ExpertsSpec)]
    tokens = (3 * kind.num_experts / kind.top_k * log(1000 * kind.num_experts * len(kinds)) for kind in kinds)
    return ceil(max(tokens, default=0))


def computed(planned: Sequence[Planned]) -> list[Planned]:
    """The cases that compare what graphs compute, without those of our own way to choose tokens."""
    return [one for one in planned if one.run is not None and not isinstance(one.case, seeded.GreedyCase)]


def reach(spec: ModelSpec, planned: Sequence[Planned]) -> Reach:
    """How far the cases look: rows of a batch, and tokens of a row, of a decoder's source too."""
    limits: dict[str, int | None] = {}
    match spec:
        case DualEncoderSpec(text=stack) | EncoderSpec(encoder=stack) | DecoderSpec(decoder=stack):
            limits["tokens"] = stack.limit
        case EncoderDecoderSpec(encoder=stack) if not spec.generates:
            limits["tokens"] = stack.limit
        case EncoderDecoderSpec():
            limits |= {"tokens": spec.decoder.limit, "source tokens": spec.encoder.limit}
        case _:
            assert_never(spec)
    result: dict[str, int] = {}
    for case in planned:
        for name, number in _sizes(case.case).items():
            result[name] = max(number, result.get(name, 0))
    return {
        name: (min(number, limits.get(name) or number), limits.get(name)) for name, number in result.items()
    }


def _sizes(case: Any) -> dict[str, int]:
    if isinstance(case, seeded.SignalCase):
        return {"rows": len(case.signals)}
    if isinstance(case, seeded.EncoderCase | seeded.DualEncoderCase):
        rows, tokens = case.input_ids.shape
        return {"rows": rows, "tokens": tokens}
    if not isinstance(case, seeded.DecoderCase | seeded.GreedyCase):
        return {}
    sources = (case.sources or []) if isinstance(case, seeded.DecoderCase) else []
    read = {"source tokens": max(map(len, sources))} if sources and isinstance(sources[0], list) else {}
    tokens = {"tokens": max(map(len, case.rows))} if isinstance(case, seeded.DecoderCase) else {}
    return {"rows": len(case.rows)} | tokens | read


def select(
    planned: Sequence[Planned], wanted: str | Sequence[str], contents: Iterable[str] = CHECKS
) -> set[str]:
    """The names that `wanted` means: "full", "quick", or names themselves; `contents` are of what is no case.

    Raises InputError for a name that no case has, with those that are like it, and where none of the named
    cases applies.
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
