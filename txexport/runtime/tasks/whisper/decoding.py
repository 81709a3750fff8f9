"""Decoding of recordings window by window (Radford et al. 2022, 3.8); B windows, V vocabulary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from txexport.runtime.generation import generation, scheduler
from txexport.runtime.generation.cache_rows import rows_of
from txexport.runtime.generation.prefill import prefill
from txexport.runtime.generation.requests import GenerationRequest, encoded
from txexport.runtime.generation.sampling import softmax
from txexport.runtime.generation.scoring import shaped_log_probs
from txexport.runtime.generation.search import Generated
from txexport.runtime.tasks.transcript import Decoded
from txexport.runtime.tasks.whisper.alignment import alignment_of, alignment_weights, token_positions
from txexport.runtime.tasks.whisper.fallback import Thresholds, Verdict
from txexport.runtime.tasks.whisper.recordings import Prompting, Recording
from txexport.runtime.tasks.whisper.segments import STRIDE, Clock
from txexport.runtime.tasks.whisper.special_tokens import SpecialTokens
from txexport.runtime.tasks.whisper.timestamp_rule import TimestampRule

COOL = 0.5  # the next window reads tokens of lower temperatures only


@dataclass(frozen=True)
class Decoding:
    """The settings of a transcription.

    `request` has the options of generation and no inputs, `frames` are those of a window, `clock` is None for
    a model without timestamps, `entropy` seeds the samples. If tokens are `aligned`, they get times.
    """

    request: GenerationRequest
    special: SpecialTokens
    task: str
    frames: int
    clock: Clock | None
    prompting: Prompting
    conditioned: bool
    temperatures: Sequence[float]
    thresholds: Thresholds
    entropy: Any
    aligned: bool = False

    def rows_at_once(self, batch_tokens: int) -> int:
        """The number of windows in a batch under the token budget."""
        window = np.zeros(0, np.float32)
        [cost] = scheduler.costs(replace(self.request, inputs=[window]))
        return max(1, batch_tokens // cost)

    def step(self, recordings: Sequence[Recording]) -> None:
        """Decode the next window of each recording."""
        windows = [recording.window(self.frames) for recording in recordings]
        batch = encoded(replace(self.request, inputs=windows))
        self._find_languages(batch, recordings)
        start = batch.decoder_input_ids[0][0]
        begins = [
            self.special.begin(start, self.task, recording.language, recording.timed)
            for recording in recordings
        ]
        prompts = [
            self.prompting.tokens(recording, self.clock, begin)
            for recording, begin in zip(recordings, begins, strict=True)
        ]
        batch = replace(batch, decoder_input_ids=prompts, strict=self._is_strict(recordings))
        no_speech = self._no_speech(batch, list(map(len, begins)))
        decoded = [*self._decoded(batch, recordings, no_speech)]
        positions = self._positions(batch, recordings, {row: tokens for row, tokens, *_ in decoded})
        for row, tokens, temperature, log_prob in decoded:
            recording = recordings[row]
            begin = 0.0 if self.clock is None else recording.seek / STRIDE * self.clock.step
            facts = Decoded((), begin, temperature, log_prob, no_speech[row])
            recording.conditioned = self.conditioned and temperature < COOL
            if tokens is not None and tokens[-1] in batch.config.eos_token_id:
                tokens = tokens[:-1]
            recording.advance(tokens, self.clock, self.frames, positions.get(row, ()), facts)

    def _positions(
        self,
        batch: GenerationRequest,
        recordings: Sequence[Recording],
        decoded: Mapping[int, list[int] | None],
    ) -> dict[int, list[int]]:
        """The encoder positions at which the tokens of each window end, if tokens are aligned.

        The last token, which is usually the end of the sequence, ends with the one before it.
        """
        if not self.aligned:
            return {}
        read = [prompt + (decoded[row] or [])[:-1] for row, prompt in enumerate(batch.decoder_input_ids)]
        width = alignment_of(batch.bundle).facts.filter_width
        result = {}
        for row, weights in enumerate(alignment_weights(batch.bundle, read, batch.cross)):
            recording, new = recordings[row], weights[:, len(batch.decoder_input_ids[row]) :]
            length = max(1, (recording.frames - recording.seek) // STRIDE)
            positions = token_positions(new[..., :length], width)
            result[row] = [*positions, *(positions or [0])[-1:]]
        return result

    def _is_strict(self, recordings: Sequence[Recording]) -> bool:
        """Return whether max_new_tokens beyond the decoder's room is an error, as with no history it is."""
        return self.request.strict and all(not recording.segments for recording in recordings)

    def _find_languages(self, batch: GenerationRequest, recordings: Sequence[Recording]) -> None:
        """Set the languages that are not known, by the logits after the start token."""
        if self.special.languages and any(recording.language is None for recording in recordings):
            _, logits = prefill(batch, [1] * len(recordings))
            languages = self.special.likeliest(logits)
            for recording, language in zip(recordings, languages, strict=True):
                recording.language = language if recording.language is None else recording.language

    def _no_speech(self, batch: GenerationRequest, begins: list[int]) -> list[float | None]:
        """The probability of no speech of each window, after the start token; `begins` follow a prompt."""
        if self.thresholds.no_speech is None or self.special.no_timestamps is None:
            return [None] * len(begins)
        pairs = zip(batch.decoder_input_ids, begins, strict=True)
        prompts = [prompt[: len(prompt) - begin + 1] for prompt, begin in pairs]
        _, logits = prefill(replace(batch, decoder_input_ids=prompts), [1] * len(prompts))
        return softmax(logits)[:, self.special.no_timestamps - 1].tolist()

    def _decoded(
        self, batch: GenerationRequest, recordings: Sequence[Recording], no_speech: Sequence[float | None]
    ) -> Iterator[tuple[int, list[int] | None, float, float | None]]:
        """The row, tokens (None for no speech), temperature and log-probability of each settled window."""
        rows = list(range(len(recordings)))
        for index, temperature in enumerate(self.temperatures):
            part = batch if index == 0 else self._part(batch, rows)
            chosen = [recordings[row] for row in rows]
            part = self._at(part, temperature, [recording.timed for recording in chosen])
            results, log_probs = self._generated(part, chosen, index)
            left = []
            for row, tokens, log_prob in zip(rows, results, log_probs, strict=True):
                verdict = self.thresholds.verdict(tokens, batch.vocab_size, log_prob, no_speech[row])
                if verdict is Verdict.AGAIN and index + 1 < len(self.temperatures):
                    left.append(row)
                    continue
                yield row, None if verdict is Verdict.SKIP else tokens, temperature, log_prob
            rows = left
            if not rows:
                return

    def _part(self, batch: GenerationRequest, rows: Sequence[int]) -> GenerationRequest:
        """Some windows of a batch as a batch, with what the encoder computed of them."""
        prompts = [batch.decoder_input_ids[row] for row in rows]
        cross = rows_of(batch.bundle.decoder, batch.cross, np.array(rows))
        return replace(batch.of_rows(rows), decoder_input_ids=prompts, cross=cross)

    def _at(self, batch: GenerationRequest, temperature: float, timed: Sequence[bool]) -> GenerationRequest:
        """The batch at a temperature, with the rule of timestamps for `timed` rows (B)."""
        config, rule = batch.config, None
        if temperature > 0:
            config = replace(config, do_sample=True, temperature=float(temperature))
            config = replace(config, num_beams=1, num_beam_groups=1)
        else:
            config = replace(config, do_sample=False, temperature=1.0)
        if any(timed) and self.special.no_timestamps is not None:
            end = (*config.eos_token_id, 0)[0]
            rule = TimestampRule(self.special.no_timestamps, end, self.special.max_initial, timed)
        likely = self.thresholds.log_prob is not None
        recorded = likely and not config.do_sample and config.num_beams == 1
        return replace(batch, config=config, rule=rule, log_probs=recorded)

    def _generated(
        self, batch: GenerationRequest, recordings: Sequence[Recording], index: int
    ) -> tuple[list[list[int]], list[float | None]]:
        """The new tokens of each window, and their mean log-probability where a threshold needs it."""
        results = [Generated() for _ in recordings]
        rngs: list[np.random.Generator] = []
        if batch.config.do_sample:  # independent of the batch
            keys = [(one.place, one.piece, one.seek, index) for one in recordings]
            seeds = [np.random.SeedSequence(self.entropy, spawn_key=key) for key in keys]
            rngs = [np.random.default_rng(seed) for seed in seeds]
        for _ in generation.run(batch, results, rngs):
            pass
        tokens = [result.tokens for result in results]
        if self.thresholds.log_prob is None:
            return tokens, [None] * len(tokens)
        rows = [result.log_probs for result in results]
        means = map(np.mean, rows if batch.log_probs else shaped_log_probs(batch, tokens))
        return tokens, [float(mean) for mean in means]
