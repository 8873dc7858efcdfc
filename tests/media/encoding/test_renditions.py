"""Tests of packaging an adaptive output: it refuses segments that a compromised ffmpeg has changed."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.domain.error_codes import RetryClass
from euterpe.domain.outputs import AdaptiveOutput
from euterpe.media.encoding.output_folder import DiskUse
from euterpe.media.encoding.renditions import PackagedOutput, Packager
from euterpe.media.encoding.subtitles import Subtitles
from euterpe.media.errors import MediaError
from euterpe.media.packaging.fragments import read_fragment, read_layout, read_moof
from euterpe.media.packaging.segment_files import opened
from euterpe.media.packaging.segments import MOST_SAMPLES, read_track
from euterpe.media.packaging.write_fragments import box, moof_box
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan, SegmentEncryption
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import make, probe, run

ADAPTIVE = AdaptiveOutput.model_validate(
    {"name": "both", "type": "adaptive", "segment_seconds": 2, "video": {"ladder": [90]}}
)
Made = tuple[Plan, Path]
NON_SYNC = (0x01010000).to_bytes(4, "big")


@pytest.fixture(scope="module")
def encoded(clips: Clips, sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return the unchanged segments of an encode of nine seconds."""
    source, folder = clips.make("long.mp4"), tmp_path_factory.mktemp("encoded")
    planned = plan([ADAPTIVE], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, folder)
    return planned, folder


@pytest.fixture
def made(encoded: Made, tmp_path: Path) -> Made:
    planned, folder = encoded
    copytree(folder, tmp_path, dirs_exist_ok=True)
    return planned, tmp_path


def package(sandbox: Sandbox, made: Made) -> PackagedOutput:
    planned, folder = made
    disk = DiskUse(folder, lambda _: None)
    subtitles = Subtitles(sandbox, planned.packages, None, disk)
    return Packager(sandbox, planned, folder, subtitles, disk).package(planned.packages[0])


def assert_refused(sandbox: Sandbox, made: Made, code: str = "output_undecodable") -> None:
    with pytest.raises(MediaError) as refused:
        package(sandbox, made)
    assert (refused.value.code, refused.value.retry_class) == (code, RetryClass.PERMANENT)
    assert str(refused.value).isprintable()


def segment(folder: Path, number: int, rendition: str = "90p") -> Path:
    return folder / "both" / f"{rendition}_{number:05d}.m4s"


def test_the_segments_come_first_and_the_entry_last(sandbox: Sandbox, made: Made) -> None:
    found = package(sandbox, made)
    parts = [name for name, _ in found.parts]
    assert parts[:3] == ["both/90p_init.mp4", "both/90p_00001.m4s", "both/90p_00002.m4s"]
    assert "both/audio_init.mp4" in parts
    assert [name for name, _ in found.lists][-1] == "both/master.m3u8"
    assert "both/manifest.mpd" in [name for name, _ in found.lists]
    assert all((made[1] / name).is_file() for name, _ in (*found.parts, *found.lists))
    assert found.seconds == pytest.approx(9.0, abs=0.05)
    assert [(track.kind, track.codec[:4], track.width) for track in found.tracks] == [
        ("video", "avc1", 160),
        ("audio", "mp4a", None),
    ]
    assert all(track.bitrate for track in found.tracks)


