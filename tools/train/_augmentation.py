"""Random changes of a recording: speed, spectrum, echoes, noise and pauses."""

import numpy as np
from _speech import RATE, Random
from scipy.fft import irfft, next_fast_len, rfft, rfftfreq
from scipy.signal import fftconvolve, lfilter

ECHOED = 0.4  # of the recordings


def normalised(samples: np.ndarray) -> np.ndarray:
    """Mean 0 and variance 1, as Wav2Vec2FeatureExtractor computes them."""
    return ((samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)).astype(np.float32)


def faster(samples: np.ndarray, speed: float) -> np.ndarray:
    """The samples at another speed, pitch and formants included."""
    return np.interp(np.arange(0, samples.size - 1, speed), np.arange(samples.size), samples)


def noise(random: Random, count: int) -> np.ndarray:
    """Noise of variance 1, from white to brown."""
    values = lfilter([1], [1, -random.uniform(0, 0.98)], random.standard_normal(count))
    return values / values.std()


def coloured(random: Random, samples: np.ndarray) -> np.ndarray:
    """The samples through a filter with random gains at frequencies spaced on the mel scale."""
    size = next_fast_len(samples.size, real=True)
    mels = np.log1p(rfftfreq(size, 1 / RATE) / 700)
    decibels = np.interp(mels, np.linspace(0, mels[-1], 9), random.normal(0, random.uniform(0, 8), 9))
    return irfft(rfft(samples, size) * 10 ** (decibels / 20), size)[: samples.size]


def reverberant(random: Random, samples: np.ndarray) -> np.ndarray:
    """The samples as a small room echoes them: with an impulse response of decaying noise."""
    times = np.arange(int(0.15 * RATE)) / RATE
    response = random.standard_normal(times.size) * np.exp(-times / random.uniform(0.01, 0.05))
    response *= random.uniform(0, 1) / np.linalg.norm(response)
    return samples + fftconvolve(samples, response)[: samples.size]


def augmented(random: Random, samples: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """`samples` with another spectrum and noise, between pauses that make up `size`; and their start."""
    sound = coloured(random, samples)
    pauses = size - sound.size
    before = int(random.integers(0, pauses + 1)) if pauses else 0
    padded = np.pad(sound, (before, pauses - before))
    if random.random() < ECHOED:
        padded = reverberant(random, padded)
    decibels = random.uniform(5, 50)
    return normalised(padded + noise(random, size) * sound.std() * 10 ** (-decibels / 20)), before
