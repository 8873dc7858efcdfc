"""Tests of reading segments: independent readers agree, and hostile segments raise a `MediaError`."""

import io
import os
import random
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import av
import pytest
from av.video.stream import VideoStream

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.segments import read_segments
from tests.media.packaging.hostile import Init, Media
from tests.media.packaging.presentations import PICTURES, Presentation
from tests.media.packaging.test_boxes import box


def packets_of(data: bytes) -> list[tuple[float, float, int, bool]]:
    """Return presentation time, duration, size and keyframe flag of each packet, as PyAV reads a segment."""
    with av.open(io.BytesIO(data), "r", format="mov") as container:
        return [
            (
                float(packet.pts * packet.time_base),
                float((packet.duration or 0) * packet.time_base),
                packet.size,
                packet.is_keyframe,
            )
            for packet in container.demux()
            if packet.pts is not None
        ]


def test_the_facts_are_those_of_pyav(film: Presentation) -> None:
    for facts in film.facts.values():
        init = (film.folder / facts.init).read_bytes()
        for segment in facts.segments:
            packets = packets_of(init + (film.folder / segment.name).read_bytes())
            start, end = (time / facts.track.timescale for time in (segment.start, segment.end))
            assert segment.samples == len(packets)
            assert segment.starts_with_sync is packets[0][3] is True
            assert start == pytest.approx(min(packet[0] for packet in packets), abs=1e-5)
            assert end == pytest.approx(max(packet[0] + packet[1] for packet in packets), abs=1e-3)
            assert segment.size_bytes == (film.folder / segment.name).stat().st_size


def test_the_segments_of_a_rendition_follow_each_other(film: Presentation) -> None:
    for facts in film.facts.values():
        ends = [segment.end for segment in facts.segments]
        assert [segment.start for segment in facts.segments[1:]] == ends[:-1]
    assert sum(segment.samples for segment in film.facts["180p"].segments) == PICTURES


def test_the_range_of_a_keyframe_decodes_alone(film: Presentation) -> None:
    for name in ("180p", "90p"):
        facts = film.facts[name]
        init = (film.folder / facts.init).read_bytes()
        for segment in facts.segments:
            data = (film.folder / segment.name).read_bytes()[segment.body_start : segment.keyframe_end]
            with av.open(io.BytesIO(init + data), "r", format="mov") as container:
                stream = container.streams[0]
                assert isinstance(stream, VideoStream)
                packet = next(container.demux(stream))
                frames = [*stream.codec_context.decode(packet), *stream.codec_context.decode(None)]
            assert [frame.key_frame for frame in frames] == [True]
            assert packet.size == len(data) - data.index(b"mdat") - 4


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with chdir(tmp_path):
        yield tmp_path


def read(init: bytes, *segments: bytes) -> dict[str, Any]:
    """Return the facts of files in the current folder."""
    Path("init.mp4").write_bytes(init)
    names = [f"{place}.m4s" for place in range(len(segments))]
    for name, segment in zip(names, segments, strict=True):
        Path(name).write_bytes(segment)
    return read_segments("init.mp4", names)