def test_without_its_key_an_encrypted_output_is_not_packaged(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    locked = replace(planned.packages[0], encryption=SegmentEncryption("https://keys.example/1"))
    assert_refused(sandbox, (replace(planned, packages=(locked,)), folder), code="cannot_decrypt")
    assert not [*folder.rglob("*.m3u8")]


def remove(folder: Path, *numbers: int) -> None:
    for number in numbers:
        segment(folder, number).unlink()


@pytest.mark.parametrize(
    "gap",
    [
        lambda folder: remove(folder, 1),
        lambda folder: remove(folder, 2),
        lambda folder: segment(folder, 1).rename(segment(folder, 0)),
        lambda folder: remove(folder, 1, 2, 3, 4, 5),
        lambda folder: (folder / "both" / "90p_123456.m4s").write_bytes(b"x"),
        lambda folder: (folder / "both" / "90p_init.mp4").unlink(),
    ],
)
def test_a_gap_in_the_segments_is_refused(sandbox: Sandbox, made: Made, gap: Callable[[Path], Any]) -> None:
    gap(made[1])
    assert_refused(sandbox, made)


def without_keyframe(data: bytes) -> bytes:
    """Return the segment without the keyframe mark of its first sample."""
    trun = data.index(b"trun")
    flags = int.from_bytes(data[trun + 5 : trun + 8], "big")
    at = trun + 12 + (4 if flags & 1 else 0)  # the fields after the sample count and the optional data offset
    if flags & 4:
        return data[:at] + NON_SYNC + data[at + 4 :]
    assert flags & 0x400, "the flags of samples are in the fragment"
    at += sum(4 for bit in (0x100, 0x200) if flags & bit)
    return data[:at] + NON_SYNC + data[at + 4 :]


def test_a_segment_that_does_not_begin_with_a_keyframe_is_refused(sandbox: Sandbox, made: Made) -> None:
    path = segment(made[1], 2)
    path.write_bytes(without_keyframe(path.read_bytes()))
    assert_refused(sandbox, made)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda _: b"",
        lambda data: bytes(len(data)),
    ],
)
def test_a_damaged_segment_is_refused(sandbox: Sandbox, made: Made, damage: Callable[[bytes], bytes]) -> None:
    path = segment(made[1], 2)
    path.write_bytes(damage(path.read_bytes()))
    assert_refused(sandbox, made)


@pytest.mark.parametrize("name", ["90p_00002.m4s", "audio_00001.m4s", "90p_init.mp4"])
def test_a_link_in_place_of_a_segment_is_refused(sandbox: Sandbox, made: Made, name: str) -> None:
    path = made[1] / "both" / name
    path.rename(made[1] / "outside")
    path.symlink_to(made[1] / "outside")
    assert_refused(sandbox, made)


def test_a_fifo_in_place_of_a_segment_is_refused(sandbox: Sandbox, made: Made) -> None:
    path = segment(made[1], 2)
    path.unlink()
    os.mkfifo(path)
    assert_refused(sandbox, made)


def test_a_link_in_place_of_the_folder_is_refused(sandbox: Sandbox, made: Made) -> None:
    (made[1] / "both").rename(made[1] / "elsewhere")
    (made[1] / "both").symlink_to("elsewhere")
    assert_refused(sandbox, made)


@pytest.mark.parametrize("name", ["master.m3u8", "90p.m3u8", "manifest.mpd"])
def test_a_link_in_place_of_a_playlist_is_not_written_through(
    sandbox: Sandbox, made: Made, name: str
) -> None:
    """The worker itself writes the playlists, outside the sandbox."""
    (outside := made[1] / "outside").write_text("precious")
    (made[1] / "both" / name).symlink_to(outside)
    assert_refused(sandbox, made)
    assert outside.read_text() == "precious"


def test_a_folder_in_place_of_a_playlist_is_refused(sandbox: Sandbox, made: Made) -> None:
    (made[1] / "both" / "master.m3u8").mkdir()
    assert_refused(sandbox, made)


@pytest.mark.parametrize(
    "name",
    [
        *(
            b"90p_x.evil",
            b"90p_1.m4s",
            b"90p_",
            b"90p_..mp4",
            b"90p_00000.m4s.",
            b"90p_00000.M4S",
            b"90p_00000.m4s\n",
        ),
        *(b"90p_\xff\xfe.m4s", b"90p_a\nb\x1b[31m.m4s", "90p_\u202egpj.m4s".encode(), b"90p_ .mp4"),
        *(b"90p_?versionId=1.m4s", b"90p_#.m4s", b"90p_%2e%2e%2f.m4s", b"90p_\\..\\x.m4s"),
        b"90p_" + b"n" * 240 + b".m4s",
    ],
)
def test_a_file_with_a_name_that_ffmpeg_does_not_give_is_not_published(
    sandbox: Sandbox, made: Made, name: bytes
) -> None:
    Path(os.fsdecode(os.fsencode(made[1] / "both") + b"/" + name)).write_bytes(b"strange")
    found = package(sandbox, made)
    assert f"both/{os.fsdecode(name)}" not in [path for path, _ in (*found.parts, *found.lists)]


