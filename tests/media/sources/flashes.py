"""A film with flashes (white pictures) and beeps (1 kHz) at the same times, and variants of its file.

The time between a flash and its beep shows whether picture and sound are in sync.
"""

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.numbered import constant, long_last_picture
from tests.media.sources.planes import X264, Plane, encode, grey

FPS = 25
SECONDS = 4.0
# All times are multiples of 40 ms, so a picture begins at each time. Only the first of these
# pictures is a keyframe.
INSTANTS = (0.0, 0.52, 1.24, 2.2, 3.32)
FLASH_PICTURES = 3
BEEP_SECONDS = 0.1
BEEP_HZ = 1000
_SIZE = (160, 90)
_BLACK, _WHITE = 16, 235


def _picture(number: int) -> Plane:
    firsts = [round(instant * FPS) for instant in INSTANTS]
    is_white = any(first <= number < first + FLASH_PICTURES for first in firsts)
    width, height = _SIZE
    return grey(np.full((height, width), _WHITE if is_white else _BLACK, np.uint8))


def beep_samples(sample_rate: int, seconds: float = SECONDS) -> npt.NDArray[np.float64]:
    """Return mono samples with a beep of half the full level at each time, and silence between the beeps."""
    times = np.arange(round(seconds * sample_rate)) / sample_rate
    samples = np.zeros_like(times)
    for instant in INSTANTS:
        sounding = (times >= instant) & (times < instant + BEEP_SECONDS)
        samples[sounding] = 0.5 * np.sin(2 * np.pi * BEEP_HZ * (times[sounding] - instant))
    return samples


def write_wave(path: Path, channels: npt.NDArray[np.float64], sample_rate: int) -> None:
    """Write samples, with a row for each channel, as a 16-bit WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(channels))
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((channels.T * 32767).round().astype("<i2").tobytes())


def beep_sound(sources: Sources, sample_rate: int = 48_000) -> Path:
    """Return only the beeps, as a stereo WAV file."""
    return sources.get(
        f"beeps-{sample_rate}.wav",
        lambda path: write_wave(path, np.vstack([beep_samples(sample_rate)] * 2), sample_rate),
    )


def flash_film(
    sources: Sources, container: str = "mp4", *, sample_rate: int = 48_000, sound: str = "aac -b:a 192k"
) -> Path:
    """Return the film with its beeps encoded as `sound`."""
    pictures = (_picture(number) for number in range(round(SECONDS * FPS)))
    source = beep_sound(sources, sample_rate)
    arguments = f"-map 0:v -map 1:a {X264} -c:a {sound}"
    return sources.get(
        f"flashes-{sample_rate}-{sound.split(maxsplit=1)[0]}.{container}",
        lambda path: encode(path, pictures, str(FPS), size=_SIZE, inputs=f"-i {source}", arguments=arguments),
    )


def late_sound(sources: Sources, container: str = "mkv", seconds: float = 2) -> Path:
    """Return the film with its sound delayed by `seconds`, without silence before the sound."""
    film = flash_film(sources, "mkv")
    shifted = f"-i {film} -itsoffset {seconds} -i {film} -map 0:v -map 1:a -c copy"
    return sources.get(f"late-sound-{seconds}.{container}", lambda path: ffmpeg(f"{shifted} {path}"))


def very_late_sound(sources: Sources, seconds: int) -> Path:
    """Return a film of tiny pictures as MKV. Its sound, a beep of 2 s, begins after `seconds`."""
    picture = f"-f lavfi -i color=size=32x32:rate=1:duration={seconds + 2}"
    sound = f"-itsoffset {seconds} -f lavfi -i sine={BEEP_HZ}:duration=2:sample_rate=48000"
    return sources.get(
        f"very-late-sound-{seconds}.mkv", lambda path: ffmpeg(f"{picture} {sound} -c:v ffv1 -c:a flac {path}")
    )


def late_picture(sources: Sources) -> Path:
    """Return the film as MKV with its pictures delayed by 1 s, without black pictures in the gap."""
    film = flash_film(sources, "mkv")
    shifted = f"-itsoffset 1 -i {film} -i {film} -map 0:v -map 1:a -c copy"
    return sources.get("late-picture.mkv", lambda path: ffmpeg(f"{shifted} {path}"))


def cut_by_copy(sources: Sources) -> Path:
    """Return the film as MP4 without its first 0.72 s. An edit list hides the pictures before that time."""
    return sources.remuxed("cut-by-copy.mp4", flash_film(sources), "", before="-ss 0.72")


def cut_inside_a_picture(sources: Sources) -> Path:
    """Return the film as MP4 without its first 0.7 s, so that half of a picture remains."""
    return sources.remuxed("cut-inside-a-picture.mp4", flash_film(sources), "", before="-ss 0.7")


def longer_sound(sources: Sources) -> Path:
    """Return the film as MP4 with sound that ends 0.3 s after the picture."""
    film, rate = flash_film(sources), 48_000

    def generate(path: Path) -> None:
        sound = path.with_name(f"{path.name}.wav")
        write_wave(sound, np.vstack([beep_samples(rate, SECONDS + 0.3)] * 2), rate)
        ffmpeg(f"-i {film} -i {sound} -map 0:v -map 1:a -c:v copy -c:a aac {path}")

    return sources.get("longer-sound.mp4", generate)


def slides_with_sound(sources: Sources) -> Path:
    """Return a film of 26 pictures as MKV with sound of 3 s. The last picture is shown for two seconds."""
    slides, rate = long_last_picture(sources), 48_000

    def generate(path: Path) -> None:
        sound = path.with_name(f"{path.name}.wav")
        write_wave(sound, np.vstack([beep_samples(rate)] * 2), rate)
        ffmpeg(f"-i {slides} -i {sound} -map 0:v -map 1:a -c:v copy -c:a aac -t 3 {path}")

    return sources.get("slides-with-sound.mkv", generate)


def sound_two_minutes_late(sources: Sources) -> Path:
    """Return a film of 60 numbered pictures, with sound that begins at 120 s, as MKV without an index."""
    baseline = X264.replace("-bf 2", "-bf 0 -profile:v baseline")
    film = constant(sources, 60, container="mkv", arguments=baseline)
    inputs = f"-i {film} -itsoffset 120 -i {beep_sound(sources)} -map 0:v -map 1:a"
    return sources.get(
        "sound-two-minutes-late.mkv", lambda path: ffmpeg(f"{inputs} -c:v copy -c:a libopus -live 1 {path}")
    )
