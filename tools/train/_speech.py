"""Speech of number words and dates: texts from num2words, spoken by espeak-ng and flite, two Debian packages.

espeak-ng speaks with its own variants of the English voices and with random ones; the variants whose name
is held out, and a twentieth of the texts, are in no training data. flite speaks none of the training data.
"""

import calendar
import io
import re
import subprocess
import wave
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import _espeak
import numpy as np
from num2words import num2words
from scipy.signal import resample_poly

RATE = 16000
DIALECTS = (
    "en-us",
    "en-us-nyc",
    "en",
    "en-gb-scotland",
    "en-gb-x-rp",
    "en-gb-x-gbclan",
    "en-gb-x-gbcwmd",
    "en-029",
)
FLITE = ("kal16", "awb", "rms", "slt")  # the voices of flite, which are made of recorded speech
RANDOM_VOICES = 230  # with its own, fewer than the 350 that espeak-ng lists
RANDOM_SHARE = 0.6  # of the training utterances
LOUDEST = 30000  # of 16 bits
QUIET = 0.02  # of the loudest sample, after which the speech has ended
MONTHS, WEEKDAYS = calendar.month_name[1:], calendar.day_name
Random = np.random.Generator


@dataclass(frozen=True)
class Utterance:
    """A text, and its speech as 16-bit samples (N) at RATE.

    `marks` (M,2) pairs places of the text with samples: where words begin, and the end of the text.
    """

    text: str
    voice: str
    samples: np.ndarray
    marks: np.ndarray


def plain(text: str) -> str:
    """Letters and single spaces, in lower case."""
    return " ".join(re.sub("[^a-z]+", " ", text.lower()).split())


def number(random: Random, digits: int) -> int:
    """A random number, uniform over the number of digits."""
    count = int(random.integers(1, digits + 1))
    return int(random.integers(10 ** (count - 1) if count > 1 else 0, 10**count))


def year(random: Random) -> str:
    """A year of 1100 to 2099 in words."""
    return num2words(int(random.integers(1100, 2100)), to="year")


def date(random: Random) -> str:
    """A date in words: a day and month, in British or American order, at times with a weekday or a year."""
    month = str(random.choice(MONTHS))
    day = num2words(int(random.integers(1, 32)), to="ordinal")
    text = random.choice([f"{month} the {day}", f"{month} {day}", f"the {day} of {month}"])
    if random.random() < 0.3:
        text = f"{random.choice(WEEKDAYS)} {text}"
    return f"{text} {year(random)}" if random.random() < 0.5 else text


def sentence(random: Random) -> str:
    """A random text of number words or a date."""
    kind = random.choice(["number", "ordinal", "date", "year", "digits"], p=[0.4, 0.1, 0.3, 0.1, 0.1])
    if kind == "number":
        return plain(num2words(number(random, 6)))
    if kind == "ordinal":
        return plain(num2words(number(random, 4), to="ordinal"))
    if kind == "digits":
        count = int(random.integers(2, 7))
        return " ".join(num2words(int(digit)) for digit in random.integers(0, 10, count))
    return plain(date(random) if kind == "date" else year(random))


def held_out(text: str) -> bool:
    """Tell whether a text is held out: one in twenty of those of three words or more."""
    return text.count(" ") >= 2 and zlib.crc32(text.encode()) % 20 == 0


def variants(data: Path, held: bool) -> list[str]:
    """espeak-ng's variants of a voice, without those held out, or those alone: one in six of their families.

    "klatt2" and "klatt3" are of one family.
    """
    names = sorted(path.name for path in (data / "voices/!v").iterdir() if not path.name.startswith("random"))
    return [name for name in names if (zlib.crc32(name.rstrip("0123456789").encode()) % 6 == 0) == held]


def random_variant(random: Random) -> str:
    """A file of espeak-ng that describes a random voice: pitch, formants, breath, roughness."""
    high = random.random()  # from a low voice of a long vocal tract to a high one of a short tract
    pitch, tract = 70 + 150 * high * random.uniform(0.7, 1.2), 84 + 32 * high + random.normal(0, 5)
    lines = ["language variant", f"pitch {pitch:.0f} {pitch * random.uniform(1.1, 1.7):.0f}"]
    for formant in range(9):
        height, strength, width = (
            tract + random.normal(0, 5),
            random.uniform(60, 130),
            random.uniform(70, 150),
        )
        lines.append(f"formant {formant} {height:.0f} {strength:.0f} {width:.0f}")
    lines += [f"flutter {random.integers(0, 20)}", f"roughness {random.integers(0, 5)}"]
    lines.append(f"consonants {random.uniform(60, 140):.0f} {random.uniform(60, 140):.0f}")
    if random.random() < 0.3:
        lines.append(f"klatt {random.integers(1, 6)}")
    if random.random() < 0.4:
        lines.append("breath " + " ".join(str(random.integers(0, 12)) for _ in range(8)))
    if random.random() < 0.3:
        lines.append(f"echo {random.integers(20, 150)} {random.integers(5, 25)}")
    if random.random() < 0.5:
        lines.append("stressAdd " + " ".join(str(random.integers(-20, 40)) for _ in range(8)))
    return "\n".join(lines) + "\n"


