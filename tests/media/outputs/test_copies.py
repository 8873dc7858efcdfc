"""Stream copy: the packets are those of the source, and picture and sound stay together."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.outputs import OutputSpec
from euterpe.media.encoding.renditions import MadeTrack
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import make as make_files
from tests.media.mp4_boxes import with_crop
from tests.media.outputs.deliveries import SYNC_TOLERANCE_S, sync_offsets
from tests.media.outputs.product_path import Make, parsed
from tests.media.outputs.test_times import PICTURE_TOLERANCE_S, relative_times
from tests.media.readers.media import packet_bytes
from tests.media.readers.pictures import picture_times
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import cut_by_copy, flash_film, late_picture, late_sound
from tests.media.sources.numbered import NTSC, constant, jittered, variable
from tests.media.sources.transport_streams import (
    WRAP_OFFSET_S,
    shifted_flashes,
    shifted_numbers,
)

AUTO: dict[str, Any] = {"copy": "auto"}
BOTH: dict[str, Any] = {"video": AUTO, "audio": AUTO}
_X265 = "-c:v libx265 -preset ultrafast -x265-params log-level=error:open-gop=0"
_VP9, _AV1 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8", "-c:v libsvtav1 -preset 12"


def film(kind: str = "mp4", **fields: Any) -> dict[str, Any]:
    return {"name": "film", "type": kind, **fields}


def coded(sources: Sources, name: str, arguments: str) -> Path:
    """Return a second of pictures and of sound, coded with these arguments."""
    inputs = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=1 -f lavfi -i sine=440:r=48000:duration=1"
    return sources.get(
        f"coded-{name}", lambda path: ffmpeg(f"{inputs} -pix_fmt yuv420p -ac 2 {arguments} {path}")
    )


def remuxed_flashes(sources: Sources, container: str) -> Path:
    return sources.remuxed(f"flashes-remuxed.{container}", flash_film(sources), "")


COPIES: dict[str, tuple[Callable[[Sources], Path], dict[str, Any], tuple[str, ...]]] = {
    "mp4 to mp4": (flash_film, film(**BOTH), ("video", "audio")),
    "mp4 to mov": (flash_film, film("mov", **BOTH), ("video", "audio")),
    "mp4 to fragments": (flash_film, film(fragmented=True, **BOTH), ("video", "audio")),
    "mkv to mp4": (partial(remuxed_flashes, container="mkv"), film(**BOTH), ("video", "audio")),
    "hevc mkv to mp4": (
        lambda sources: coded(sources, "hevc.mkv", f"{_X265} -c:a flac"),
        film(video={"codec": "hevc", **AUTO}, audio={"codec": "flac", **AUTO}),
        ("video", "audio"),
    ),
    "vp9 to webm": (
        lambda sources: coded(sources, "vp9.webm", f"{_VP9} -c:a libopus"),
        film("webm", **BOTH),
        ("video", "audio"),
    ),
    "vp9 webm to mp4": (
        lambda sources: coded(sources, "vp9.webm", f"{_VP9} -c:a libopus"),
        film(video={"codec": "vp9", **AUTO}, audio={"codec": "opus", **AUTO}),
        ("video", "audio"),
    ),
    "av1 mkv to mp4": (
        lambda sources: coded(sources, "av1.mkv", f"{_AV1} -c:a libmp3lame"),
        film(video={"codec": "av1", **AUTO}, audio={"codec": "mp3", **AUTO}),
        ("video", "audio"),
    ),
    "sound of a film": (flash_film, film("m4a", audio=AUTO), ("audio",)),
    "mp3": (
        lambda sources: coded(sources, "a.mp3", "-map 1 -c:a libmp3lame"),
        film("mp3", audio=AUTO),
        ("audio",),
    ),
    "flac of mkv": (
        lambda sources: coded(sources, "a.mka", "-map 1 -c:a flac"),
        film("flac", audio=AUTO),
        ("audio",),
    ),
    "opus of webm": (
        lambda sources: coded(sources, "vp9.webm", f"{_VP9} -c:a libopus"),
        film("opus", audio=AUTO),
        ("audio",),
    ),
}


def made_tracks(
    sandbox: Sandbox, source: Path, output: Mapping[str, Any], folder: Path
) -> tuple[Path, tuple[MadeTrack, ...]]:
    """Return the file that is made, and the tracks that the status document lists."""
    specs: tuple[OutputSpec, ...] = parsed([output])
    (file,) = make_files(sandbox, source, specs, folder)
    return file.path, file.tracks


@pytest.mark.parametrize("name", COPIES)
def test_the_packets_are_those_of_the_source(
    sandbox: Sandbox, sources: Sources, tmp_path: Path, name: str
) -> None:
    generate, output, kinds = COPIES[name]
    source = generate(sources)
    made, tracks = made_tracks(sandbox, source, output, tmp_path)
    assert [(track.kind, track.copied) for track in tracks] == [(kind, True) for kind in kinds]
    for kind in kinds:
        assert packet_bytes(made, kind) == packet_bytes(source, kind)


def units(data: bytes) -> list[bytes]:
    """Return the NAL units of a packet of MPEG-TS."""
    return [unit.rstrip(b"\0") for unit in re.split(b"\0\0\1", data) if unit.rstrip(b"\0")]


def sized_units(data: bytes) -> list[bytes]:
    """Return the NAL units of a packet of MP4, in which each unit follows its size."""
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found.append(data[at + 4 : at + 4 + size].rstrip(b"\0"))
        at += 4 + size
    return found


def test_pictures_of_a_transport_stream_get_another_framing_and_keep_their_units(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    source = shifted_flashes(sources, 500.0)
    made, tracks = made_tracks(sandbox, source, film(**BOTH), tmp_path)
    assert [track.copied for track in tracks] == [True, True]
    before = [units(data) for data in packet_bytes(source, "video")]
    assert [sized_units(data) for data in packet_bytes(made, "video")] == before
    # ADTS puts 7 bytes before each packet of AAC.
    assert packet_bytes(made, "audio") == [data[7:] for data in packet_bytes(source, "audio")]


def test_a_container_crop_neither_stretches_a_picture_nor_is_copied(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    """An earlier version stretched the cropped picture from 80x44 to 160x90.

    In that version, copies kept the crop of the container, but encodes did not.
    """
    whole = constant(sources)
    cropped_film = with_crop(whole.read_bytes(), 80, 44)
    for container in ("mp4", "mkv"):
        cropped = sources.get("cropped.mp4", lambda path: path.write_bytes(cropped_film))
        source = sources.remuxed(f"cropped-remuxed.{container}", cropped, "")
        (folder := tmp_path / container).mkdir()
        made, (track,) = made_tracks(sandbox, source, film(video=AUTO), folder)
        assert not track.copied
        assert list(relative_times(made)) == list(relative_times(whole))


def test_a_picture_that_changes_its_size_is_not_copied(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    """An earlier version published a copy, because the first and last picture have the declared size."""
    parts = [constant(sources, 25), constant(sources, 25, size=(320, 180)), constant(sources, 25)]

    def join(path: Path) -> None:
        listed = path.with_suffix(".txt")
        listed.write_text("".join(f"file {part}\n" for part in parts))
        ffmpeg(f"-f concat -safe 0 -i {listed} -c copy {path}")

    source = sources.get("changing-and-back.mp4", join)
    with pytest.raises(MediaError) as refused:
        made_tracks(sandbox, source, film(video=AUTO), tmp_path)
    assert refused.value.code == "source_unsupported"


SYNC_SOURCES: dict[str, tuple[Callable[[Sources], Path], bool]] = {
    "mp4": (flash_film, True),
    "mkv": (lambda sources: flash_film(sources, "mkv"), True),
    "ts": (lambda sources: shifted_flashes(sources, 500.0), True),
    "ts that wraps": (lambda sources: shifted_flashes(sources, WRAP_OFFSET_S), True),
    "edit list": (cut_by_copy, False),
    "late sound": (late_sound, True),
    "late picture": (late_picture, False),
}
PARTS: dict[str, dict[str, Any]] = {
    "both": BOTH,
    "picture": {"video": AUTO},
    "sound": {"audio": AUTO},
    "fragments": {"fragmented": True, **BOTH},
    "mov": {"type": "mov", **BOTH},
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", SYNC_SOURCES)
def test_picture_and_sound_stay_together(make: Make, sources: Sources, name: str, part: str) -> None:
    source = SYNC_SOURCES[name][0](sources)
    output = film() | PARTS[part]
    made = make([output], source) / f"film.{output['type']}"
    before = sync_offsets(source, source)
    assert sync_offsets(made, made) == pytest.approx(before, abs=SYNC_TOLERANCE_S)


@pytest.mark.parametrize("name", SYNC_SOURCES)
def test_a_picture_that_cannot_keep_its_times_is_encoded(
    sandbox: Sandbox, sources: Sources, tmp_path: Path, name: str
) -> None:
    generate, is_copied = SYNC_SOURCES[name]
    made, tracks = made_tracks(sandbox, generate(sources), film(video=AUTO), tmp_path)
    assert [track.copied for track in tracks] == [is_copied, False]
    assert picture_times(made)[0] == pytest.approx(0.0, abs=PICTURE_TOLERANCE_S)


NUMBERED: dict[str, Callable[[Sources], Path]] = {
    "29.97 mkv": lambda sources: constant(sources, rate=NTSC, container="mkv"),
    "variable": variable,
    "variable mkv": lambda sources: variable(sources, "mkv"),
    "jittered": jittered,
    "ts": lambda sources: shifted_numbers(sources, 500.0),
    "one picture": lambda sources: constant(sources, 1),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_every_picture_is_there_and_keeps_its_time(
    sandbox: Sandbox, sources: Sources, tmp_path: Path, name: str
) -> None:
    source = NUMBERED[name](sources)
    made, (track,) = made_tracks(sandbox, source, film(video=AUTO), tmp_path)
    assert track.copied
    before, after = relative_times(source), relative_times(made)
    assert list(after) == list(before)
    assert max(abs(after[number] - before[number]) for number in before) <= PICTURE_TOLERANCE_S


def test_a_copy_has_no_tags_of_the_source_and_its_language(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    tags = "-metadata title=CANARY -metadata:s:a:0 title=CANARY -metadata:s:a:0 language=ger"
    source = sources.remuxed("tagged.mkv", flash_film(sources), tags)
    made, tracks = made_tracks(sandbox, source, film(**BOTH), tmp_path)
    assert b"CANARY" not in made.read_bytes()
    assert [track.language for track in tracks] == [None, "ger"]
