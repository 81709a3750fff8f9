"""The sounds of a command: files, folders of files, and standard input; and where their results go."""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from txexport.cli.inputs import Input, Inputs
from txexport.errors import InputError

if TYPE_CHECKING:
    from txexport.runtime.preprocessing.sound_files import RawPCM

# Endings of sound files in a folder; a file that is named itself may have any.
ENDINGS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".caf", ".w64")


@dataclass(frozen=True)
class Sound:
    """A sound file, and the path of its result in a folder of results, without an ending.

    `error` is that of reading the file's name.
    """

    path: Path
    result: Path
    error: InputError | None = None


def listed(inputs: Inputs) -> list[Sound]:
    """The sounds of arguments; those of a folder are all sound files below it, in the order of their names.

    Raises InputError for a folder without sounds.
    """
    sounds: list[Sound] = []
    for one in inputs:
        if isinstance(one.value, InputError):
            sounds.append(Sound(Path(), Path(), one.value))
        elif (path := Path(one.value)).is_dir():
            below = sorted(_below(path))
            if not below:
                raise InputError(f"folder {path} has no sound files, expected some of {', '.join(ENDINGS)}")
            sounds += [Sound(file, _plain(file.relative_to(path))) for file in below]
        else:
            sounds.append(Sound(path, _plain(Path(path.name))))
    return sounds


def _below(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names if name.lower().endswith(ENDINGS))


def _plain(path: Path) -> Path:
    """A path without the ending of a sound file."""
    return path.with_suffix("") if path.suffix.lower() in ENDINGS else path


def entries(sounds: Sequence[Sound]) -> Iterator[Input]:
    """Each sound as an input, with the error of opening it where it cannot be opened."""
    from txexport.runtime.preprocessing.sound_files import open_sound

    for number, sound in enumerate(sounds, 1):
        if sound.error is not None:
            yield Input(number, sound.error)
            continue
        try:
            if not sound.path.is_fifo():  # which can be read only once
                with open_sound(sound.path):
                    pass
            yield Input(number, sound)
        except InputError as error:
            yield Input(number, error)


def targets(sounds: Sequence[Sound], folder: Path, ending: str) -> dict[Sound, Path]:
    """The result's path of each sound. Raises UsageError where two would have the same."""
    paths: dict[Sound, Path] = {}
    taken: dict[Path, Sound] = {}
    for sound in (one for one in sounds if one.error is None):
        path = folder / sound.result.with_name(f"{sound.result.name}{ending}")
        if path in taken:
            raise click.UsageError(f"{taken[path].path} and {sound.path} would both be written to {path}")
        taken[path] = sound
        paths[sound] = path
    return paths


def standard_input(raw: int | None) -> "io.IOBase | RawPCM":
    """Standard input: raw samples at a rate, a WAV pipe, or a file of another format, read completely."""
    from txexport.runtime.preprocessing.sound_files import RawPCM

    stream: Any = sys.stdin.buffer
    if raw is not None:
        return RawPCM(stream, raw)
    if stream.seekable() or stream.peek(4)[:4] == b"RIFF":
        return stream
    return io.BytesIO(stream.read())
