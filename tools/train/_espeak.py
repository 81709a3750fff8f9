"""Speech by the library of espeak-ng, which also says when each word begins."""

import ctypes
import ctypes.util
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

SYNCHRONOUS, CHARACTERS, UTF8 = 2, 1, 1  # constants of espeak-ng's speak_lib.h
RATE, PITCH, WORD_GAP = 1, 3, 7
WORD_EVENT = 1


class Event(ctypes.Structure):
    """espeak_EVENT of speak_lib.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(Event))


class Speech(NamedTuple):
    """16-bit samples (N) at `rate`, and pairs of a character and the sample at which its word begins."""

    samples: np.ndarray
    rate: int
    starts: list[tuple[int, int]]


class _Synthesiser:
    """The library, with the voices in `data`; it has one state, so there is one of it."""

    def __init__(self, data: Path):
        name = ctypes.util.find_library("espeak-ng")
        if name is None:
            raise click.ClickException("espeak-ng is missing; `apt-get install espeak-ng flite` installs it")
        self.library = ctypes.CDLL(name)
        self.rate = self.library.espeak_Initialize(SYNCHRONOUS, 0, str(data.parent).encode(), 0)
        if self.rate < 0:
            raise click.ClickException(f"espeak-ng finds no voices in {data}; remove the folder")
        self.pieces: list[np.ndarray] = []
        self.starts: list[tuple[int, int]] = []
        self.callback = CALLBACK(self._receive)  # the library has a pointer to it
        self.library.espeak_SetSynthCallback(self.callback)

    def _receive(self, samples, count: int, events) -> int:
        if samples and count:
            self.pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        index = 0
        while events[index].type:
            if events[index].type == WORD_EVENT:
                self.starts.append((events[index].text_position - 1, events[index].sample))
            index += 1
        return 0

    def speak(self, text: str, voice: str, settings: dict[int, int]) -> Speech:
        if self.library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise click.ClickException(f"espeak-ng has no voice {voice!r}")
        for parameter, value in settings.items():
            self.library.espeak_SetParameter(parameter, value, 0)
        self.pieces, self.starts, encoded = [], [], text.encode()
        self.library.espeak_Synth(encoded, len(encoded) + 1, 0, CHARACTERS, 0, UTF8, None, None)
        return Speech(np.concatenate(self.pieces), self.rate, self.starts)


@cache
def _synthesiser(data: Path) -> _Synthesiser:
    return _Synthesiser(data)


def speak(data: Path, text: str, voice: str, speed: int, pitch: int, gap: int) -> Speech:
    """Speak `text` in a voice of the folder `data`, at `speed` words per minute."""
    return _synthesiser(data).speak(text, voice, {RATE: speed, PITCH: pitch, WORD_GAP: gap})


def english_voices(folder: Path) -> Path:
    """Copy espeak-ng's data into `folder` without the voices of other languages; the copy's path.

    espeak-ng lists at most 349 voices, and speaks in its default voice instead of one that it does not list.
    """
    data = folder / "espeak-ng-data"
    if not data.is_dir():
        if not shutil.which("espeak-ng"):
            raise click.ClickException("espeak-ng is missing; `apt-get install espeak-ng flite` installs it")
        version = subprocess.run(
            ["espeak-ng", "--version"], capture_output=True, text=True, check=True
        ).stdout
        source = Path(re.search("Data at: *(.*)", version)[1].strip())
        shutil.copytree(source, data, ignore=shutil.ignore_patterns("mb"))
        for path in (data / "lang").rglob("*"):
            if path.is_file() and not path.name.lower().startswith("en"):
                path.unlink()
    return data
