"""Read beeps with their times, and the level of a sine in each channel."""

import numpy as np

from tests.media.readers.media import Floats, Media, sound
from tests.media.sources.flashes import BEEP_HZ

# The envelope is averaged over two periods of the beep.
_WINDOW_SECONDS = 2 / BEEP_HZ
_LEAST_SILENCE_SECONDS = 0.1


def beeps(media: Media, stream: int = 0) -> list[float]:
    """Return the time at which each beep begins, to about 0.1 ms.

    Demodulate the beep at its frequency, and average the envelope over a window. At the start of a beep, the
    averaged envelope rises in a straight line, and has half of the beep's level exactly when the beep begins.
    A lossy encoder spreads noise before a beep, but this noise is far below half of the level.
    """
    found = sound(media, stream)
    rate, samples = found.sample_rate, found.samples[0]
    window = round(_WINDOW_SECONDS * rate)
    padded = np.concatenate((np.zeros(window), samples, np.zeros(window)))
    carrier = np.exp(-2j * np.pi * BEEP_HZ * np.arange(len(padded)) / rate)
    envelope = np.abs(np.convolve(padded * carrier, np.ones(window) / window, "same"))
    half = np.quantile(envelope[envelope > envelope.max() / 4], 0.5) / 2
    rising = np.flatnonzero((envelope[:-1] < half) & (envelope[1:] >= half))
    exact = rising + (half - envelope[rising]) / (envelope[rising + 1] - envelope[rising])
    # `convolve` puts the centre of a window with an even length half a sample too late.
    samples_late = window - (0.5 if window % 2 == 0 else 0.0)
    return _apart(found.first_seconds + (exact - samples_late) / rate)


def _apart(times: Floats) -> list[float]:
    """Return the times, without those that follow another time too closely."""
    kept: list[float] = []
    for seconds in times:
        if not kept or seconds - kept[-1] >= _LEAST_SILENCE_SECONDS:
            kept.append(float(seconds))
    return kept


def sine_levels(media: Media, hertz: float, stream: int = 0) -> list[float]:
    """Return the amplitude of a sine in each channel: 1.0 is the full level."""
    found = sound(media, stream)
    # A tenth of a second at each end is left out, because encoders add silence there.
    margin = found.sample_rate // 10
    samples = found.samples[:, margin:-margin]
    window = np.hanning(samples.shape[1])
    carrier = np.exp(-2j * np.pi * hertz * np.arange(samples.shape[1]) / found.sample_rate)
    levels = 2 * np.abs(samples @ (carrier * window)) / window.sum()
    return [float(level) for level in levels]


def decibels(level: float) -> float:
    """Return a level in decibels relative to full scale, which is 0."""
    return 20 * float(np.log10(max(level, 1e-6)))


def peak(media: Media, stream: int = 0) -> float:
    return float(np.abs(sound(media, stream).samples).max())
