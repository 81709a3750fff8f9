"""The cases of another tool's decoder, beside the class of transformers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from txexport.contracts import cache_names, names
from txexport.contracts.ecosystem import DECODER_INPUTS
from txexport.errors import InputError
from txexport.verification.checks import Reach, SkipError, TensorCheck, check_of
from txexport.verification.exports.graphs import DecoderGraphs
from txexport.verification.traced import steps
from txexport.verification.traced.decoders import answered, encoded, source_values
from txexport.verification.traced.named_checks import NamedCheck
from txexport.verification.traced.originals import UNLIMITED, Original
from txexport.verification.traced.steps import StepCase

ENCODER = "encoder"  # an encoder's case
TOKENS = 6  # of an answer
WINDOW = "._sliding_window_tensor"
Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Decoding:
    """The graphs of a decoder, and the class beside them."""

    judge: Original
    graphs: DecoderGraphs

    @property
    def reads_source(self) -> bool:
        """True for a decoder over an encoder."""
        return self.graphs.reads_source

    @cached_property
    def empty(self) -> Feeds:
        """Keys and values of one row without a past, in the class's sizes, if the first graph takes any."""
        source = self.source_of(StepCase("", 1, 1, (1,), source=1))
        values = steps.prompt(self.judge.facts, 1, 1, 0, None)
        present = answered(self.judge, values, source)
        empty = {
            cache_names.to_past(name): array[:, :, :0] for name, array in present.items() if array.ndim == 4
        }
        from_encoder = set() if source is None else self._read(source).keys()
        taken = [name for name in self.graphs.first.past if name not in from_encoder]
        if unknown := [name for name in taken if name not in empty]:
            raise InputError(
                f"{self.graphs.first.path} takes {unknown[0]}, which {self.judge.architecture} does not keep"
            )
        return {name: empty[name] for name in taken}

    def check_inputs(self) -> None:
        """Raise InputError for an input of a graph that no case has."""
        first, later, encoder = self.graphs.first, self.graphs.later, self.graphs.encoder
        source = self.source_of(StepCase("", 1, 1, (1,), source=1)) or {}
        of_step = {*DECODER_INPUTS, *self.empty, *self._fixed(source)}
        of_step |= {cache_names.to_past(name) for name in (*first.outputs, *later.outputs)}
        pieces = [(first, of_step), (later, of_step)]
        for piece, known in [*pieces, (encoder, {*source})] if encoder is not None else pieces:
            for name, port in piece.inputs.items():
                if name not in known:
                    raise InputError(f"{piece.path} takes '{port.name}', which is not known")

    def plan(self) -> list[StepCase]:
        """The cases at sizes that the graphs declare, each once.

        Padding between tokens beyond a window is left out: the class counts it as tokens, some graphs do not.
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

    def checks(self) -> dict[str, NamedCheck]:
        """The cases by name."""
        result: dict[str, NamedCheck] = {}
        if self.graphs.encoder is not None:
            for name, ragged in ((ENCODER, False), (steps.RAGGED_ENCODER, True)):
                check = partial(steps.encoder_judged, self.judge, self._hidden, ragged)
                result[name] = NamedCheck(check, name in self._quick)
        return result | self.decoder_checks()

    def decoder_checks(self) -> dict[str, NamedCheck]:
        """As `checks`, without those of the encoder."""
        checks = {
            case.name: NamedCheck(partial(self.check, case), case.name in self._quick) for case in self.plan()
        }
        return checks | {steps.GREEDY: NamedCheck(self.written_check)}

    @property
    def _quick(self) -> tuple[str, ...]:
        return steps.QUICK_WITH_SOURCE if self.reads_source else steps.QUICK

    def check(self, case: StepCase) -> list[TensorCheck]:
        """Logits of a case; keys and values too, where the graphs take positions as the class does.

        Graphs that count positions themselves may start at another number. Rotary positions then change keys
        but no logits.
        """
        source = self.source_of(case)
        checks = steps.judged(self.judge, self.step_of(source), case, self.empty, source, lacking=True)
        if self.reads_source or names.POSITION_IDS in self.graphs.first.inputs:
            return checks
        return [check for check in checks if check.output == names.LOGITS]

    def source_of(self, case: StepCase) -> Feeds | None:
        """The inputs of the encoder in a case; None for a decoder alone."""
        if not self.reads_source:
            return None
        return source_values(self.judge, case.rows, case.source, case.seed, case.ragged)

    def step_of(self, source: Feeds | None) -> Callable[..., Feeds]:
        """A step after a source."""
        return partial(self.graphs.step, self._fixed(source or {}))

    def _fixed(self, source: Feeds) -> Feeds:
        """The inputs that are the same at every step: of a source, and the window in transformers' graphs."""
        window = self.judge.ranges.get("sliding_window")
        fixed = {name: np.array(window) for name in self.graphs.inputs if name.endswith(WINDOW)}
        return fixed | (self._read(source) if source else {})

    def _hidden(self, source: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.graphs.encode(source)[names.ENCODER_HIDDEN_STATES]

    def _read(self, source: Mapping[str, np.ndarray]) -> Feeds:
        """The decoder's inputs of a source; hidden states of the class where the export has no encoder."""
        if self.graphs.encoder is None:
            read = {names.ENCODER_HIDDEN_STATES: encoded(self.judge, source)}
        else:
            read = self.graphs.encode(source)
        shape = read[names.ENCODER_HIDDEN_STATES].shape[:2]
        mask = source.get(names.ATTENTION_MASK)
        return read | {names.ENCODER_ATTENTION_MASK: np.ones(shape, np.int64) if mask is None else mask}

    def written_check(self) -> list[TensorCheck]:
        """The likeliest tokens after ragged prompts, padded at the left, as the class writes them.

        Two tokens of the same score, within float32's error, are a tie.
        """
        prompt = self.graphs.first.size(names.INPUT_IDS, 1) or (1 if self.reads_source else 5)
        padded = None if self.reads_source else "left"
        case = self._fitting(StepCase(steps.GREEDY, 3, prompt, (prompt, 1), padded, 9, 8, ragged=True))
        source = self.source_of(case)
        step = self.step_of(source)
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
            yield f"the graph takes batch_size {rows} only"
        if (prompt := first.size(names.INPUT_IDS, 1)) is not None:
            yield f"{first.path.name} takes prompts of length {prompt} only"
        if (step := later.size(names.INPUT_IDS, 1)) is not None and later is not first:
            yield f"{later.path.name} takes steps of length {step} only"
        if self.reads_source and self.graphs.encoder is None:
            yield "the export has no encoder: the decoder reads the hidden states of transformers"


def _next(values: Feeds, tokens: np.ndarray) -> Feeds:
    """One more token (rows,) after ids, mask and positions (rows, tokens)."""
    new = tokens[:, None]
    positions = values[names.POSITION_IDS][:, -1:] + 1
    return {names.INPUT_IDS: new, names.ATTENTION_MASK: np.ones_like(new), names.POSITION_IDS: positions}
