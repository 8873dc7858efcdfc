"""Short media files for tests, whole and damaged. `clips.make(name)` encodes each on its first use."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.sandbox.sandbox import Sandbox

SECONDS = 2
_SOUND = "-f lavfi -i sine=440:duration=2"
_X264 = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"


def _film(size: str = "160x90", rate: str = "25", seconds: float = SECONDS) -> str:
    return f"-f lavfi -i testsrc2=size={size}:rate={rate}:duration={seconds}"


# The arguments between `ffmpeg` and the file's name. The extension selects the container.
_RECIPES = {
    "film.mp4": f"{_film('320x180')} {_SOUND} {_X264} -c:a aac -movflags +faststart",
    "one.mp4": f"{_film('128x72', seconds=1)} -f lavfi -i sine=440:duration=1 {_X264} -c:a aac",
    "wide-and-loud.mp4": f"{_film('640x360', seconds=3)} -f lavfi -i sine=440:duration=3 {_X264} -c:a aac",
    "long.mp4": f"{_film('160x90', seconds=9)} -f lavfi -i sine=440:duration=9 {_X264} -c:a aac",
    "silent.mp4": f"{_film()} {_X264}",
    "sound.m4a": f"{_SOUND} -c:a aac",
    "sound.mp3": f"{_SOUND} -c:a libmp3lame",
    "sound.wav": f"{_SOUND} -c:a pcm_s16le",
    "sound.flac": f"{_SOUND} -c:a flac",
    "sound.ogg": f"{_SOUND} -c:a libvorbis",
    "film.mkv": f"{_film()} {_SOUND} {_X264} -c:a libopus",
    "film.webm": f"{_film()} {_SOUND} -c:v libvpx-vp9 -deadline realtime -c:a libopus",
    "film.ts": f"{_film()} {_SOUND} {_X264} -c:a aac",
    "film.avi": f"{_film()} {_SOUND} -c:v mpeg4 -c:a libmp3lame",
    "film.mov": f"{_film()} {_SOUND} -c:v prores_ks -c:a pcm_s16le",
    "vp8.mkv": f"{_film()} -c:v libvpx -deadline realtime",
    "hevc.mp4": f"{_film()} -c:v libx265 -preset ultrafast -x265-params log-level=error",
    "av1.mp4": f"{_film()} -c:v libsvtav1 -preset 12 -pix_fmt yuv420p",
    "odd.mkv": f"{_film()} -vf scale=161:91,setsar=1 -pix_fmt yuv444p -c:v ffv1",
    "tiny.mp4": f"{_film('32x32')} {_X264}",
    "wide.mp4": f"{_film('160x90')} -vf setsar=2 {_X264}",
    "interlaced.mp4": f"{_film('160x96', '50')} -vf interlace {_X264} -flags +ilme+ildct",
    "uneven.mkv": f"{_film(rate='60')} -vf select='lt(t,1)+not(mod(n,6))' -fps_mode vfr {_X264}",
    "hdr.mp4": (
        f"{_film()} -vf format=yuv420p10le,setparams=color_trc=smpte2084:color_primaries=bt2020"
        ":colorspace=bt2020nc -c:v libx265 -preset ultrafast -x265-params log-level=error"
    ),
    "surround.mkv": ("-f lavfi -i aevalsrc=0.1*sin(440*t)|0|0|0|0|0:c=5.1:s=96000:d=2 -c:a flac"),
    "late.mkv": f"{_film()} -itsoffset 1 -f lavfi -i sine=440:duration=1 {_X264} -c:a aac",
    "cover.m4a": (
        f"{_SOUND} -f lavfi -i testsrc2=size=64x64:rate=1:duration=1 -c:a aac -c:v mjpeg -frames:v 1"
        " -disposition:v attached_pic"
    ),
    "still.mp4": f"{_film(seconds=0.04)} {_X264}",
    "crowd.mkv": f"{_SOUND} {'-map 0:a ' * 100}-c:a pcm_s16le",
    "tagged.mp4": f"{_film()} {_X264} -metadata title=CANARY-TITLE -metadata location=+12.3456-065.4321/",
}


def _cut_off(film: bytes) -> bytes:
    """Return the film without its last third. The film keeps its index, which is at the beginning."""
    return film[: len(film) * 2 // 3]


def _without_index(film: bytes) -> bytes:
    return film[: film.index(b"moov") - 4]


def _with_a_hole(film: bytes) -> bytes:
    hole = film.index(b"mdat") + 3000
    return film[:hole] + bytes(4000) + film[hole + 4000 :]


def _with_huge_pictures(film: bytes) -> bytes:
    """Return the film with keyframes that declare a width and height of 16,383 pixels."""
    start = b"\x9d\x01\x2a"
    return film.replace(start + b"\xa0\0\x5a\0", start + b"\xff\x3f\xff\x3f")


# Files that no encoder makes, each with the clip from which it is derived, and the function that changes the
# clip.
_DERIVED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "truncated.mp4": ("film.mp4", _cut_off),
    "truncated.mkv": ("film.mkv", _cut_off),
    "headless.mp4": ("one.mp4", _without_index),
    "damaged.mp4": ("film.mp4", _with_a_hole),
    "huge.mkv": ("vp8.mkv", _with_huge_pictures),
    "empty": ("one.mp4", lambda _: b""),
    "noise": ("one.mp4", lambda _: bytes(range(256)) * 400),
}


class Clips:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, name: str) -> Path:
        path = self._folder / name
        if not path.exists():
            if name in _DERIVED:
                origin, change = _DERIVED[name]
                path.write_bytes(change(self.make(origin).read_bytes()))
            else:
                self.encode(_RECIPES[name], path)
        return path

    def encode(self, arguments: str, path: Path) -> None:
        """Run the ffmpeg under test, outside the sandbox."""
        command = f"{find_ffmpeg()} -loglevel error -nostdin {arguments} -y {path}"
        subprocess.run(command.split(), check=True, timeout=60, capture_output=True)

    def encoded(self, name: str, arguments: str) -> Path:
        """Return the clip that these arguments make. Tests that use the same name get the same file."""
        assert name not in _RECIPES
        path = self._folder / name
        if not path.exists():
            self.encode(arguments, path)
        return path

    def rotated(self, degrees: int) -> Path:
        path = self._folder / f"rotated-{degrees}.mp4"
        if not path.exists():
            self.encode(f"-display_rotation {degrees} -i {self.make('film.mp4')} -c copy", path)
        return path


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    return Clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(find_ffmpeg()) as started:
        yield started


@pytest.fixture
def own_sandbox() -> Iterator[Sandbox]:
    with Sandbox(Path("/bin/true")) as started:
        yield started
