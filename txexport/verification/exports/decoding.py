"""The cases of another tool's decoder, beside the class of transformers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from txexport.contracts import cache_names, names
from txexport.errors import InputError
from txexport.verification.checks import Reach, SkipError, TensorCheck, check_of
from txexport.verification.exports.graphs import DecoderGraphs
from txexport.verification.traced import steps
from txexport.verification.traced.decoders import answered, encoded, source_values
from txexport.verification.traced.judging import compared, unpadded
from txexport.verification.traced.originals import UNLIMITED, Original
from txexport.verification.traced.steps import StepCase

ENCODER = "encoder"  # an encoder's case
WRITTEN = "tokens of a greedy search"
TOKENS = 6  # of an answer
WINDOW = "._sliding_window_tensor"
QUICK = (*steps.QUICK, "ragged sources, in steps", f"{ENCODER}, ragged")
Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Decoding:
    """The graphs of a decoder, and the class beside them."""

    judge: Original
    graphs: DecoderGraphs

    @property
    def reads_source(self) -> bool:
        """True for a decoder over an encoder."""
        return bool(self.judge.config.is_encoder_decoder)

    @cached_property
    def empty(self) -> Feeds:
        """Keys and values of one row without a past, in the class's sizes, if the first graph takes any."""
        source = self._source(StepCase("", 1, 1, (1,))) if self.reads_source else None
        values = steps.prompt(self.judge.facts, 1, 1, 0, None)
        present = answered(self.judge, values, source)
        empty = {
            cache_names.to_past(name): array[:, :, :0] for name, array in present.items() if array.ndim == 4
        }
        if unknown := [name for name in self.graphs.first.past if name not in empty]:
            raise InputError(
                f"{self.graphs.first.path} takes {unknown[0]}, which {self.judge.architecture} does not keep"
            )
        return {name: empty[name] for name in self.graphs.first.past}

    def plan(self) -> list[StepCase]:
        """The cases at sizes that the graphs declare, each once.

        Windows count the padding between tokens in the class, and rightly not in some graphs: such a case has
        no judge.
        """
        every = steps.plan_with_source(self.judge) if self.reads_source else steps.plan(self.judge)
        windowed = min(self.judge.ranges.values(), default=UNLIMITED)
        clear = [case for case in every if case.padded != "middle" or case.tokens <= windowed]
        result: dict[StepCase, StepCase] = {}
        for case in map(self._fitting, clear):
            result.setdefault(replace(case, name="", seed=0), case)
        return list(result.values())

    def _fitting(self, case: StepCase) -> StepCase:
        """A case with the batch and the pieces that the graphs declare."""
        first, later = self.graphs.first, self.graphs.later
        rows = first.size(names.INPUT_IDS, 0) or case.rows
        prompt, step = first.size(names.INPUT_IDS, 1), later.size(names.INPUT_IDS, 1)
        pieces = case.pieces
        if prompt is not None:
            pieces = (prompt, *(pieces[1:] or pieces[:1]))
        if step is not None and (len(pieces) > 1 or prompt is not None):
            pieces = (pieces[0], step)
        return replace(case, rows=rows, tokens=max(case.tokens, prompt or 0), pieces=pieces)

    def checks(self) -> Iterator[tuple[str, Callable[[], list[TensorCheck]], bool]]:
        """The cases: name, what runs it, and whether it is a quick one."""
        if self.graphs.encoder is not None:
            for name, ragged in ((ENCODER, False), (f"{ENCODER}, ragged", True)):
                yield name, partial(self.encoder_check, ragged), name in QUICK
        yield from self.decoder_checks()

    def decoder_checks(self) -> Iterator[tuple[str, Callable[[], list[TensorCheck]], bool]]:
        """As `checks`, without those of the encoder."""
        for case in self.plan():
            yield case.name, partial(self.check, case), case.name in QUICK
        yield WRITTEN, self.written_check, True

    def encoder_check(self, ragged: bool) -> list[TensorCheck]:
        """The encoder's hidden states, without padding."""
        source = self._source(StepCase("", 3, 1, (1,), source=12, seed=8, ragged=ragged))
        graph = self.graphs.encoder
        assert graph is not None
        outputs = {names.LAST_HIDDEN_STATE: graph.hidden_states(source)}

        def compute() -> Feeds:
            return {names.LAST_HIDDEN_STATE: encoded(self.judge, source)}

        return compared(self.judge, compute, outputs, partial(unpadded, source.get(names.ATTENTION_MASK)))

    def check(self, case: StepCase) -> list[TensorCheck]:
        """Logits of a case; keys and values too, where the graphs take positions as the class does.

        Graphs that count for themselves may begin elsewhere, which relative positions do not show in logits.
        """
        source = self._source(case) if self.reads_source else None
        step = self._step(source)
        checks = steps.judged(self.judge, step, case, self.empty, source, lacking=True)
        if self.reads_source or names.POSITION_IDS in self.graphs.first.inputs:
            return checks
        return [check for check in checks if check.output == names.LOGITS]

    def _step(self, source: Feeds | None) -> Callable[..., Feeds]:
        """A step with what it reads of a source, and the windows that transformers' graphs take as inputs."""
        window = self.judge.ranges.get("sliding_window")
        inputs = self.graphs.first.inputs.keys() | self.graphs.later.inputs.keys()
        fixed = {name: np.array(window) for name in inputs if name.endswith(WINDOW) and window is not None}
        return partial(self.graphs.step, fixed | ({} if source is None else self._read(source)))

    def _source(self, case: StepCase) -> Feeds:
        return source_values(self.judge, case.rows, case.source or 1, case.seed, case.ragged)

    def _read(self, source: Mapping[str, np.ndarray]) -> Feeds:
        """The hidden states of a source and its mask; from the class where the export has no encoder."""
        graph = self.graphs.encoder
        hidden = encoded(self.judge, source) if graph is None else graph.hidden_states(source)
        mask = source.get(names.ATTENTION_MASK)
        mask = np.ones(hidden.shape[:2], np.int64) if mask is None or mask.shape != hidden.shape[:2] else mask
        return {names.ENCODER_HIDDEN_STATES: hidden, names.ENCODER_ATTENTION_MASK: mask}

    def written_check(self) -> list[TensorCheck]:
        """The likeliest tokens after ragged prompts, padded at the left, as the class writes them.

        Two tokens of the same score, within float32's error, are a tie.
        """
        prompt = self.graphs.first.size(names.INPUT_IDS, 1) or (1 if self.reads_source else 5)
        padded = None if self.reads_source else "left"
        case = self._fitting(StepCase(WRITTEN, 3, prompt, (prompt, 1), padded, 9, 8, ragged=True))
        source = self._source(case) if self.reads_source else None
        step = self._step(source)
        values = steps.prompt(self.judge.facts, case.rows, prompt, case.seed, padded)
        cache = {name: np.repeat(array, case.rows, axis=0) for name, array in self.empty.items()}
        piece, checks = values, []
        for place in range(min(TOKENS, self.judge.longest - prompt)):
            answer = step(**piece, **cache)
            likeliest = answer.pop(names.LOGITS)[:, -1].argmax(-1)
            cache |= {cache_names.to_past(name): array for name, array in answer.items()}
            expected = answered(self.judge, values, source)[names.LOGITS][:, -1]
            tokens = expected.argmax(-1)
            rows = np.arange(case.rows)
            tied = expected[rows, tokens] - expected[rows, likeliest] <= steps.TIE
            checks.append(check_of(f"token {place}", [(np.where(tied, tokens, likeliest), tokens)], 0.0))
            piece = _next(values, tokens)
            values = {name: np.concatenate([values[name], piece[name]], axis=1) for name in values}
            piece[names.ATTENTION_MASK] = values[names.ATTENTION_MASK]
        if not checks:
            raise SkipError("the model is too short for an answer")
        return checks

    def reach(self) -> Reach:
        """The largest batch and sequence of the cases."""
        planned = self.plan()
        tokens = max(max(case.tokens, case.source) for case in planned)
        return {"rows": (max(case.rows for case in planned), None), "tokens": (tokens, None)}

    def notes(self) -> Iterator[str]:
        """Limits of the graphs."""
        first, later = self.graphs.first, self.graphs.later
        if (rows := first.size(names.INPUT_IDS, 0)) is not None:
            yield f"the graph takes batch_size {rows} alone"
        if (prompt := first.size(names.INPUT_IDS, 1)) is not None:
            yield f"{first.path.name} takes {prompt} tokens alone"
        if (step := later.size(names.INPUT_IDS, 1)) is not None and later is not first:
            yield f"{later.path.name} takes {step} token a step alone"
        if self.reads_source and self.graphs.encoder is None:
            yield "the export has no encoder: the class's own hidden states are read"


def _next(values: Feeds, tokens: np.ndarray) -> Feeds:
    """One more token (rows,) after ids, mask and positions (rows, tokens)."""
    new = tokens[:, None]
    positions = values[names.POSITION_IDS][:, -1:] + 1
    return {names.INPUT_IDS: new, names.ATTENTION_MASK: np.ones_like(new), names.POSITION_IDS: positions}
