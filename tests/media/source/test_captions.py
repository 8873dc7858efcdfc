"""Tests of reading closed captions in the sandbox: their texts and times are right."""

import re
from itertools import pairwise
from pathlib import Path
from shutil import copyfile

import av
import pytest

from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.cues import SourceCue
from tests.media.media_steps import probe
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.captions import CAPTIONS, PICTURES, RATE, captioned, roll_up, write

_VTT = re.compile(r"00:(\d\d\.\d{3}) --> 00:(\d\d\.\d{3})\n(.*)\n")


def cues(sandbox: Sandbox, path: Path, index: int = 0) -> tuple[SourceCue, ...]:
    with path.open("rb") as file:
        (track,) = sandbox.subtitles(file.fileno(), [index])
    return track.cues


def first_picture(path: Path) -> float:
    with av.open(path) as container:
        times = [one.pts * one.time_base for one in container.demux(video=0) if one.pts is not None]
    return float(min(times))


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [("h264", "mp4"), ("h264", "ts"), ("h264", "mkv"), ("hevc", "mp4"), ("hevc", "ts"), ("mpeg2video", "ts")],
)
def test_captions_appear_with_their_pictures(
    sandbox: Sandbox, sources: Sources, codec: str, suffix: str
) -> None:
    path = captioned(sources, codec, suffix)
    zero = first_picture(path)
    found = cues(sandbox, path)
    assert [cue.text for cue in found] == [one.text for one in CAPTIONS]
    for cue, one in zip(found, CAPTIONS, strict=True):
        assert cue.start == pytest.approx(1000 * (zero + one.start / RATE), abs=2)
        assert cue.end == pytest.approx(1000 * (zero + one.end / RATE), abs=2)


def test_the_probe_finds_captions(sandbox: Sandbox, sources: Sources) -> None:
    found = probe(sandbox, captioned(sources)).video
    assert found is not None
    assert found.has_captions


def test_ffmpeg_reads_the_same_captions(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    """ffmpeg decodes every picture to read the captions, so it is an independent reader."""
    path = captioned(sources, "h264", "ts")
    copyfile(path, tmp_path / "film.ts")
    ffmpeg(
        f"-f lavfi -i movie={tmp_path}/film.ts[out0+subcc] -map 0:s -c:s webvtt -f webvtt {tmp_path}/out.vtt"
    )
    oracle = _VTT.findall((tmp_path / "out.vtt").read_text())
    zero = 1000 * first_picture(path)
    shown = [(cue.start - zero, cue.end - zero, cue.text) for cue in cues(sandbox, path)]
    assert [text for _, _, text in shown] == [text for *_, text in oracle]
    for (start, end, _), (begun, ended, _) in zip(shown, oracle, strict=True):
        assert (start, end) == pytest.approx((1000 * float(begun), 1000 * float(ended)), abs=2)


def test_lines_that_roll_up_are_read(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "rolling.ts"
    write(path, "h264", roll_up([(2, "FIRST"), (25, "NEXT"), (50, "LAST")], PICTURES))
    found = cues(sandbox, path)
    assert [cue.text for cue in found] == ["FIRST", "FIRST\nNEXT", "NEXT\nLAST"]
    assert all(before.end <= after.start for before, after in pairwise(found))


def test_a_caption_that_nothing_erases_ends(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "endless.ts"
    write(path, "h264", roll_up([(2, "FOR EVER")], PICTURES))
    (cue,) = cues(sandbox, path)
    assert cue.end - cue.start <= 6_000


def test_pictures_without_captions_have_no_cues(sandbox: Sandbox, sources: Sources) -> None:
    path = sources.get(
        "no-captions.mp4",
        lambda path: ffmpeg(f"-f lavfi -i testsrc2=size=160x96:rate=25:duration=1 -c:v libx264 {path}"),
    )
    assert cues(sandbox, path) == ()


def test_a_track_of_captions_is_read(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    """QuickTime files have the byte pairs in a separate track (`c608`)."""
    path = tmp_path / "track.mov"
    scc = tmp_path / "captions.scc"
    pairs = "9420 9420 94ae 94ae 9470 9470 c8e9 942f 942f"  # "Hi"
    erased = "".join(
        f"\n\n00:00:02:{frame:02d}\t942c 942c" for frame in (0, 15)
    )  # ffmpeg drops the last line
    scc.write_text(f"Scenarist_SCC V1.0\n\n00:00:00:15\t{pairs}{erased}\n")
    ffmpeg(f"-i {captioned(sources)} -i {scc} -map 0:v -map 1 -c copy {path}")
    found = probe(sandbox, path)
    assert [stream.codec for stream in found.streams if stream.kind == "subtitle"] == ["eia_608"]
    (cue,) = cues(sandbox, path, 1)
    assert cue.text == "Hi"
    assert cue.end == pytest.approx(2_000, abs=40)
