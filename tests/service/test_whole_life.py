"""Test one job from POST /transcode to its verified webhook, with all parts real."""

from pathlib import Path

import av
import pytest

from tests.service.installation import Installation

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


def test_a_clip_becomes_a_film_and_its_requester_hears_of_it(installation: Installation, media: Path) -> None:
    with installation.served() as client:
        job = client.submit(installation.request("clip.mp4", external_id="asset-42"))
        done = client.wait(job.job_id, timeout=60)
        assert (done.status, done.error) == ("succeeded", None)
        event = installation.receiver.await_event(job.job_id, "job.succeeded")
    (output,) = event.outputs
    assert output["url"] == "s3://media/out/mp4.mp4"
    with av.open(str(media / "out" / "mp4.mp4")) as made:
        assert (made.streams.video[0].codec_context.name, made.streams.audio[0].codec_context.name) == (
            "h264",
            "aac",
        )
    assert event.external_id == "asset-42"
    types = [each.type.removeprefix("job.") for each in installation.receiver.events(job.job_id)]
    assert types == ["claimed", "fetching", "processing", "uploading", "succeeded"]
    assert installation.leftovers() == []