def with_nodes(planned: Plan, **changes: Any) -> Plan:
    (command,) = planned.commands
    return replace(planned, commands=(replace(command, **changes),))


@pytest.mark.parametrize(
    "change",
    [
        lambda command: {"scales": (replace(command.scales[0], width=162),)},
        lambda command: {"videos": (replace(command.videos[0], codec="hevc"),)},
        lambda command: {"audios": (replace(command.audios[0], codec="opus"),)},
    ],
)
def test_another_track_than_was_planned_is_refused(
    sandbox: Sandbox, made: Made, change: Callable[[Any], dict[str, Any]]
) -> None:
    planned, folder = made
    assert_refused(sandbox, (with_nodes(planned, **change(planned.commands[0])), folder))


def test_a_rendition_that_ends_before_its_source_is_found(sandbox: Sandbox, made: Made) -> None:
    remove(made[1], 4, 5)
    assert_refused(sandbox, made, "output_truncated")


def test_tracks_without_a_language_keep_their_segments_apart(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    """An earlier version counted `audio_2_00001.m4s` as a segment of the rendition `audio`."""
    arguments = (
        "-f lavfi -i testsrc2=size=160x90:rate=25:duration=2 -f lavfi -i sine=440:duration=2"
        " -map 0:v -map 1:a -map 1:a -c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac"
    )
    source = clips.encoded("two-sounds.mkv", arguments)
    made = make(sandbox, source, [ADAPTIVE.model_copy(update={"audio": "all"})], tmp_path)
    assert [track.kind for track in made[-1].tracks] == ["video", "audio", "audio"]


def garbled(data: bytes) -> bytes:
    """Return the segment with its boxes, but with other bytes in the first half of its media."""
    start, end = data.index(b"mdat") + 4, len(data)
    half = (end - start) // 2
    return data[:start] + bytes(half) + data[start + half :]


def test_a_segment_whose_first_picture_cannot_be_decoded_is_refused(sandbox: Sandbox, made: Made) -> None:
    path = segment(made[1], 3)
    path.write_bytes(garbled(path.read_bytes()))
    with pytest.raises(MediaError, match=r"90p_00003\.m4s: its first picture") as refused:
        package(sandbox, made)
    assert (refused.value.code, refused.value.retry_class) == ("output_undecodable", RetryClass.PERMANENT)


def with_noise(data: bytes) -> bytes:
    """Return the segment with its boxes, but with noise in the second half of its media."""
    half = (data.index(b"mdat") + 4 + len(data)) // 2
    return data[:half] + Random(1).randbytes(len(data) - half)


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("audio", "hls")])
@pytest.mark.parametrize("damage", [garbled, with_noise])
def test_a_segment_whose_sound_cannot_be_decoded_is_refused(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, codec: str, damage: Callable[[bytes], bytes]
) -> None:
    """An earlier version decoded no sound of segments."""
    planned = encode_again(clips, sandbox, tmp_path, audio={"codec": codec}, video={"ladder": [64]})
    path = segment(tmp_path, 3, "audio")
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with pytest.raises(MediaError, match=r"audio_00003\.m4s: .*sound cannot be decoded") as refused:
        package(sandbox, (planned, tmp_path))
    assert (refused.value.code, refused.value.retry_class) == ("output_undecodable", RetryClass.PERMANENT)
    path.write_bytes(whole)
    assert len(package(sandbox, (planned, tmp_path)).tracks) == 2