def prepare_voices(folder: Path) -> Path:
    """Copy espeak-ng's English voices into `folder` and add the random ones; the copy's path."""
    data = _espeak.english_voices(folder)
    random = np.random.default_rng(0)
    for index in range(RANDOM_VOICES):
        (data / f"voices/!v/random{index}").write_text(random_variant(random))
    return data


def espeak(random: Random, data: Path, names: Sequence[str], text: str) -> Utterance:
    """`text` in one of the variants `names`, a random dialect, speed and pitch."""
    voice = f"{random.choice(DIALECTS)}+{random.choice(names)}"
    speed, pitch, gap = random.integers(110, 200), random.integers(20, 80), random.integers(0, 6)
    speech = _espeak.speak(data, text, voice, int(speed), int(pitch), int(gap))
    samples = at_rate(speech.samples, speech.rate)
    last = np.flatnonzero(np.abs(samples) > QUIET * LOUDEST)[-1]
    marks = [(start, sample * RATE / speech.rate) for start, sample in speech.starts if sample < last]
    return Utterance(text, voice, samples, np.array([*marks, (len(text), last)]))


def flite(text: str, voice: str, speed: float = 1.0) -> Utterance:
    """`text` in a voice of flite."""
    settings = ["-voice", voice, "--setf", f"duration_stretch={1 / speed:.3f}"]
    command = ["flite", *settings, "-t", text, "-o", "/dev/stdout"]
    written = subprocess.run(command, capture_output=True, check=True).stdout
    with wave.open(io.BytesIO(written)) as file:
        samples = at_rate(np.frombuffer(file.readframes(file.getnframes()), "<i2"), file.getframerate())
    return Utterance(text, f"flite {voice}", samples, np.array([(0, 0), (len(text), samples.size)]))


def at_rate(samples: np.ndarray, rate: int) -> np.ndarray:
    """16-bit samples of `rate` at RATE, of one loudness."""
    divisor = np.gcd(rate, RATE)
    samples = resample_poly(samples / 32768, RATE // divisor, rate // divisor)
    return (samples * (LOUDEST / max(np.abs(samples).max(), 1e-3))).astype(np.int16)


def train_set(folder: Path, count: int) -> list[Utterance]:
    """Utterances to train on; `folder` caches the sound."""
    data = prepare_voices(folder)
    shipped, generated = variants(data, held=False), [f"random{index}" for index in range(RANDOM_VOICES)]

    def utterance(random: Random) -> Utterance:
        text = sentence(random)
        while held_out(text):
            text = sentence(random)
        return espeak(random, data, generated if random.random() < RANDOM_SHARE else shipped, text)

    return _cached(folder / f"train-{count}.npz", count, utterance)


def test_set(folder: Path, count: int) -> list[Utterance]:
    """Held-out texts in held-out voices of espeak-ng."""
    data = prepare_voices(folder)
    names = variants(data, held=True)
    return _cached(
        folder / f"test-{count}.npz", count, lambda random: espeak(random, data, names, _heldout(random))
    )


def flite_set(folder: Path, count: int) -> list[Utterance]:
    """Held-out texts in the voices of flite."""
    return _cached(
        folder / f"flite-{count}.npz",
        count,
        lambda random: flite(_heldout(random), str(random.choice(FLITE)), random.uniform(0.85, 1.15)),
    )


def write_wave(path: Path, samples: np.ndarray) -> None:
    """Write 16-bit samples at RATE."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())


def _heldout(random: Random) -> str:
    while not held_out(text := sentence(random)):
        pass
    return text


def _cached(path: Path, count: int, utterance) -> list[Utterance]:
    """`count` utterances, each a function of a generator of its own; the file at `path` stores them."""
    if not path.is_file():
        rows = []
        for index in range(count):
            rows.append(utterance(np.random.default_rng([zlib.crc32(path.stem.encode()), index])))
            if (index + 1) % 2000 == 0:
                print(f"{index + 1} of {count} utterances spoken", flush=True)
        np.savez(
            path,
            samples=np.concatenate([row.samples for row in rows]),
            lengths=[row.samples.size for row in rows],
            marks=np.concatenate([row.marks for row in rows]),
            counts=[len(row.marks) for row in rows],
            texts=[row.text for row in rows],
            voices=[row.voice for row in rows],
        )
    stored = np.load(path)
    sounds = np.split(stored["samples"], np.cumsum(stored["lengths"])[:-1])
    marks = np.split(stored["marks"], np.cumsum(stored["counts"])[:-1])
    texts, voices = stored["texts"].tolist(), stored["voices"].tolist()
    return [Utterance(*row) for row in zip(texts, voices, sounds, marks, strict=True)]
