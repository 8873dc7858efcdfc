"""Tests of HLS outputs: ladders, segments, playlists and their verification."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.domain.outputs import HlsOutput, HlsVideo
from euterpe.media.encoding.verify import MadeFile, verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.plan import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import TIMEOUT_S, make, probe, run


def ladder(codec: str = "h264", **options: object) -> HlsOutput:
    return HlsOutput.model_validate(
        {
            "name": "hls",
            "type": "hls",
            "segment_seconds": 3,
            "video": {"codec": codec, "ladder": [90, 64]},
            **options,
        }
    )


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("video", "hls")])
def test_a_ladder_is_published_from_its_segments_up(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, codec: str
) -> None:
    made = make(sandbox, clips.make("long.mp4"), [ladder(codec)], tmp_path)
    names = [file.name for file in made]
    assert names[-1] == "hls/master.m3u8"
    for name in ("90p", "64p", "audio"):
        playlist = (tmp_path / f"hls/{name}.m3u8").read_text().splitlines()
        segments = [line for line in playlist if not line.startswith("#")]
        assert len(segments) >= 3
        for part in (*segments, f"{name}_init.mp4"):
            assert names.index(f"hls/{part}") < names.index(f"hls/{name}.m3u8")
    sizes = {file.name: (file.width, file.height) for file in made if file.width}
    assert sizes == {"hls/90p.m3u8": (160, 90), "hls/64p.m3u8": (114, 64)}
    assert {file.content_type for file in made} == {
        "application/vnd.apple.mpegurl",
        "video/iso.segment",
        "video/mp4",
    }


def test_every_rendition_changes_segments_at_the_same_moments(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    make(sandbox, clips.make("long.mp4"), [ladder()], tmp_path)
    lengths = [
        [line for line in (tmp_path / f"hls/{name}.m3u8").read_text().splitlines() if "EXTINF" in line]
        for name in ("90p", "64p")
    ]
    assert lengths == [["#EXTINF:3.000000,"] * 3] * 2


def test_a_ladder_without_sound(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    for source, output in (("silent.mp4", ladder()), ("film.mp4", ladder(audio=None))):
        folder = tmp_path / source
        folder.mkdir()
        made = make(sandbox, clips.make(source), [output], folder)
        assert "AUDIO" not in made[-1].path.read_text()


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("film.mp4", {}),
        ("film.mp4", {"video": {"ladder": [90]}}),
        ("film.mp4", {"video": {"ladder": [90]}, "audio": None}),
        ("silent.mp4", {"video": {"ladder": [90]}}),
        ("silent.mp4", {"video": {"ladder": [720, 480]}}),  # both are reduced to the 90 lines of the source
    ],
)
def test_what_is_published_plays_to_its_end(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, source: str, options: dict[str, Any]
) -> None:
    made = make(sandbox, clips.make(source), [ladder(**options)], tmp_path)
    assert pictures_played(sandbox, made, tmp_path / "published") == 50


def pictures_played(sandbox: Sandbox, made: tuple[MadeFile, ...], folder: Path) -> int:
    """Return how many pictures ffmpeg plays from the master playlist if only the published files exist."""
    for file in made:
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file.path, folder / file.name)
    command = f"{sandbox.ffmpeg} -v error -xerror -i hls/master.m3u8 -map 0:v:0 -f framecrc -"
    played = subprocess.run(
        command.split(), cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    assert played.stderr == ""
    return sum(not line.startswith("#") for line in played.stdout.splitlines())


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("90p_00001.m4s", lambda _: b""),
        ("90p_00002.m4s", lambda data: data[: len(data) // 2]),
        ("90p_00000.m4s", lambda data: bytes(len(data))),
        ("90p_init.mp4", lambda _: b""),
        ("audio_00002.m4s", None),
        ("64p.m3u8", lambda data: data[:-20]),
        ("master.m3u8", lambda data: data.replace(b"64p.m3u8", b"")),
        ("master.m3u8", None),
    ],
)
def test_a_damaged_ladder_is_found(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, part: str, damage: object
) -> None:
    source = clips.make("long.mp4")
    planned = plan([ladder()], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    path = tmp_path / "hls" / part
    if callable(damage):
        path.write_bytes(damage(path.read_bytes()))
    else:
        path.unlink()
    with pytest.raises(MediaError) as refused:
        verify(sandbox, planned, tmp_path)
    assert refused.value.code in ("output_undecodable", "output_truncated")


@pytest.mark.parametrize(
    ("playlist", "part"),
    [("90p.m3u8", "90p_init.mp4"), ("audio.m3u8", "audio_00001.m4s"), ("master.m3u8", "audio.m3u8")],
)
def test_a_playlist_that_names_what_is_not_published_is_found(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, playlist: str, part: str
) -> None:
    """The file exists in the folder, but it is not published."""
    source, folder = clips.make("long.mp4"), tmp_path / "hls"
    planned = plan([ladder()], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    shutil.copy(folder / part, folder / f"other{part}")
    (folder / playlist).write_text((folder / playlist).read_text().replace(part, f"other{part}"))
    with pytest.raises(MediaError, match=f"other{part}") as refused:
        verify(sandbox, planned, tmp_path)
    assert refused.value.code == "output_undecodable"


def test_a_ladder_counts_as_one_output(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    """The sum of the files reaches the limit. No single file does."""
    source = clips.make("long.mp4")
    six_steps = HlsOutput(
        name="hls", type="hls", segment_seconds=1, video=HlsVideo(ladder=(90, 88, 86, 84, 82, 80))
    )
    planned = plan([six_steps], probe(sandbox, source), threads=1)
    with pytest.raises(MediaError) as refused:
        run(sandbox, planned, source, tmp_path, max_output_bytes=60_000)
    assert refused.value.code == "output_too_large"
    assert "hls" in str(refused.value)
