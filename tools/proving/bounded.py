"""All cases of a bounded size for the graphs of a bundle, by kind: masks, splits, rewinds, batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from proving.enumerated import SPLIT, TOKENS, batches, mask_batches, masks, splits, steps_of
from proving.walks import LATER, MaskedPrompt, Rewind, run_masked, run_rewind
from txexport.bundle import Manifest
from txexport.contracts import cache_names
from txexport.contracts.names import ATTENTION_MASK
from txexport.parts import architecture_of
from txexport.parts.cases import DecoderCase, DualEncoderCase, EncoderCase
from txexport.parts.pages import PageCase
from txexport.parts.part import MaskedTokens, SignalCase, Skipped, Sources, View
from txexport.parts.source_cases import with_images
from txexport.spec import EncoderDecoderSpec, ModelSpec, Mutual
from txexport.verification.cases.plan import PlannedCase, planned
from txexport.verification.cases.runs import run_decoder

BATCH = 3
SOURCE = 4  # tokens of a source beside which a text is split
Cases = Iterator[tuple[str, PlannedCase]]  # with the kind of each


@dataclass(frozen=True)
class Bounded:
    """The graphs of one kind of a bundle, and the seeded cases, from which tokens and signals are taken."""

    spec: ModelSpec
    manifest: Manifest
    seeded: Sequence[PlannedCase]

    def cases(self) -> Cases:
        """All cases with the kind of each."""
        kinds = {type(one.case) for one in self.seeded}
        if not kinds.isdisjoint({EncoderCase, PageCase}):
            yield from self.padded()
        if SignalCase in kinds:
            yield from self.signals()
        if DualEncoderCase in kinds:
            yield from self.texts()
        if self.texts_alone:
            yield from self.splits()
            yield from self.rewinds()
            yield from self.source_masks() if self.with_tokens else self.prompt_masks()

    def padded(self) -> Cases:
        """Every mask of an encoder of texts."""
        view = View(False, False, lambda _: TOKENS, lambda *_: True, dict(mask_batches()))
        for case in architecture_of(self.spec).cases(self.spec, view):
            if isinstance(case, EncoderCase | PageCase | Skipped):
                yield "masks", planned(case)

    def signals(self) -> Cases:
        """Every batch of up to three of the first rows of each seeded batch of images or sounds."""
        for one in self.seeded:
            if not isinstance(case := one.case, SignalCase):
                continue
            rows = min(BATCH + 1, len(case.signals))
            for count in range(1, min(BATCH, rows) + 1):
                for chosen in combinations(range(rows), count):
                    parts = {
                        name: None if (array := getattr(case, name)) is None else array[[*chosen]]
                        for name in ("signals", "mask", "real", "within")
                    }
                    yield "batches", planned(replace(case, name=f"{case.name}, rows {chosen}", **parts))

    def texts(self) -> Cases:
        """Batches of up to three texts of up to six tokens, each with one to three signals."""
        case = max((one.case for one in self.seeded), key=lambda case: len(case.signals))
        row = int(case.attention_mask.sum(axis=1).argmax())
        mark = case.input_ids[row, case.attention_mask[row].sum() - 1]
        for number, lengths in enumerate(batches(range(1, TOKENS + 1), BATCH)):
            mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
            ids = np.where(mask, case.input_ids[row, : mask.shape[1]], mark)
            ids[np.arange(len(lengths)), np.array(lengths) - 1] = mark
            count = min(1 + number % BATCH, len(case.signals))
            signals = {name: array[:count] for name, array in case.beside.items()}
            name = f"texts of {lengths}, {count} signals"
            mask = mask.astype(np.int64)
            yield (
                "masks",
                planned(
                    replace(
                        case,
                        name=name,
                        input_ids=ids,
                        attention_mask=mask,
                        signals=case.signals[:count],
                        beside=signals,
                    )
                ),
            )

    @cached_property
    def texts_alone(self) -> list[DecoderCase]:
        """The seeded cases of a decoder that read no images among tokens, those with most tokens first."""
        cases = [one.case for one in self.seeded if isinstance(one.case, DecoderCase)]
        texts = [case for case in cases if (self.attends or case.images is None) and case.batch is None]
        return sorted(texts, key=lambda case: -max(map(len, case.rows)))

    @cached_property
    def tokens(self) -> list[list[int]]:
        """Rows of tokens that all begin with another token."""
        tokens = self.texts_alone[0].rows[0]
        length = min(SPLIT + 1, len(tokens) // 2)
        return [tokens[place : place + length] for place in range(BATCH)]

    @cached_property
    def sources(self) -> Sources | None:
        """Three sources: of few tokens, or the shortest signals; None without an encoder."""
        sources = [source for case in self.texts_alone for source in case.sources or ()]
        if not sources:
            return None
        shortest = sorted(sources, key=len)[:BATCH]
        if not isinstance(sources[0], list):
            alike = [one for one in shortest if np.shape(one) == np.shape(shortest[0])]
            return [alike[place % len(alike)] for place in range(BATCH)]
        longest = max(sources, key=len)
        return [longest[place : place + SOURCE - place] for place in range(BATCH)]

    @property
    def attends(self) -> bool:
        """True for an encoder of texts that attends to an image."""
        return isinstance(self.spec, EncoderDecoderSpec) and self.spec.vision is not None

    @property
    def with_tokens(self) -> bool:
        """True for a decoder that attends to tokens of an encoder."""
        return self.sources is not None and isinstance(self.sources[0], list)

    @property
    def ragged(self) -> bool:
        """True if the rows of a batch may read different numbers of tokens."""
        return self.sources is None or self.manifest.cache == "static"

    @property
    def ports(self) -> set[str]:
        """The inputs of all graphs."""
        return {port.name for graph in self.manifest.graphs.values() for port in graph.inputs}

    def case(self, rows: Sequence[list[int]], steps: np.ndarray, name: str = "") -> DecoderCase:
        """A case of these rows, beside as many sources if there is an encoder, with its images."""
        sources = None if self.sources is None else self.sources[: len(rows)]
        return self.seen(DecoderCase(name, list(rows), steps, sources=sources))

    def seen(self, case: DecoderCase) -> DecoderCase:
        """The case with an image for each source, where its encoder attends to one."""
        [result] = with_images(self.spec, [case])
        assert isinstance(result, DecoderCase)
        return result

    def splits(self) -> Cases:
        """Every split of a text, and of two and three shorter ones in a batch."""
        lengths = (SPLIT if self.sources is None else TOKENS, 4, 3)
        for count, length in enumerate(lengths, 1):
            ways = splits(min(length, len(self.tokens[0])))
            rows = batches(ways, count) if self.ragged else [(one,) * count for one in ways]
            for batch in rows:
                if len(batch) == count:
                    tokens = [row[: sum(batch[0])] for row in self.tokens[:count]]
                    case = self.case(tokens, steps_of(batch), f"split {batch}")
                    yield "splits", PlannedCase(case.name, case, run_decoder)

    def rewinds(self) -> Cases:
        """Back to every token of a text that was read, and on with others, at once and one by one."""
        if cache_names.past_states(self.ports):
            yield "rewinds", PlannedCase("rewinds", skipped="a state of fixed size does not go back")
            return
        if getattr(self.spec, "mutual", None) == Mutual.PREFIX:
            yield "rewinds", PlannedCase("rewinds", skipped="tokens of a prompt attend to each other")
            return
        length = min(SPLIT if self.sources is None else TOKENS, len(self.tokens[0]) - 1)
        alike = self.manifest.cache != "static"  # a cache that grows is cut at one token
        backs = [*range(length)]
        every = [*batches(backs, 2), *[one for one in batches(backs[:4], BATCH) if len(one) > 2]]
        if alike:
            every = [(r,) * count for r in backs for count in range(1, BATCH + 1)]
        first = [row[:length] for row in self.tokens]
        for back in every:
            rows = [row[:r] + row[r + 1 : length + 1] for row, r in zip(self.tokens, back, strict=False)]
            left = min(length - r for r in back)
            rows = [row[: r + left] for row, r in zip(rows, back, strict=True)]
            steps = np.full((1, len(back)), length)
            for pieces in {(left,), (1,) * left} if len(back) == 1 else {(left,)}:
                case = self.case(rows, steps, f"back to {back}, then {pieces}")
                walk = Rewind(case, first[: len(back)], np.array(back), pieces)
                yield "rewinds", PlannedCase(case.name, walk, run_rewind)

    def prompt_masks(self) -> Cases:
        """Every mask of a prompt, in pairs if short, and paddings on the left in batches up to three."""
        if self.sources is not None or self.manifest.cache == "static" or ATTENTION_MASK not in self.ports:
            reason = "the graph takes no mask of tokens"
            yield "masks", PlannedCase("masks of prompts", skipped=reason)
            return
        left = [(0,) * pad + (1,) * (TOKENS - pad) for pad in range(TOKENS)]
        every = [batch for n in range(1, TOKENS + 1) for batch in batches(masks(n), 2 if n <= 2 else 1)]
        if states := cache_names.past_states(self.ports):
            reason = "the original's states count the places between tokens"
            yield "masks", PlannedCase("masks with holes", skipped=reason)
        for mask in [*every, *[one for one in batches(left, BATCH) if len(one) > 1]]:
            real = np.array(mask, bool)
            if states and (np.abs(np.diff(real.astype(int), prepend=0, append=0)).sum(axis=1) > 2).any():
                continue
            counts = real.sum(axis=1)
            rows = [row[: n + LATER] for row, n in zip(self.tokens, counts, strict=False)]
            case = self.case(rows, counts[None], f"mask {mask}")
            yield "masks", PlannedCase(case.name, MaskedPrompt(case, real), run_masked)

    def source_masks(self) -> Cases:
        """Every mask of a source: all of a length in one batch, each alone, and short ones in pairs."""
        if self.attends:
            reason = "the original's decoder attends to padding of questions"
            yield "masks", PlannedCase("masks of sources", skipped=reason)
            return
        tokens = max((s for case in self.texts_alone for s in case.sources or ()), key=len)[:TOKENS]
        text = self.tokens[0]
        for length in range(1, len(tokens) + 1):
            ids = np.array(tokens[:length])
            for mask in [masks(length), *batches(masks(length), 2 if length <= 2 else 1)]:
                sources = [MaskedTokens(ids, np.array(row, np.int64)) for row in mask]
                rows = [text[place % 4 :][:3] for place in range(len(mask))]
                steps = np.array([[2], [1]]).repeat(len(mask), axis=1)
                case = DecoderCase(f"mask of a source {mask}", rows, steps, sources=sources)
                yield "masks", PlannedCase(case.name, case, run_decoder)
