"""A source whose last bytes are held back until a test releases them, and sources in many containers."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from euterpe.media.ffmpeg import find_ffmpeg
from tests.service.worker_harness import S3Proxy
from tests.storage.fake_stores import Call, Reply

_PICTURE = ("-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25:duration=4")
_SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:duration=4")
_X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-g", "25", "-b:v", "2M", "-c:a", "aac")
_FILM = (*_PICTURE, *_SOUND, *_X264)
# The arguments that make sources whose encode may begin during the fetch, one for each container.
STREAMED = {
    "front.mp4": (*_FILM, "-movflags", "+faststart"),
    "film.mkv": _FILM,
    "film.webm": (*_PICTURE, *_SOUND, "-c:v", "libvpx", "-cpu-used", "16", "-deadline", "realtime"),
    "sound.wav": _SOUND,
    "sound.flac": _SOUND,
    "sound.ogg": (*_SOUND, "-c:a", "libvorbis"),
}
# The arguments that make sources whose encode begins only when they are complete.
NOT_STREAMED = {
    "end.mp4": _FILM,
    "fragments.mp4": (*_FILM, "-movflags", "+frag_keyframe+empty_moov+default_base_moof"),
    "film.ts": _FILM,
    "sound.mp3": (*_SOUND, "-c:a", "libmp3lame"),
}


def make_source(path: Path, arguments: tuple[str, ...]) -> Path:
    quiet = ("-y", "-loglevel", "error")
    subprocess.run([find_ffmpeg(), *quiet, *arguments, path], check=True, timeout=60)
    return path


@contextmanager
def held_back(proxy: S3Proxy, name: str, share: float = 0.7) -> Iterator[threading.Event]:
    """Send this share of a source. Send the other bytes when the yielded event is set or the block ends."""
    go_on = threading.Event()

    def answer(call: Call) -> Reply:
        reply = proxy.forward(call)
        if call.method != "GET" or not call.path.endswith(name):
            return reply
        return replace(reply, pause_at=int(len(reply.body) * share), until=go_on)

    proxy.answer = answer
    try:
        yield go_on
    finally:
        go_on.set()
