"""Make films with sound and subtitles: 5.1 with a different sine in each channel, and two languages."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.packet import Packet
from av.stream import Stream

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import write_wave
from tests.media.sources.numbered import constant

# The channels of 5.1 in the order of the file, each with the frequency of its sine in hertz.
SURROUND = {"FL": 400, "FR": 600, "FC": 900, "LFE": 60, "BL": 1300, "BR": 1700}
LANGUAGES = {"eng": 440, "deu": 660}
_LEVEL = 0.25
_SECONDS, _SAMPLE_RATE = 2.0, 48_000
CUES = ('Tom & Jerry <3 "cheese"', "1 < 2 > 0 & so on")


def _sine(hertz: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    times = np.arange(round(_SECONDS * _SAMPLE_RATE)) / _SAMPLE_RATE
    return _LEVEL * np.sin(2 * np.pi * hertz * times)


def surround(sources: Sources) -> Path:
    """Return a film as MKV with 5.1 FLAC, a different sine in each channel."""
    film = constant(sources)

    def generate(path: Path) -> None:
        sound = path.with_name(f"{path.name}.wav")
        write_wave(sound, np.vstack([_sine(hertz) for hertz in SURROUND.values()]), _SAMPLE_RATE)
        ffmpeg(f"-i {film} -channel_layout 5.1 -i {sound} -map 0:v -map 1:a -c:v copy -c:a flac {path}")

    return sources.get("surround.mkv", generate)


def two_languages(sources: Sources, container: str = "mkv") -> Path:
    """Return a film with English sound (440 Hz, the default) and German sound (660 Hz)."""
    film = constant(sources)
    sounds = " ".join(f"-f lavfi -i sine={hertz}:duration={_SECONDS}" for hertz in LANGUAGES.values())
    tags = " ".join(f"-metadata:s:a:{place} language={name}" for place, name in enumerate(LANGUAGES))
    words = (
        f"-i {film} {sounds} -map 0:v -map 1:a -map 2:a -c:v copy -c:a aac {tags} -disposition:a:0 default"
    )
    return sources.get(f"two-languages.{container}", lambda path: ffmpeg(f"{words} {path}"))


def subtitled_in_two_languages(sources: Sources) -> Path:
    """Return the film of `two_languages` with the English subtitles of `subtitled`, as MKV."""
    film, texts = two_languages(sources), subtitled(sources, "srt")
    words = f"-i {film} -i {texts} -map 0 -map 1:s -c copy"
    return sources.get("subtitled-in-two-languages.mkv", lambda path: ffmpeg(f"{words} {path}"))


def subtitled(sources: Sources, codec: str) -> Path:
    """Return a film with English subtitles as `srt` or `ass` (MKV), or `mov_text` (MP4).

    The cues, each of 0.5 s, begin at 0.25 s and 1.25 s. The texts of the cues contain the characters that
    WebVTT escapes.
    """
    film, container = constant(sources), "mp4" if codec == "mov_text" else "mkv"

    def generate(path: Path) -> None:
        text = path.with_name(f"{path.name}.srt")
        times = [f"00:00:0{place},250 --> 00:00:0{place},750" for place in range(len(CUES))]
        cues = [f"{place + 1}\n{time}\n{CUES[place]}\n" for place, time in enumerate(times)]
        text.write_text("\n".join(cues))
        ffmpeg(f"-i {film} -i {text} -c:v copy -c:s {codec} -metadata:s:s:0 language=eng {path}")

    return sources.get(f"subtitled-{codec}.{container}", generate)


def subtitled_with_longer_sound(sources: Sources) -> Path:
    """Return the film of `subtitled`, which lasts 2 s, with sound of 2.005 s."""
    film, sound = subtitled(sources, "srt"), "sine=440:sample_rate=48000:duration=2.005"
    words = f"-i {film} -f lavfi -i {sound} -map 0 -map 1 -c:v copy -c:s copy -c:a flac"
    return sources.get("subtitled-longer-sound.mkv", lambda path: ffmpeg(f"{words} {path}"))


def write_cues(path: Path, like: Path, cues: Iterable[tuple[int, int, bytes]]) -> None:
    """Write a copy of the film `like` with other subtitles: packets of (start, length, bytes), in ms."""
    with av.open(str(like)) as given, av.open(str(path), "w") as made:
        film, texts = given.streams.video[0], given.streams.subtitles[0]
        pictures = made.add_stream_from_template(film)
        stream: Stream = made.add_stream_from_template(texts)
        for picture in given.demux(film):
            if picture.size:
                picture.stream = pictures
                made.mux(picture)
        for start, length, data in cues:
            text = Packet(data)
            text.pts = text.dts = start
            text.duration, text.time_base, text.stream = length, Fraction(1, 1000), stream
            made.mux(text)
