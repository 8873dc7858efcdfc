"""Test a job from POST /transcode to its verified webhook, with real parts only."""

import json
import re
from pathlib import Path
from typing import Any

import av
import pytest

from euterpe.client import Invalid
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


def own_storage_request(installation: Installation) -> dict[str, Any]:
    """Return the request for own storage from docs/integrate.md, with the keys and address of our store."""
    page = (Path(__file__).parents[2] / "docs" / "integrate.md").read_text()
    section = page.partition("### Storage of your own\n")[2]
    (text,) = re.findall(r"^```json\n(.*?)^```$", section.partition("\n### ")[0], re.DOTALL | re.MULTILINE)
    request: dict[str, Any] = json.loads(text)
    keys = installation.s3.document()
    request["credentials"] |= {name: keys[name] for name in request["credentials"]}
    return request


def test_the_example_of_a_store_with_the_s3_protocol_runs(installation: Installation, media: Path) -> None:
    (media / "a.mov").write_bytes((media / "clip.mp4").read_bytes())
    request = own_storage_request(installation)
    with installation.served() as client:
        done = client.wait(client.submit(request).job_id, timeout=60).raise_for_failure()
        assert [output["url"] for output in done.outputs] == ["s3://media/out/audio.m4a"]
        request["credentials"]["endpoint"] = "http://minio.internal:9000"
        with pytest.raises(Invalid, match="EUTERPE_STORAGE_ENDPOINTS"):
            client.submit(request)
    assert (media / "out" / "audio.m4a").stat().st_size == done.outputs[0]["size_bytes"]
