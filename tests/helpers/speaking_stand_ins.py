"""A small Whisper that has memorised the recordings of a page, and these recordings."""

import json
import wave
from pathlib import Path

import numpy as np
import torch
import transformers

from helpers import whisper_cases
from helpers.whisper_cases import (
    END,
    ENGLISH,
    FIRST_TIME,
    FRENCH,
    NO_TIMESTAMPS,
    RATE,
    START,
    TRANSCRIBE,
    TRANSLATE,
)

SECONDS = 6  # of a window
SETTINGS = {"suppress_tokens": [], "begin_suppress_tokens": [], "sequence_bias": None, "max_length": 64}
# Recording -> the seed of its sound, its language, and its segments by task: start, end, text.
SPOKEN = {
    "talk.wav": (
        0,
        ENGLISH,
        {TRANSCRIBE: [(0.0, 2.4, " Good morning and welcome."), (2.4, 5.2, " The ferry leaves at nine.")]},
    ),
    "interviews/anna.wav": (1, ENGLISH, {TRANSCRIBE: [(0.0, 2.0, " I was born by the sea.")]}),
    "interviews/ben.wav": (2, ENGLISH, {TRANSCRIBE: [(0.0, 3.0, " We sold fish and bread.")]}),
    "bonjour.wav": (
        3,
        FRENCH,
        {
            TRANSCRIBE: [(0.0, 1.8, " Bonjour tout le monde.")],
            TRANSLATE: [(0.0, 1.8, " Hello everyone.")],
        },
    ),
}


def recordings(folder: Path) -> None:
    """Write the recordings as WAV files."""
    for name in SPOKEN:
        (folder / name).parent.mkdir(exist_ok=True)
        with wave.open(str(folder / name), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes((_sound(name) * 2**14).astype("<i2").tobytes())


def _sound(name: str) -> np.ndarray:
    seed, _, segments = SPOKEN[name]
    return np.clip(whisper_cases.sound(segments[TRANSCRIBE][-1][1] + 0.3, seed), -1, 1)


def whisper(folder: Path) -> None:
    """A Whisper that has memorised the recordings, with timestamps and without."""
    whisper_cases.save(folder, SECONDS, settings=SETTINGS)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    rows, features = [], []
    for name, (_, language, tasks) in SPOKEN.items():
        sound = extractor(_sound(name), sampling_rate=RATE, return_tensors="np").input_features[0]
        for task, segments in tasks.items():
            timed, plain = [], [NO_TIMESTAMPS]
            for start, end, text in segments:
                ids = tokenizer.encode(text, add_special_tokens=False)
                timed += [FIRST_TIME + round(start * 50), *ids, FIRST_TIME + round(end * 50)]
                plain += ids
            rows += [[START, language, task, *tokens, END] for tokens in (timed, plain)]
            features += [sound, sound]
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder)
    _learn(model, rows, torch.tensor(np.stack(features)))
    model.save_pretrained(folder)
    settings = whisper_cases.generation_settings(**SETTINGS)
    (folder / "generation_config.json").write_text(json.dumps(settings))


def _learn(model: torch.nn.Module, rows: list[list[int]], features: torch.Tensor) -> None:
    """Train until each token is predicted with certainty, except those that are always given."""
    width = max(map(len, rows))
    ids = torch.tensor([row + [END] * (width - len(row)) for row in rows])
    labels = torch.tensor([row[1:] + [-100] * (width - len(row) + 1) for row in rows])
    labels[:, 1] = -100  # the task
    labels[1::2, 2] = -100  # the token for no timestamps
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(400):
        logits = model(input_features=features, decoder_input_ids=ids).logits.flatten(0, 1)
        losses = torch.nn.functional.cross_entropy(logits, labels.flatten(), reduction="none")
        if losses.max() < 0.3:  # e^-0.3 > 1/2
            return
        optimizer.zero_grad()
        losses.sum().div((labels >= 0).sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    raise AssertionError(f"not learned: a loss of {losses.max():.3f}")
