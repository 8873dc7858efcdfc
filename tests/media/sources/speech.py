"""Make sounds like speech for tests of loudness: bursts of coloured noise with pauses, at a given level."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import write_wave
from tests.media.sources.numbered import constant

Floats = npt.NDArray[np.float64]
RATE = 48_000
SECONDS = 12.0
_WORD_S, _PAUSE_S = 0.35, 0.15
# A low-pass filter shapes the noise like a voice, which has little sound above 8 kHz.
_COLOUR, _TAPS = 0.95, 64
_MOST = 1.5  # the peak, as a multiple of the level


def speech(level: float, *, seconds: float = SECONDS, seed: int = 1) -> Floats:
    """Return imitated speech: bursts of noise with pauses between them.

    The bursts have about this level in dBFS. The peaks of the bursts are clipped, as in a voice that was
    recorded with a compressor.
    """
    noise = np.random.default_rng(seed).standard_normal(round(seconds * RATE))
    filtered = np.convolve(noise, _COLOUR ** np.arange(_TAPS), "same")
    dark = np.convolve(filtered, _COLOUR ** np.arange(_TAPS), "same")
    times = np.arange(len(dark)) / RATE
    even = np.clip(dark / dark.std(), -_MOST, _MOST)
    words: Floats = np.where(times % (_WORD_S + _PAUSE_S) < _WORD_S, even, 0.0)
    return 10 ** (level / 20) * words


def podcast(sources: Sources, *, rate: int = RATE) -> Path:
    """Return two voices, one in each channel, as a quiet stereo WAV file."""
    voices = np.vstack([speech(-32.0, seed=1), 0.8 * speech(-32.0, seed=2)])
    wave = sources.get("podcast.wav", lambda path: write_wave(path, voices, RATE))
    if rate == RATE:
        return wave
    return sources.get(f"podcast-{rate}.wav", lambda path: ffmpeg(f"-i {wave} -ar {rate} {path}"))


def podcast_with_cover(sources: Sources) -> Path:
    """Return the podcast as MP3 with a cover picture and tags."""
    wave = podcast(sources)
    cover = "-f lavfi -i testsrc2=size=64x64:rate=1:duration=1"
    maps = "-map 0:a -map 1:v -c:a libmp3lame -b:a 192k -c:v mjpeg -frames:v 1 -disposition:v attached_pic"
    tags = "-id3v2_version 3 -metadata title=Episode -metadata artist=Voices"
    return sources.get("podcast.mp3", lambda path: ffmpeg(f"-i {wave} {cover} {maps} {tags} {path}"))


def spiky(sources: Sources) -> Path:
    """Return quiet speech at two levels, with three clicks of nearly full scale, as a stereo file."""
    voice = np.concatenate([speech(-30.0, seed=3), speech(-38.0, seed=4)])
    for place in (2.1, 9.1, 15.1):
        start = round(place * RATE)
        voice[start : start + 96] = 0.9 * np.sin(np.pi * np.arange(96) / 12)
    both = np.vstack([voice, voice])
    return sources.get("spiky.wav", lambda path: write_wave(path, both, RATE))


def two_levels(sources: Sources) -> Path:
    """Return speech that is quiet for the first 6 s and loud for the next 6 s, in mono."""
    voice = np.concatenate([speech(-36.0, seconds=6.0), speech(-16.0, seconds=6.0)])
    return sources.get("two-levels.wav", lambda path: write_wave(path, voice[np.newaxis], RATE))


def silence(sources: Sources) -> Path:
    return sources.get("silence.wav", lambda path: write_wave(path, np.zeros((2, RATE)), RATE))


def surround_speech(sources: Sources) -> Path:
    """Return a voice in the centre of 5.1, with quieter voices in the other channels, as FLAC in MKV."""
    levels = (-40.0, -40.0, -26.0, -60.0, -46.0, -46.0)
    channels = np.vstack([speech(level, seed=seed) for seed, level in enumerate(levels)])

    def generate(path: Path) -> None:
        wave = path.with_name(f"{path.name}.wav")
        write_wave(wave, channels, RATE)
        ffmpeg(f"-channel_layout 5.1 -i {wave} -c:a flac {path}")

    return sources.get("surround-speech.mkv", generate)


def two_loud_languages(sources: Sources) -> Path:
    """Return a film with a quiet English and a loud German voice."""
    film = constant(sources)

    def generate(path: Path) -> None:
        waves = [path.with_name(f"{path.name}-{place}.wav") for place in range(2)]
        for wave, level in zip(waves, (-34.0, -14.0), strict=True):
            voice = speech(level, seconds=2.0)
            write_wave(wave, np.vstack([voice, voice]), RATE)
        tags = "-metadata:s:a:0 language=eng -metadata:s:a:1 language=deu"
        inputs = " ".join(f"-i {wave}" for wave in waves)
        ffmpeg(f"-i {film} {inputs} -map 0:v -map 1:a -map 2:a -c:v copy -c:a aac -b:a 192k {tags} {path}")

    return sources.get("two-loud-languages.mp4", generate)
