"""Test the profile `podcast` with a quiet recording, as a new user would: source, job, file, status."""

from pathlib import Path

import av
import pytest

from tests.media.readers.loudness import loudness, true_peak
from tests.media.readers.media import end_seconds, sound
from tests.media.readers.streams import streams
from tests.media.sources.cache import Sources, sources
from tests.media.sources.speech import podcast, podcast_with_cover
from tests.service.installation import Installation

__all__ = ["sources"]


@pytest.fixture(params=["wav", "mp3"])
def source(request: pytest.FixtureRequest, media: Path, sources: Sources) -> Path:
    """Put a quiet stereo recording into the bucket: a WAV file, or an MP3 file with tags and a cover."""
    made = podcast(sources) if request.param == "wav" else podcast_with_cover(sources)
    path = media / f"episode.{request.param}"
    path.write_bytes(made.read_bytes())
    return path


def test_a_quiet_recording_becomes_a_podcast(installation: Installation, media: Path, source: Path) -> None:
    assert loudness(source) < -28
    folder = f"out-{installation.requester_id}"
    request = installation.request(
        source.name, profile="podcast", output={"url": f"s3://media/{folder}/"}, webhook_events=["succeeded"]
    )
    with installation.served() as client:
        job = client.wait(client.submit(request).job_id, timeout=60)
    assert (job.status, job.error) == ("succeeded", None)
    (output,) = job.outputs
    made = media / folder / "podcast.mp3"
    assert loudness(made) == pytest.approx(-16.0, abs=0.3)
    assert true_peak(made) < -0.5
    assert [stream.kind for stream in streams(made)] == ["audio"]
    assert len(sound(made).samples) == 1
    assert end_seconds(made) == pytest.approx(end_seconds(source), abs=0.1)
    (track,) = output["renditions"]
    assert track["measured_lufs"] == pytest.approx(loudness(source), abs=3.5)  # the level of the mono mix
    assert track["measured_lufs"] + track["gain_db"] == pytest.approx(-16.0, abs=0.1)
    assert "loudness_limited" not in [warning["code"] for warning in job.warnings]
    with av.open(str(source)) as before, av.open(str(made)) as after:
        assert after.metadata.get("title") == before.metadata.get("title")
