"""Damaged sources whose tags contain the messages that ffmpeg prints for faults of the machine."""

import subprocess
from pathlib import Path

from euterpe.media.ffmpeg import find_ffmpeg

MACHINE_TROUBLES = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "Cannot allocate memory",
    "std::bad_alloc",
    "malloc of size 7332416 failed",
    "Resource temporarily unavailable",
    "Too many open files",
)
SOURCE_TROUBLES = ("Truncated", "moov atom not found", "not on whitelist", "Invalid data")

_PICTURES = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=2"
_SOUND = "-f lavfi -i sine=440:duration=2"
_X264 = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"
# ffmpeg's arguments by container: the codecs, and options that make the muxer store tags.
_RECIPES = {
    "mkv": f"{_PICTURES} {_SOUND} {_X264} -c:a aac",
    "mp4": f"{_PICTURES} {_SOUND} {_X264} -c:a aac -movflags +faststart+use_metadata_tags",
    "mov": f"{_PICTURES} {_SOUND} -c:v mpeg4 -c:a pcm_s16le",
    "avi": f"{_PICTURES} {_SOUND} -c:v mpeg4 -c:a pcm_s16le",
    "wav": f"{_SOUND} -c:a adpcm_ms",
    "ogg": f"{_SOUND} -c:a libvorbis",
    "flac": f"{_SOUND} -c:a flac",
    "ts": f"{_PICTURES} {_SOUND} {_X264} -c:a aac",
}
CONTAINERS = tuple(_RECIPES)
_TAGS = ("title", "artist", "comment", "encoder", "service_name", "service_provider", "x-note")
_STREAM_TAGS = ("title", "handler_name", "vendor_id", "language")


def make_damaged(folder: Path, container: str, text: str) -> Path:
    """Return a damaged source that has `text` in every tag that its container can store."""
    path = folder / f"carrier.{container}"
    tags = [word for tag in _TAGS for word in ("-metadata", f"{tag}={text}")]
    tags += [word for tag in _STREAM_TAGS for word in ("-metadata:s", f"{tag}={text}")]
    command = [
        str(find_ffmpeg()),
        "-loglevel",
        "error",
        "-nostdin",
        *_RECIPES[container].split(),
        *tags,
        "-y",
    ]
    subprocess.run([*command, str(path)], check=True, timeout=60, capture_output=True)
    path.write_bytes(_with_a_hole(path.read_bytes()))
    if container == "mkv":
        path.write_bytes(_with_doc_type(path.read_bytes(), text))
    return path


def _with_a_hole(media: bytes) -> bytes:
    """Overwrite an eighth of the file, after all headers, with bytes that no decoder accepts."""
    start, length = len(media) * 5 // 8, len(media) // 8
    return media[:start] + b"\xff" * length + media[start + length :]


def _with_doc_type(matroska: bytes, text: str) -> bytes:
    """Replace the EBML header by a header with this DocType, which the demuxer quotes in a warning."""
    size = (
        int.from_bytes(matroska[4:12], "big") & ((1 << 56) - 1) if matroska[4] == 0x01 else matroska[4] & 0x7F
    )
    header_end = (12 if matroska[4] == 0x01 else 5) + size
    doc_type = text.encode()
    fields = bytes.fromhex("42868101 42f78101 42f28104 42f38108 42878104 42858102".replace(" ", ""))
    fields += b"\x42\x82" + bytes([0x80 | len(doc_type)]) + doc_type
    return b"\x1a\x45\xdf\xa3" + bytes([0x80 | len(fields)]) + fields + matroska[header_end:]
