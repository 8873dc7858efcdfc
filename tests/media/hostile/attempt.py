"""Process a file like a job: probe, plan, encode, verify. The outputs depend on the streams of the file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from euterpe.media.encoding.verify import MadeFile, verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.media_info import MediaInfo
from tests.media.hostile.corpus import ENDLESS
from tests.media.media_steps import probe, run
from tests.media.outputs.product_path import parsed

Outputs = list[dict[str, Any]]

_H264 = {"codec": "h264", "height": 90}
OF_PICTURES: Sequence[Outputs] = (
    [
        {"name": "film", "type": "mp4", "video": _H264, "audio": "all", "metadata": "keep"},
        {"name": "poster", "type": "image", "at": "best"},
    ],
    [
        {
            "name": "stream",
            "type": "adaptive",
            "segment_seconds": 1,
            "video": {"ladder": [240, 90]},
            "audio": "all",
            "subtitles": "all",
            "trick_play": True,
        }
    ],
    [
        {"name": "edit", "type": "mov", "video": {**_H264, "bitrate_kbps": 200}},
        {"name": "seek", "type": "sprite", "interval_seconds": 1},
    ],
    [
        {"name": "part", "type": "mp4", "start": 0.2, "end": 0.7, "video": _H264, "pad": {"aspect": "9:16"}},
        {"name": "stills", "type": "image", "at": ["0s", "50%", "90s"], "format": "webp"},
        {"name": "card", "type": "preview", "format": "gif"},
        {"name": "sound", "type": "m4a", "optional": True},
    ],
)
OF_SOUND: Sequence[Outputs] = (
    [{"name": "sound", "type": "m4a"}, {"name": "master", "type": "flac", "audio": {"channels": "keep"}}],
    [{"name": "film", "type": "mp4", "video": None}, {"name": "sound", "type": "opus"}],
    [{"name": "small", "type": "opus"}, {"name": "podcast", "type": "mp3", "audio": {"channels": "mono"}}],
)
_TIMEOUT_S, _ENDLESS_S, _MEMORY_BYTES, _MOST_BYTES = 60.0, 2.0, 1 << 30, 64 << 20


@dataclass(frozen=True)
class Ended:
    """The result of an attempt: files or an error."""

    files: tuple[MadeFile, ...] = ()
    error: MediaError | None = None
    outputs: tuple[str, ...] = ()


def outputs_for(info: MediaInfo, name: str) -> Outputs:
    """Return a list of outputs that fit the streams of the source. The name of the file selects the list."""
    lists = OF_PICTURES if info.video else OF_SOUND
    return lists[crc32(name.encode()) // 7 % len(lists)]


def attempt(sandbox: Sandbox, name: str, source: Path, folder: Path) -> Ended:
    outputs: Outputs = []
    try:
        info = probe(sandbox, source)
        outputs = outputs_for(info, name)
        planned = plan(parsed(outputs), info, threads=1)
        stats = run(
            sandbox,
            planned,
            source,
            folder,
            timeout_seconds=_ENDLESS_S if name in ENDLESS else _TIMEOUT_S,
            stall_seconds=_TIMEOUT_S,
            max_output_bytes=_MOST_BYTES,
            memory_bytes=_MEMORY_BYTES,
        )
        with source.open("rb") as file:
            verified = verify(sandbox, planned, folder, source_fd=file.fileno(), failed=stats.failed)
    except MediaError as error:
        return Ended(error=error, outputs=tuple(one["name"] for one in outputs))
    return Ended(files=verified.files, outputs=tuple(one["name"] for one in outputs))
