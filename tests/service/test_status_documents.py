"""Test on each engine what the status document of a real job and its last event say about the outputs."""

from pathlib import Path
from typing import Any

import av
import pytest

from euterpe.client import Job
from tests.media.sources.cache import Sources, sources
from tests.media.sources.sounds import two_languages
from tests.service.installation import Installation

__all__ = ["sources"]

HLS = {"name": "hls", "type": "hls", "segment_seconds": 2, "video": {"ladder": [90]}}
SOUND = {"name": "sound", "type": "m4a", "audio": {"language": "deu"}}
FILM = {"name": "film", "type": "mp4", "audio": None, "optional": True}


@pytest.fixture
def two_sounds(media: Path, sources: Sources) -> None:
    (media / "two.mkv").write_bytes(two_languages(sources).read_bytes())


@pytest.fixture
def bad_pictures(media: Path) -> None:
    """Put a film with undamaged sound, and with one picture that cannot be decoded, into the bucket."""
    with av.open(str(media / "clip.mp4")) as film:
        pictures = [packet for packet in film.demux(video=0) if packet.size]
        places = [(packet.pos, packet.size) for packet in pictures[len(pictures) // 2 :]]
    data = bytearray((media / "clip.mp4").read_bytes())
    for start, size in places:
        assert start is not None
        data[start : start + size] = b"\xff" * size
    (media / "bad.mp4").write_bytes(data)


def ended(installation: Installation, source: str, *outputs: dict[str, Any], folder: str = "out") -> Job:
    """Return the job after its end and its last event.

    Check that the last event and the job have equal outputs.
    """
    with installation.served() as client:
        request = installation.request(source, profile=None, outputs=list(outputs))
        request["output"] = {"url": f"s3://media/{folder}/"}
        job = client.wait(client.submit(request).job_id, timeout=60)
        event = installation.receiver.await_event(job.job_id, f"job.{job.status}")
    assert event.outputs == job.outputs
    return job


@pytest.mark.usefixtures("two_sounds")
def test_a_status_names_the_renditions_and_what_is_missing(installation: Installation) -> None:
    job = ended(installation, "two.mkv", HLS, SOUND)
    assert job.error is None
    assert job.status == "succeeded"
    hls, sound = job.outputs
    assert [(one["kind"], one["height"], one["language"]) for one in hls["renditions"]] == [
        ("video", 90, None),
        ("audio", None, "eng"),
    ]
    assert hls["renditions"][0]["codec"].startswith("avc1.")
    assert all(one["bitrate"] > 0 for one in hls["renditions"])
    (track,) = sound["renditions"]
    assert (track["kind"], track["codec"], track["language"]) == ("audio", "aac", "deu")
    assert [(one["code"], one["output"]) for one in job.warnings] == [
        ("audio_track_dropped", "hls"),
        ("audio_track_dropped", "sound"),
    ]


def test_a_status_has_the_measured_quality_of_the_picture(installation: Installation) -> None:
    job = ended(
        installation,
        "clip.mp4",
        {**FILM, "name": "scored", "audio": "all", "measure": ["vmaf", "ssim"]},
    )
    assert job.error is None
    (output,) = job.outputs
    picture, sound = output["renditions"]
    assert output["quality"] == picture["quality"]
    assert sorted(picture["quality"]) == ["ssim", "vmaf", "vmaf_p1"]
    assert 50 < picture["quality"]["vmaf"] <= 100
    assert sound["quality"] is None


def test_a_status_has_the_lowest_scores_of_a_ladder(installation: Installation) -> None:
    ladder = {"ladder": [{"height": 90, "crf": 20}, {"height": 60, "crf": 45}]}
    job = ended(installation, "clip.mp4", {**HLS, "measure": ["vmaf", "psnr"], "video": ladder})
    assert job.error is None
    (output,) = job.outputs
    upper, lower = (one["quality"] for one in output["renditions"] if one["kind"] == "video")
    assert output["quality"] == {name: min(upper[name], lower[name]) for name in upper}
    assert upper["vmaf"] > lower["vmaf"]


def test_a_status_tells_the_rate_factor_the_prediction_and_the_score(installation: Installation) -> None:
    """The request is one that a new user would send: AV1 with a VMAF of 93."""
    video = {"codec": "av1", "target": {"vmaf": 93}}
    job = ended(
        installation, "clip.mp4", {"name": "web", "type": "webm", "measure": ["ssim"], "video": video}
    )
    assert job.error is None
    (output,) = job.outputs
    quality = output["quality"]
    assert sorted(quality) == ["crf", "predicted_vmaf", "sample_seconds", "ssim", "vmaf", "vmaf_p1"]
    assert quality["predicted_vmaf"] >= 93
    assert quality["vmaf"] == pytest.approx(quality["predicted_vmaf"], abs=1.0)
    picture, sound = output["renditions"]
    assert (picture["quality"], sound["quality"]) == (quality, None)


def test_a_film_below_its_least_vmaf_fails_the_job(installation: Installation, media: Path) -> None:
    film = {**FILM, "optional": False, "vmaf_min": 95, "video": {"crf": 50}}
    job = ended(installation, "clip.mp4", film, folder="too-low")
    assert job.status == "failed"
    assert job.error is not None
    assert (job.error["code"], job.error["retryable"]) == ("quality_too_low", False)
    assert not (media / "too-low").exists()
    assert installation.leftovers() == []


@pytest.mark.usefixtures("bad_pictures")
def test_an_optional_output_that_fails_is_a_warning_and_no_output(
    installation: Installation, media: Path
) -> None:
    job = ended(installation, "bad.mp4", {"name": "sound", "type": "m4a"}, FILM, folder="optional")
    assert job.error is None
    assert job.status == "succeeded"
    assert [output["name"] for output in job.outputs] == ["sound"]
    (warning,) = job.warnings
    assert (warning["code"], warning["output"]) == ("output_failed", "film")
    assert not (media / "too-low").exists()
    assert installation.leftovers() == []


@pytest.mark.usefixtures("bad_pictures")
def test_an_output_that_is_not_optional_fails_the_job(installation: Installation) -> None:
    job = ended(installation, "bad.mp4", {"name": "sound", "type": "m4a"}, {**FILM, "optional": False})
    assert (job.status, job.outputs) == ("failed", [])
    assert job.error is not None
    assert job.error["code"] == "source_damaged"