def halve(init: Path, path: Path) -> None:
    """Remove the second half of a segment's samples, and the entries of these samples in the boxes."""
    _, track = read_track(str(init))
    with opened(str(path)) as (fd, size):
        layout = read_layout(fd, size)
        short = os.pread(fd, layout.head_end, 0)
        for moof, mdat in layout.fragments:
            head = read_moof(fd, moof)
            whole = read_fragment(head, moof, mdat, track.defaults, MOST_SAMPLES)
            count = len(whole.sizes) // 2
            columns = ("durations", "sizes", "flags", "shifts")
            half = replace(whole, **{name: getattr(whole, name)[:count] for name in columns})
            short += moof_box(head, moof, half) + box(b"mdat", os.pread(fd, sum(half.sizes), half.data_start))
    path.write_bytes(short)


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("audio", "hls")])
def test_a_sound_segment_that_ends_before_the_next_begins_is_refused(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, codec: str
) -> None:
    """An earlier version compared the decoded samples only with the boxes of the same segment."""
    planned = encode_again(clips, sandbox, tmp_path, audio={"codec": codec}, video={"ladder": [64]})
    halve(tmp_path / "both" / "audio_init.mp4", segment(tmp_path, 3, "audio"))
    with pytest.raises(MediaError, match=r"audio_00003\.m4s: it ends at 4\.99. s, but") as refused:
        package(sandbox, (planned, tmp_path))
    assert (refused.value.code, refused.value.retry_class) == ("output_undecodable", RetryClass.PERMANENT)


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp9", "av1"])
def test_the_first_picture_of_each_segment_decodes_in_every_codec(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, codec: str
) -> None:
    video = {"ladder": [90], "codec": codec}
    planned = encode_again(clips, sandbox, tmp_path, video=video)
    assert len(package(sandbox, (planned, tmp_path)).parts) > 5


def encode_again(clips: Clips, sandbox: Sandbox, folder: Path, **changes: Any) -> Plan:
    """Encode the film of these tests into the folder, with these changes of the output's settings."""
    output = AdaptiveOutput.model_validate(
        {"name": "both", "type": "adaptive", "segment_seconds": 2, "audio": None, **changes}
    )
    source = clips.make("long.mp4")
    planned = plan([output], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, folder)
    return planned


def test_a_rendition_that_lost_pictures_is_refused(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    """The segments have the planned times, but fewer pictures than the encoder was given."""
    right, other = tmp_path / "right", tmp_path / "other"
    right.mkdir()
    other.mkdir()
    planned = encode_again(clips, sandbox, right, video={"ladder": [90]})
    encode_again(clips, sandbox, other, video={"ladder": [90], "fps": 5})
    for path in (other / "both").glob("90p_*"):
        path.replace(right / "both" / path.name)
    message = "both/90p: it has 45 pictures, but its encoder was given 225"
    with pytest.raises(MediaError, match=message) as refused:
        package(sandbox, (planned, right))
    assert refused.value.code == "output_truncated"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"video": {"ladder": [90, 60], "fps": 5}}, r"60p_00001\.m4s: it has 10 pictures instead of 50"),
        ({"video": {"ladder": [90, 60]}, "segment_seconds": 3}, r"60p: its segments begin at other times"),
    ],
)
def test_renditions_whose_segments_differ_are_refused(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """A player that changes the level at a segment would repeat or miss pictures."""
    right, other = tmp_path / "right", tmp_path / "other"
    right.mkdir()
    other.mkdir()
    planned = encode_again(clips, sandbox, right, video={"ladder": [90, 60]})
    encode_again(clips, sandbox, other, **changes)
    for path in (right / "both").glob("60p_*"):
        path.unlink()
    for path in (other / "both").glob("60p_*"):
        path.rename(right / "both" / path.name)
    with pytest.raises(MediaError, match=message) as refused:
        package(sandbox, (planned, right))
    assert (refused.value.code, refused.value.retry_class) == ("output_undecodable", RetryClass.PERMANENT)
