"""The first jobs of new users on the running service: a phone's clip for a player, a film in two languages.

Each request is sent to the API, a worker makes the outputs, and independent readers check the stored files.
"""

from pathlib import Path
from typing import Any

import pytest

from euterpe.client import Job
from tests.media.readers.media import end_seconds, frames, plane
from tests.media.readers.pictures import numbered_pictures
from tests.media.readers.renditions import dash_renditions, hls_media, hls_variants
from tests.media.readers.sounds import sine_levels
from tests.media.readers.streams import mediainfo_languages, size
from tests.media.readers.subtitles import dash_subtitles, hls_subtitles
from tests.media.sources.cache import Sources
from tests.media.sources.number_blocks import read
from tests.media.sources.phone import FPS, SECONDS, portrait_clip
from tests.media.sources.sounds import CUES, LANGUAGES, subtitled_in_two_languages
from tests.service.installation import Installation

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)

PLAYER: list[dict[str, Any]] = [
    {"name": "stream", "type": "adaptive", "segment_seconds": 2, "video": {"ladder": "auto"}},
    {"name": "poster", "type": "image", "at": "best"},
    {"name": "seek", "type": "sprite", "interval_seconds": 1, "columns": 2},
]
FILM: list[dict[str, Any]] = [
    {
        "name": "stream",
        "type": "adaptive",
        "segment_seconds": 1,
        "video": {"ladder": [90]},
        "audio": "all",
        "subtitles": "all",
    },
    {"name": "film", "type": "mp4", "audio": "all"},
]


def walk(installation: Installation, request: dict[str, Any]) -> Job:
    """Submit the request. Return the job when it has succeeded and its last webhook was delivered."""
    with installation.served() as client:
        job = client.submit(request)
        done = client.wait(job.job_id, timeout=60).raise_for_failure()
        installation.receiver.await_event(job.job_id, "job.succeeded")
    assert installation.leftovers() == []
    return done


def output(job: Job, name: str) -> dict[str, Any]:
    (found,) = (dict(one) for one in job.outputs or () if one["name"] == name)
    return found


def kinds(document: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(one["kind"], one["language"]) for one in document["renditions"]]


def test_a_portrait_clip_of_a_phone_becomes_a_stream_with_a_poster_and_a_seek_bar(
    installation: Installation, media: Path, sources: Sources
) -> None:
    (media / "phone.mov").write_bytes(portrait_clip(sources).read_bytes())
    done = walk(installation, installation.request("phone.mov", profile=None, outputs=PLAYER))
    assert (done.warnings or []) == []
    out = media / "out"

    # The stream is for HLS and DASH players, and has two portrait sizes. Each size has all pictures of the
    # clip.
    stream = output(done, "stream")
    assert (stream["url"], stream["duration_seconds"]) == ("s3://media/out/stream/master.m3u8", SECONDS)
    variants = hls_variants(out / "stream" / "master.m3u8")
    assert [one.attributes["RESOLUTION"] for one in variants] == ["360x640", "240x426"]
    assert len(dash_renditions(out / "stream" / "manifest.mpd", "video")) == 2
    for variant in variants:
        shown = numbered_pictures(variant.media)
        assert [one.number for one in shown] == [*range(SECONDS * FPS)]
        assert [one.seconds for one in shown] == pytest.approx(
            [n / FPS for n in range(SECONDS * FPS)], abs=0.001
        )
    (sound,) = hls_media(out / "stream" / "master.m3u8")
    assert sine_levels(sound.media, 440)[0] > 0.05

    # The poster is an upright picture of the clip.
    poster = out / output(done, "poster")["url"].removeprefix("s3://media/out/")
    assert size(poster) == (360, 640)
    assert read(plane(next(frames(poster))[1])) in range(SECONDS * FPS)

    # The sheets have one thumbnail for each second, at the position that the WebVTT file gives.
    assert output(done, "seek")["url"].endswith("/seek/sprite.vtt")
    thumbnails = [line for line in (out / "seek" / "sprite.vtt").read_text().splitlines() if "#xywh=" in line]
    assert [number_at(out / "seek", one) for one in thumbnails] == [0, 25, 50, 75]


def number_at(folder: Path, place: str) -> int:
    """Return the number that a thumbnail shows. `place` is its position, such as `1.jpg#xywh=0,0,90,160`."""
    name, _, area = place.partition("#xywh=")
    left, top, width, height = map(int, area.split(","))
    luma = plane(next(frames(folder / name))[1])
    assert width < height
    return read(luma[top : top + height, left : left + width])


def test_a_film_in_two_languages_keeps_both_and_its_subtitles(
    installation: Installation, media: Path, sources: Sources
) -> None:
    (media / "film.mkv").write_bytes(subtitled_in_two_languages(sources).read_bytes())
    done = walk(installation, installation.request("film.mkv", profile=None, outputs=FILM))
    out = media / "out"

    # The stream has both sounds with their languages. The first sound is the default.
    master = out / "stream" / "master.m3u8"
    sounds = {one.attributes["LANGUAGE"]: one for one in hls_media(master)}
    assert [*sounds] == ["en", "de"]
    assert [one.attributes["DEFAULT"] for one in sounds.values()] == ["YES", "NO"]
    for language, other in (("en", "de"), ("de", "en")):
        spoken, silent = (LANGUAGES[{"en": "eng", "de": "deu"}[one]] for one in (language, other))
        assert sine_levels(sounds[language].media, spoken)[0] > 0.05
        assert sine_levels(sounds[language].media, silent)[0] < 0.005
    assert len(dash_renditions(out / "stream" / "manifest.mpd", "audio")) == 2

    # HLS and DASH have the texts of the subtitles.
    for tracks in (hls_subtitles(master), dash_subtitles(out / "stream" / "manifest.mpd")):
        assert [[cue.text for cue in track.cues] for track in tracks] == [[*CUES]]
    assert kinds(output(done, "stream")) == [
        ("video", None),
        ("audio", "eng"),
        ("audio", "deu"),
        ("subtitle", "eng"),
    ]

    # The film has both sounds. A warning names the subtitle track that the film lacks.
    assert mediainfo_languages(out / "film.mp4") == ["en", "de"]
    assert end_seconds(out / "film.mp4") == pytest.approx(2.0, abs=0.1)
    assert [(one["code"], one["output"]) for one in done.warnings or ()] == [
        ("subtitle_track_dropped", "film")
    ]
