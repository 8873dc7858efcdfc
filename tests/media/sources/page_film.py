"""Make the source for the examples of docs/media.md: HDR, 5.1 sound, two languages and subtitles."""

from pathlib import Path

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.sounds import SURROUND

# The examples use the part from 12.5 s to 27 s. With few pictures per second, encoding such a film is fast.
SECONDS, FPS = 28, 2
SIZE = (640, 360)
TITLE, SPOKEN = "Title of the source", "Tom & Jerry"
GERMAN_HERTZ = 660
_HDR = (
    "-vf format=yuv420p10le,setparams=color_trc=smpte2084:color_primaries=bt2020:colorspace=bt2020nc "
    "-c:v libx265 -preset ultrafast -x265-params log-level=error:keyint=4:max-cll=1000,400:"
    "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50)"
)


def page_film(sources: Sources) -> Path:
    """Return a film of 28 s as MKV. Each channel of each language has a sine of a different frequency."""
    width, height = SIZE
    pictures = f"-f lavfi -i testsrc2=size={width}x{height}:rate={FPS}:duration={SECONDS}"
    sines = "|".join(f"0.2*sin({hertz}*2*PI*t)" for hertz in SURROUND.values())
    english = f"-f lavfi -i aevalsrc='{sines}':c=5.1:s=48000:d={SECONDS}"
    german = f"-f lavfi -i sine={GERMAN_HERTZ}:duration={SECONDS}:sample_rate=48000"
    maps = "-map 0 -map 1 -map 2 -map 3 -c:a:0 flac -c:a:1 aac -c:s srt"
    tags = (
        f"-metadata title='{TITLE}' -metadata:s:a:0 language=eng -metadata:s:a:1 language=ger "
        "-metadata:s:s:0 language=eng -disposition:a:0 default"
    )

    def generate(path: Path) -> None:
        text = path.with_name(f"{path.name}.srt")
        text.write_text(f"1\n00:00:01,000 --> 00:00:05,000\n{SPOKEN}\n")
        ffmpeg(f"{pictures} {english} {german} -i {text} {_HDR} {maps} {tags} {path}")

    return sources.get("page-film.mkv", generate)