@pytest.mark.usefixtures("folder")
def test_hand_made_segments_are_read() -> None:
    found = read(Init(elst=((80, -1), (0, 40))).build(), Media(time=100).build())
    assert found["track"]["edit_start"] == 40 - 80
    columns = found["segments"]
    assert (columns["starts"], columns["ends"], columns["samples"], columns["syncs"]) == (
        [140],
        [220],
        [2],
        [True],
    )
    # Samples without flags get the default flags of `trex`. With these flags, the samples are not keyframes.
    found = read(Init().build(), Media(samples=(), count=3, flags=1, data_bytes=30).build())["segments"]
    assert (found["ends"], found["samples"], found["syncs"]) == ([120], [3], [False])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "init",
    [
        b"",
        Init(timescale=0).build(),
        Init(film_timescale=0).build(),
        Init(entries=()).build(),
        Init(entries=(), entry_count=2**32 - 1).build(),
        Init(entry_count=2).build(),
        Init(elst=((0, -2),)).build(),
        Init(elst=((0, 0), (0, 0))).build(),
        Init(elst=((0, 0),), speed=0).build(),
        Init(elst=((0, 0),), edit_count=2**32 - 1).build(),
        Init(elst=((0, 0),), edit_count=2).build(),
        Init(tracks=0).build(),
        Init(tracks=2).build(),
        Init().build() + bytes(1 << 20),
        box(b"moov", box(b"trak") * 10_001),
    ],
)
def test_a_hostile_init_segment_is_a_typed_error(init: bytes) -> None:
    with pytest.raises(MediaError) as caught:
        read(init, Media().build())
    assert caught.value.code is ErrorCode.OUTPUT_UNDECODABLE
    assert "init.mp4" in str(caught.value)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "media",
    [
        Media(samples=()),
        Media(samples=(), count=2**32 - 1, flags=1, data_bytes=30),  # each sample takes 0 bytes
        Media(count=60_001),
        Media(count=3),
        Media(runs=60_000),
        Media(offset=0),
        Media(offset=-(2**31)),
        Media(offset=2**31 - 1),
        Media(data_bytes=19),
        Media(samples=((40, 2**32 - 1, 0, 0),), data_bytes=10),
        Media(tfhd_flags=0x20001),
        Media(tfhd_flags=0),
        Media(before=box(b"moof")),
        Media(before=box(b"styp") + box(b"mdat")),
        Media(after=box(b"moof")),
        Media(after=box(b"mdat")),
        Media(after=box(b"free")),
        Media(after=bytes(7)),
        Media(after=box(b"mdat", declared=0)),
    ],
)
def test_a_hostile_segment_is_a_typed_error(media: Media) -> None:
    with pytest.raises(MediaError) as caught:
        read(Init().build(), Media().build(), media.build())
    assert caught.value.code is ErrorCode.OUTPUT_UNDECODABLE
    assert "1.m4s" in str(caught.value)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda name: Path(name).symlink_to("target")])
def test_only_a_regular_file_is_read(folder: Path, make: Any) -> None:
    (folder / "target").write_bytes(Media().build())
    make("hostile.m4s")
    Path("init.mp4").write_bytes(Init().build())
    with pytest.raises(MediaError):
        read_segments("init.mp4", ["hostile.m4s"])
    with pytest.raises(MediaError):
        read_segments("hostile.m4s", ["target"])
    with pytest.raises(MediaError):
        read_segments("init.mp4", ["missing.m4s"])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("rounds", [600, pytest.param(60_000, marks=pytest.mark.soak)])
def test_damaged_files_are_read_or_refused(film: Presentation, rounds: int) -> None:
    """Change, cut and repeat bytes of real files: the reader returns numbers, or raises a `MediaError`."""
    facts, choice = film.facts["90p"], random.Random(12)
    init = (film.folder / facts.init).read_bytes()
    moof = (film.folder / facts.segments[0].name).read_bytes()
    for _ in range(rounds):
        files = [bytearray(init), bytearray(moof)]
        data = choice.choice(files)
        reach = min(len(data), 2500)  # all bytes after `reach` are coded pictures
        for _ in range(choice.choice([1, 1, 2, 5, 40])):
            at = choice.randrange(min(reach, len(data)))
            match choice.randrange(4):
                case 0:
                    data[at] = choice.randrange(256)
                case 1:
                    data[at : at + 4] = choice.choice(
                        [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\1", b"\x7f\xff\xff\xff"]
                    )
                case 2:
                    del data[at : at + choice.randrange(1, 40)]
                case _:
                    data[at:at] = data[at : at + choice.randrange(1, 40)]
        try:
            found = read(bytes(files[0]), bytes(files[1]))
        except MediaError:
            continue
        assert all(len(column) == 1 for column in found["segments"].values())
