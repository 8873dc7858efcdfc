"""Tests of measured quality: an independent measurement of the finished file finds the same scores."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.media.encoding.verify import MadeFile, Verified, verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import probe, run
from tests.media.outputs.product_path import parsed
from tests.media.readers.pictures import picture_times
from tests.media.readers.quality import psnr, ssim, vmaf, xpsnr
from tests.media.sources.cache import Sources, ffmpeg

ALL = ["vmaf", "psnr", "ssim", "xpsnr"]
CODECS = [codec.name for codec in codecs_for("video", "mp4")]


def film(*, measure: Sequence[str] = (), vmaf_min: float | None = None, **video: Any) -> dict[str, Any]:
    """Return a film output. `video` has additional fields for the picture."""
    wanted = {"measure": list(measure), "vmaf_min": vmaf_min}
    return {"name": "film", "type": "mp4", "audio": None, **wanted, "video": {"crf": 35, **video}}


def made(sandbox: Sandbox, source: Path, folder: Path, *outputs: dict[str, Any]) -> Verified:
    planned = plan(parsed(outputs), probe(sandbox, source), threads=1)
    stats = run(sandbox, planned, source, folder)
    return verify(sandbox, planned, folder, failed=stats.failed)


def scores(file: MadeFile) -> dict[str, float]:
    (track,) = file.tracks
    return dict(track.quality or {})


@pytest.mark.parametrize("codec", CODECS)
def test_the_scores_are_those_of_the_finished_file(
    sandbox: Sandbox, clips: Clips, tmp_path: Path, codec: str
) -> None:
    source = clips.make("film.mp4")
    (file,) = made(sandbox, source, tmp_path, film(codec=codec, measure=ALL)).files
    found = scores(file)
    assert found["psnr"] == pytest.approx(psnr(file.path, source), abs=0.02)
    assert found["ssim"] == pytest.approx(ssim(file.path, source), abs=1e-4)
    assert found["xpsnr"] == pytest.approx(xpsnr(file.path, source), abs=0.02)
    # VMAF is computed for every third picture. When it was computed for every fifth picture, the
    # score of x265 was 4.5 too high.
    assert found["vmaf"] == pytest.approx(vmaf(file.path, source), abs=0.3)
    assert found["vmaf_p1"] <= found["vmaf"]


@pytest.mark.parametrize("codec", CODECS)
def test_the_pictures_that_are_left_out_do_not_change_the_score(
    sandbox: Sandbox, sources: Sources, tmp_path: Path, codec: str
) -> None:
    """Two methods of leaving out pictures give the same VMAF.

    If only VMAF is measured, a filter drops pictures. If PSNR is measured too, libvmaf skips these pictures.
    """
    scene = "size=160x90:rate=25:duration=4"
    scenes = f"testsrc2={scene}[a];mandelbrot=size=160x90:rate=25,trim=duration=4[b];testsrc={scene}[c]"
    joined = f"-filter_complex {scenes};[a][b][c]concat=n=3,format=yuv420p -c:v libx264 -crf 10"
    source = sources.get("scenes-of-12-seconds.mp4", lambda path: ffmpeg(f"{joined} {path}"))
    found = []
    for number, measure in enumerate((["vmaf"], ["vmaf", "psnr"])):
        (folder := tmp_path / str(number)).mkdir()
        (file,) = made(sandbox, source, folder, film(codec=codec, measure=measure)).files
        found.append((scores(file)["vmaf"], scores(file)["vmaf_p1"]))
    assert found[0] == found[1]
    # The mean VMAF of every 7th picture differs from the mean of all pictures by at most 0.8 points, in films
    # of 12 s with several scenes.
    assert found[0][0] == pytest.approx(vmaf(file.path, source), abs=0.8)


def test_the_pictures_of_a_variable_rate_that_are_left_out_do_not_change_the_score(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    uneven = "-f lavfi -i testsrc2=size=160x90:rate=60:duration=14 "
    uneven += "-vf \"select='lt(t,2)+not(mod(n,6))'\""
    source = sources.get(
        "uneven-14-seconds.mkv",
        lambda path: ffmpeg(f"{uneven} -fps_mode vfr -c:v libx264 -pix_fmt yuv420p {path}"),
    )
    found = []
    for number, measure in enumerate((["vmaf"], ["vmaf", "psnr"])):
        (folder := tmp_path / str(number)).mkdir()
        (file,) = made(sandbox, source, folder, film(measure=measure)).files
        found.append(scores(file)["vmaf"])
    assert found[0] == found[1]


def test_each_picture_of_a_variable_rate_is_compared_with_itself(
    sandbox: Sandbox, clips: Clips, tmp_path: Path
) -> None:
    """An earlier version rounded the times of the reference to a frame rate, and compared wrong pictures."""
    source = clips.make("uneven.mkv")
    (file,) = made(sandbox, source, tmp_path, film(crf=10, measure=ALL)).files
    (log,) = (tmp_path / ".quality").glob("*-psnr.log")
    assert len(log.read_text().splitlines()) == len(picture_times(file.path))
    assert scores(file)["psnr"] == pytest.approx(psnr(file.path, source), abs=0.02)


def test_a_measured_film_has_the_bytes_of_the_film(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    hashes = set()
    for number, measure in enumerate([[], ["vmaf"], ALL]):
        (folder := tmp_path / str(number)).mkdir()
        (file,) = made(sandbox, clips.make("film.mp4"), folder, film(measure=measure)).files
        hashes.add(sha256(file.path.read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_the_same_film_has_the_same_scores(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    found = []
    for number in range(3):
        (folder := tmp_path / str(number)).mkdir()
        (file,) = made(sandbox, clips.make("film.mp4"), folder, film(codec="av1", measure=ALL)).files
        found.append(scores(file))
    assert found == [found[0]] * 3


def test_the_second_of_two_passes_is_measured(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    two = film(crf=None, bitrate_kbps=100, measure=["psnr"])
    (file,) = made(sandbox, clips.make("film.mp4"), tmp_path, two).files
    assert scores(file)["psnr"] == pytest.approx(psnr(file.path, clips.make("film.mp4")), abs=0.02)


def test_every_rung_has_its_own_scores(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    ladder = {"ladder": [180, {"height": 90, "crf": 45}]}
    output = {"name": "hls", "type": "hls", "measure": ["vmaf"], "video": ladder}
    tracks = made(sandbox, clips.make("film.mp4"), tmp_path, output).files[-1].tracks
    upper, lower, sound = (track.quality for track in tracks)
    assert upper is not None
    assert lower is not None
    assert upper["vmaf"] > lower["vmaf"] + 5
    assert sound is None


def test_pictures_that_keep_hdr_have_a_psnr_and_a_ssim(
    sandbox: Sandbox, clips: Clips, tmp_path: Path
) -> None:
    kept = film(codec="hevc", crf=20, hdr="keep", measure=ALL)
    (file,) = made(sandbox, clips.make("hdr.mp4"), tmp_path, kept).files
    assert list(scores(file)) == ["psnr", "ssim"]
    assert scores(file)["ssim"] == pytest.approx(ssim(file.path, clips.make("hdr.mp4")), abs=1e-4)


def test_the_lowest_vmaf_is_that_of_the_attempt(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    good, bad = film(crf=20, measure=["vmaf"]), {**film(crf=45, measure=["vmaf"]), "name": "bad"}
    found = made(sandbox, clips.make("film.mp4"), tmp_path, good, bad)
    assert found.lowest_vmaf == min(scores(file)["vmaf"] for file in found.files)


def test_nothing_is_measured_unless_it_is_asked_for(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    found = made(sandbox, clips.make("film.mp4"), tmp_path, film())
    assert found.lowest_vmaf is None
    assert found.files[0].tracks[0].quality is None
    assert not (tmp_path / ".quality").exists()


# -- the minimum VMAF


def test_a_film_below_the_least_vmaf_fails(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    with pytest.raises(MediaError) as refused:
        made(sandbox, clips.make("film.mp4"), tmp_path, film(crf=50, vmaf_min=95))
    assert refused.value.code == "quality_too_low"
    assert refused.value.retry_class == "permanent"


def test_a_rung_below_the_least_vmaf_fails(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    ladder = {"ladder": [{"height": 180, "crf": 10}, {"height": 90, "crf": 51}]}
    output = {"name": "hls", "type": "hls", "vmaf_min": 80, "video": ladder}
    with pytest.raises(MediaError, match="hls/90p") as refused:
        made(sandbox, clips.make("film.mp4"), tmp_path, output)
    assert refused.value.code == "quality_too_low"


def test_a_film_that_reaches_the_least_vmaf_passes(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    (file,) = made(sandbox, clips.make("film.mp4"), tmp_path, film(crf=15, vmaf_min=80)).files
    assert scores(file)["vmaf"] >= 80


def test_an_optional_film_below_the_least_vmaf_is_left_out(
    sandbox: Sandbox, clips: Clips, tmp_path: Path
) -> None:
    low = {**film(crf=50, vmaf_min=95), "optional": True}
    found = made(sandbox, clips.make("film.mp4"), tmp_path, low, {**film(), "name": "other"})
    assert [file.output for file in found.files] == ["other"]
    assert [(warning.code, warning.output) for warning in found.failed] == [("output_failed", "film")]


# -- results that a compromised ffmpeg could write


@pytest.mark.parametrize("text", ["", "Frame,vmaf,\n0,1e999,\n", "n:1\n", "Frame,vmaf,\n0,101,\n"])
def test_a_film_without_trustworthy_scores_fails(
    sandbox: Sandbox, clips: Clips, tmp_path: Path, text: str
) -> None:
    source = clips.make("film.mp4")
    planned = plan(parsed([film(vmaf_min=1)]), probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    (log,) = (tmp_path / ".quality").iterdir()
    log.write_text(text)
    with pytest.raises(MediaError) as refused:
        verify(sandbox, planned, tmp_path)
    assert refused.value.code == "output_undecodable"


def test_a_link_in_place_of_the_scores_is_not_followed(
    sandbox: Sandbox, clips: Clips, tmp_path: Path
) -> None:
    source = clips.make("film.mp4")
    (outside := tmp_path / "outside").write_text("Frame,vmaf,\n0,99,\n")
    (folder := tmp_path / "out").mkdir()
    planned = plan(parsed([film(vmaf_min=1)]), probe(sandbox, source), threads=1)
    run(sandbox, planned, source, folder)
    (log,) = (folder / ".quality").iterdir()
    log.unlink()
    log.symlink_to(outside)
    with pytest.raises(MediaError) as refused:
        verify(sandbox, planned, folder)
    assert refused.value.code == "output_undecodable"
