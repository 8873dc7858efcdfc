"""Small valid films and sounds in every container. The hostile files are derived from them."""

from collections.abc import Mapping

from tests.media.sources.cache import Sources, ffmpeg

_PICTURES = "-f lavfi -i testsrc2=size=64x48:rate=25:duration=1"
_SOUND = "-f lavfi -i sine=440:duration=1:sample_rate=48000"
_LOSSY = "-c:v libx264 -preset ultrafast -g 5 -pix_fmt yuv420p"
_FILM = f"{_PICTURES} {_SOUND} {_LOSSY} -c:a aac"
_MPEG2 = "-c:v mpeg2video -g 5"

# The arguments of ffmpeg. The extension selects the container.
RECIPES: Mapping[str, str] = {
    "film.mp4": f"{_FILM} -movflags +faststart",
    "index-last.mp4": _FILM,
    "fragments.mp4": f"{_FILM} -movflags +frag_keyframe+empty_moov+default_base_moof",
    "hevc.mp4": f"{_PICTURES} {_SOUND} -c:v libx265 -preset ultrafast -x265-params log-level=error -c:a aac",
    "film.mov": f"{_PICTURES} {_SOUND} -c:v mjpeg -pix_fmt yuvj420p -c:a pcm_s16le",
    "film.mkv": f"{_PICTURES} {_SOUND} {_LOSSY} -c:a libopus",
    "film.webm": f"{_PICTURES} {_SOUND} -c:v libvpx -deadline realtime -g 5 -c:a libvorbis",
    "film.ts": f"{_FILM} -f mpegts",
    "film.mpg": f"{_PICTURES} {_SOUND} {_MPEG2} -c:a mp2",
    "film.avi": f"{_PICTURES} {_SOUND} -c:v mpeg4 -g 5 -c:a libmp3lame",
    "film.flv": f"{_PICTURES} {_SOUND} {_LOSSY} -c:a aac",
    "film.asf": f"{_PICTURES} {_SOUND} -c:v wmv2 -g 5 -c:a wmav2",
    "film.ogg": f"{_PICTURES} {_SOUND} -c:v libtheora -g 5 -c:a libvorbis",
    "film.mxf": f"{_PICTURES} {_SOUND} {_MPEG2} -c:a pcm_s16le",
    "sound.wav": f"{_SOUND} -c:a pcm_s16le",
    "sound.w64": f"{_SOUND} -c:a pcm_s16le",
    "sound.aiff": _SOUND,
    "sound.caf": f"{_SOUND} -c:a pcm_s16be",
    "sound.mp3": f"{_SOUND} -c:a libmp3lame",
    "sound.aac": f"{_SOUND} -c:a aac",
    "sound.flac": f"{_SOUND} -c:a flac",
    "sound.ogg": f"{_SOUND} -c:a libvorbis",
    "sound.m4a": f"{_SOUND} -c:a aac",
}
# MPEG-TS files whose clocks do not begin near 0. The second clock wraps, because it has 33 bits.
SHIFTS = {"film-at-14-hours.ts": 50_000.0, "film-that-wraps.ts": 95_441.8}


class Originals:
    """The bytes of valid files. Each file is encoded on its first use.

    Hostile files refer to `outside_path` and `outside_url`. No process is allowed to open this path or URL.
    """

    def __init__(self, sources: Sources, outside_path: bytes, outside_url: bytes) -> None:
        self._sources = sources
        self.outside_path, self.outside_url = outside_path, outside_url
        self._read: dict[str, bytes] = {}

    def __call__(self, name: str) -> bytes:
        if name not in self._read:
            words = RECIPES.get(name) or f"{_FILM} -output_ts_offset {SHIFTS[name]} -f mpegts"
            path = self._sources.get(f"hostile-{name}", lambda to: ffmpeg(f"{words} {to}"))
            self._read[name] = path.read_bytes()
        return self._read[name]
