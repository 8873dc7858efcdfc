"""Measure loudness, loudness range and true peak with pyloudnorm and SciPy, independently of ffmpeg."""

import numpy as np
import pyloudnorm
from scipy.signal import resample_poly

from tests.media.readers.media import Media, sound

_OVERSAMPLING = 4  # ITU-R BS.1770, annex 2


def loudness(media: Media, stream: int = 0) -> float:
    """Return the integrated loudness of a sound of at most five channels, in LUFS."""
    found = sound(media, stream)
    return float(pyloudnorm.Meter(found.sample_rate).integrated_loudness(found.samples.T))


def loudness_range(media: Media, stream: int = 0) -> float:
    """Return the loudness range in LU (EBU Tech 3342)."""
    found = sound(media, stream)
    return float(pyloudnorm.Meter(found.sample_rate).loudness_range(found.samples.T))


def true_peak(media: Media, stream: int = 0) -> float:
    """Return the highest true peak of all channels in dBTP."""
    oversampled = resample_poly(sound(media, stream).samples, _OVERSAMPLING, 1, axis=1)
    return 20 * float(np.log10(np.abs(oversampled).max()))
