"""Tests of a target quality: the search predicts the score of the encode, and is deterministic."""

from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.media.encoding.verify import Verified, verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import probe, run
from tests.media.outputs.product_path import parsed
from tests.media.readers.quality import vmaf
from tests.media.sources.cache import Sources, ffmpeg

CODECS = [codec.name for codec in codecs_for("video", "mp4")]


def film(target: float = 90, **video: Any) -> dict[str, Any]:
    video = {"target": {"vmaf": target}, **video}
    return {"name": "film", "type": "mp4", "audio": None, "video": video}


def made(sandbox: Sandbox, source: Path, folder: Path, *outputs: dict[str, Any]) -> Verified:
    folder.mkdir(exist_ok=True)
    planned = plan(parsed(outputs), probe(sandbox, source), threads=1)
    stats = run(sandbox, planned, source, folder)
    assert all(command.videos[0].goal is None for command in stats.plan.commands)
    return verify(sandbox, stats.plan, folder, failed=stats.failed)


def quality(found: Verified) -> dict[str, float]:
    (track,) = found.files[0].tracks
    return dict(track.quality or {})


def noisy_film(sources: Sources) -> Path:
    """Return a film of 30 s whose first half is harder to encode than its second half."""
    graph = (
        "mandelbrot=size=320x180:rate=25:end_pts=500,noise=alls=10:allf=t,trim=0:15[a];"
        "testsrc2=size=320x180:rate=25:duration=15[b];[a][b]concat,format=yuv420p"
    )
    return sources.get(
        "noisy-film.mkv",
        lambda path: ffmpeg(f"-filter_complex {graph} -c:v libx264 -preset ultrafast -crf 8 -g 25 {path}"),
    )


def two_sizes(sources: Sources) -> Path:
    """Return a film of 24 s whose picture size changes from 320x180 to 160x90 within one stream."""

    def generate(path: Path) -> None:
        parts = [path.with_name(f"{path.name}.{height}.h264") for height in (180, 90)]
        for part, size in zip(parts, ("320x180", "160x90"), strict=True):
            ffmpeg(
                f"-f lavfi -i testsrc2=size={size}:rate=25:duration=12 -c:v libx264 -preset ultrafast {part}"
            )
        joined = path.with_name(f"{path.name}.h264")
        joined.write_bytes(b"".join(part.read_bytes() for part in parts))
        ffmpeg(f"-r 25 -i {joined} -c copy {path}")

    return sources.get("two-sizes.mkv", generate)


def long_gap(sources: Sources) -> Path:
    """Return a film of 60 s with pictures only in its first and its last two seconds."""
    pictures = "testsrc2=size=320x180:rate=25:duration=60,select='lt(t,2)+gt(t,58)'"
    encode = "-fps_mode passthrough -c:v libx264 -preset ultrafast"
    return sources.get("long-gap.mkv", lambda path: ffmpeg(f'-f lavfi -i "{pictures}" {encode} {path}'))


@pytest.mark.parametrize("codec", CODECS)
def test_a_short_film_gets_what_the_search_predicts(
    sandbox: Sandbox, clips: Clips, tmp_path: Path, codec: str
) -> None:
    source = clips.make("film.mp4")
    found = made(sandbox, source, tmp_path, film(codec=codec))
    known = quality(found)
    assert known["vmaf"] == pytest.approx(known["predicted_vmaf"], abs=1.0)
    assert known["predicted_vmaf"] >= 90
    assert known["sample_seconds"] == pytest.approx(2.0)
    assert vmaf(found.files[0].path, source) == pytest.approx(known["vmaf"], abs=0.5)


def test_samples_predict_a_film_within_one_point(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    known = quality(made(sandbox, noisy_film(sources), tmp_path, film(93)))
    assert known["sample_seconds"] == 3.0
    assert known["vmaf"] == pytest.approx(known["predicted_vmaf"], abs=1.0)
    assert known["vmaf"] == pytest.approx(93, abs=1.5)


def test_the_same_film_gets_the_same_factor_and_the_same_bytes(
    sandbox: Sandbox, clips: Clips, tmp_path: Path
) -> None:
    runs = [
        made(sandbox, clips.make("film.mp4"), tmp_path / str(number), film(codec="hevc"))
        for number in range(3)
    ]
    assert [quality(one) for one in runs] == [quality(runs[0])] * 3
    assert len({one.files[0].path.read_bytes() for one in runs}) == 1


def test_every_rung_gets_its_own_factor(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    ladder = {"ladder": [180, 90], "target": {"vmaf": 93}}
    found = made(sandbox, clips.make("film.mp4"), tmp_path, {"name": "a", "type": "hls", "video": ladder})
    upper, lower = (track.quality for track in found.files[-1].tracks if track.kind == "video")
    for known in (upper, lower):
        assert known is not None
        assert known["vmaf"] == pytest.approx(known["predicted_vmaf"], abs=1.0)


def test_a_part_of_a_film_is_searched_in_that_part(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    """The second half of the film is easier to encode, so the search must find a higher CRF for it."""
    source = noisy_film(sources)
    hard = quality(made(sandbox, source, tmp_path / "hard", {**film(93), "start": 0, "end": 12}))
    easy = quality(made(sandbox, source, tmp_path / "easy", {**film(93), "start": 17}))
    assert easy["crf"] > hard["crf"]


def test_a_film_whose_size_changes_is_searched(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    """In an earlier version, ffmpeg hung when a sample had another picture size than the previous sample."""
    known = quality(made(sandbox, two_sizes(sources), tmp_path, film(93)))
    assert known["sample_seconds"] == 3.0
    assert known["vmaf"] == pytest.approx(known["predicted_vmaf"], abs=2.0)


def test_a_film_with_a_long_gap_is_searched(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    """Every sample lies within the gap, so no sample has pictures."""
    known = quality(made(sandbox, long_gap(sources), tmp_path, film(93)))
    assert known["predicted_vmaf"] >= 93


def test_a_search_that_fails_fails_the_job(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    source = tmp_path / "bad.mp4"
    data = bytearray(clips.make("film.mp4").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4000] = b"\xff" * 4000
    source.write_bytes(data)
    with pytest.raises(MediaError) as refused:
        made(sandbox, source, tmp_path / "out", film())
    assert refused.value.code == "source_damaged"


@pytest.mark.parametrize("matrix", ["ycgco", "chroma-derived-nc", "gbr"])
def test_a_matrix_that_the_filter_scale_does_not_know_has_a_target(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, matrix: str
) -> None:
    """In an earlier version, the search scaled pictures with the tags of the source, and failed."""
    tags = f"setparams=colorspace={matrix}:color_primaries=bt709:color_trc=bt709:range=tv"
    pictures = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=1"
    source = clips.encoded(f"{matrix}.mkv", f"{pictures} -vf format=yuv420p,{tags} -c:v ffv1")
    known = quality(made(sandbox, source, tmp_path, film()))
    assert known["vmaf"] == pytest.approx(known["predicted_vmaf"], abs=1.0)
