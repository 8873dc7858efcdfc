"""Tests of `finish_rendition` in the sandbox: decode times, short last segments, and hostile folders."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import av
import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.finish import finish_rendition
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.packaging.hostile import Init, Media
from tests.media.packaging.presentations import PICTURES, SEGMENTS, Recipe, Sound, encode

TICKS = 1001  # the duration of a picture, with 30,000 ticks per second


def finish(sandbox: Sandbox, folder: Path, name: str = "v", seconds: float = 4) -> list[str]:
    facts = finish_rendition(sandbox, folder, name, segment_seconds=seconds)
    return [segment.name for segment in facts.segments]


def presentation_times(folder: Path, name: str) -> list[int]:
    """Return the presentation times of all pictures, in the order of decoding."""
    files = [f"{name}_init.mp4", *sorted(path.name for path in folder.glob(f"{name}_0*.m4s"))]
    with av.open(
        io.BytesIO(b"".join((folder / file).read_bytes() for file in files)), "r", format="mov"
    ) as container:
        return [packet.pts for packet in container.demux() if packet.pts is not None]


def box_at(data: bytes, kind: bytes) -> int:
    return data.index(kind) + 4


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "vp9"])
def test_pictures_keep_their_times_without_an_edit_list(sandbox: Sandbox, tmp_path: Path, codec: str) -> None:
    encode(Recipe(codec, (), (160,)), tmp_path)
    before = presentation_times(tmp_path, "90p")
    reorders = b"edts" in (tmp_path / "90p_init.mp4").read_bytes() and codec in ("h264", "hevc")
    facts = finish_rendition(sandbox, tmp_path, "90p", segment_seconds=4)
    assert reorders is (codec in ("h264", "hevc"))
    assert presentation_times(tmp_path, "90p") == before
    assert sorted(before) == [picture * TICKS for picture in range(PICTURES)]
    assert (facts.track.edit_start, len(facts.segments)) == (0, SEGMENTS)
    for segment in facts.segments:
        data = (tmp_path / segment.name).read_bytes()
        decode_time = int.from_bytes(data[(at := box_at(data, b"tfdt") + 4) : at + 8], "big")
        assert decode_time == segment.start
    assert facts.segments[-1].end == PICTURES * TICKS


def test_every_segment_decodes_alone_and_whole(sandbox: Sandbox, tmp_path: Path) -> None:
    encode(Recipe("hevc", (), (160,)), tmp_path)
    facts = finish_rendition(sandbox, tmp_path, "90p", segment_seconds=4)
    for segment in facts.segments:
        data = (tmp_path / facts.init).read_bytes() + (tmp_path / segment.name).read_bytes()
        with av.open(io.BytesIO(data), "r", format="mov") as container:
            assert sum(1 for _ in container.decode(video=0)) == segment.samples


def test_a_tail_is_folded_with_all_its_samples(sandbox: Sandbox, tmp_path: Path) -> None:
    encode(Recipe(None, (Sound("audio", "opus"),), seconds=8.005), tmp_path)
    before = presentation_times(tmp_path, "audio")
    assert (tmp_path / "audio_00003.m4s").exists()
    assert finish(sandbox, tmp_path, "audio") == ["audio_00001.m4s", "audio_00002.m4s"]
    assert not (tmp_path / "audio_00003.m4s").exists()
    assert presentation_times(tmp_path, "audio") == before


def test_a_segment_of_half_the_length_stays(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "v_init.mp4").write_bytes(Init().build())
    for number, time in enumerate((0, 80), start=1):
        (tmp_path / f"v_{number:05d}.m4s").write_bytes(Media(time=time).build())
    assert finish(sandbox, tmp_path, seconds=0.16) == ["v_00001.m4s", "v_00002.m4s"]
    assert finish(sandbox, tmp_path, seconds=0.161) == ["v_00001.m4s"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v_00001.m4s", "v_init.mp4"]


def test_the_index_of_joined_segments_is_left_out(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "v_init.mp4").write_bytes(Init().build())
    head = bytes.fromhex("00000010 73747970 6d736468 00000000")
    sidx = bytes.fromhex("00000008 73696478")
    for number, time in enumerate((0, 80), start=1):
        (tmp_path / f"v_{number:05d}.m4s").write_bytes(Media(time=time, before=head + sidx).build())
    finish(sandbox, tmp_path)
    assert (tmp_path / "v_00001.m4s").read_bytes() == head + b"".join(
        Media(time=time, before=b"").build() for time in (0, 80)
    )


def test_one_rendition_is_not_taken_for_another(sandbox: Sandbox, tmp_path: Path) -> None:
    for name, count in (("audio_en", 1), ("audio_en_2", 3)):
        (tmp_path / f"{name}_init.mp4").write_bytes(Init().build())
        for number in range(1, count + 1):
            (tmp_path / f"{name}_{number:05d}.m4s").write_bytes(Media(time=80 * number).build())
    assert finish(sandbox, tmp_path, "audio_en", 0.1) == ["audio_en_00001.m4s"]
    assert len(finish(sandbox, tmp_path, "audio_en_2", 0.1)) == 3


@pytest.mark.parametrize("numbers", [[], [2], [1, 3]])
def test_a_missing_segment_is_noticed(sandbox: Sandbox, tmp_path: Path, numbers: list[int]) -> None:
    (tmp_path / "v_init.mp4").write_bytes(Init().build())
    for number in numbers:
        (tmp_path / f"v_{number:05d}.m4s").write_bytes(Media(time=80 * number).build())
    with pytest.raises(MediaError, match="missing"):
        finish(sandbox, tmp_path)


@pytest.fixture
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("private") / "other.m4s"
    path.write_bytes(Media(time=80).build())
    return path


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [Path.symlink_to, fifo, lambda path, _: path.mkdir()])
@pytest.mark.parametrize("name", ["v_00001.m4s", "v_00002.m4s", "v_init.mp4"])
def test_no_link_is_followed(
    sandbox: Sandbox, tmp_path: Path, private: Path, make: Callable[[Path, Path], None], name: str
) -> None:
    (tmp_path / "v_init.mp4").write_bytes(Init(elst=((0, 40),)).build())
    for number in (1, 2):
        (tmp_path / f"v_{number:05d}.m4s").write_bytes(Media(time=80 * number).build())
    (tmp_path / name).unlink()
    make(tmp_path / name, private)
    with pytest.raises(MediaError) as caught:
        finish(sandbox, tmp_path)
    assert caught.value.code is ErrorCode.OUTPUT_UNDECODABLE
    assert private.read_bytes() == Media(time=80).build()


def test_a_file_behind_a_hard_link_is_not_changed(sandbox: Sandbox, tmp_path: Path, private: Path) -> None:
    (tmp_path / "v_init.mp4").write_bytes(Init(elst=((0, 40),)).build())
    (tmp_path / "v_00001.m4s").hardlink_to(private)
    (tmp_path / "v_00002.m4s").write_bytes(Media(time=160).build())
    assert finish(sandbox, tmp_path) == ["v_00001.m4s"]
    assert private.read_bytes() == Media(time=80).build()


@pytest.mark.parametrize(
    "media",
    [
        Media(samples=((2**32 - 1, 10, 0, 0), (40, 10, 0, 2**32 - 1))),
        Media(time=2**64 - 1),
        Media(time=2**53 - 30),
        Media(count=3),
        Media(runs=2),
    ],
)
def test_hostile_times_are_a_typed_error(sandbox: Sandbox, tmp_path: Path, media: Media) -> None:
    (tmp_path / "v_init.mp4").write_bytes(Init(elst=((0, 1),)).build())
    (tmp_path / "v_00001.m4s").write_bytes(media.build())
    (tmp_path / "v_00002.m4s").write_bytes(Media(time=2**40).build())
    with pytest.raises(MediaError) as caught:
        finish(sandbox, tmp_path)
    assert caught.value.code is ErrorCode.OUTPUT_UNDECODABLE


def test_a_task_may_write_only_where_its_caller_says_so(sandbox: Sandbox, tmp_path: Path) -> None:
    names = {"segment": "v_00001.m4s", "tail": "v_00002.m4s"}
    for number, name in enumerate(names.values()):
        (tmp_path / name).write_bytes(Media(time=80 * number).build())
    for writable_bytes in (0, 100):
        with pytest.raises(MediaError):
            sandbox.call(
                "fold_tail",
                names,
                blame=ErrorCode.OUTPUT_UNDECODABLE,
                cwd=tmp_path,
                writable_bytes=writable_bytes,
            )
    assert [(tmp_path / name).read_bytes() for name in names.values()] == [
        Media(time=80 * number).build() for number in range(2)
    ]
