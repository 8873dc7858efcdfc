"""Tests of dry runs, which plan a job after reading only the beginning and the end of its source."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.documents import PlanDocument, fields_of
from euterpe.domain.spec import JobSpec, parse_spec
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.isolation import Isolation
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.storage.errors import StorageError
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.source_ends import EndBytes
from euterpe.storage.storage import Storage
from euterpe.worker.dry_run import DryRunLimits, DryRuns, DryRunStopped, DryRunTimeout, without_false_ends
from euterpe.worker.watermark_fetcher import MOST_WATERMARK_BYTES
from tests.media.clips import Clips
from tests.media.planning.facts import AUDIO, VIDEO, info
from tests.media.sources.cache import Sources, sources
from tests.media.sources.logos import logo
from tests.storage.storage_calls import NO_LIMIT

FILM = {"name": "film", "type": "mp4", "video": {"height": 90}}
SMALL_ENDS = EndBytes(front=12_000, back=12_000)
Make = Callable[..., DryRuns]

__all__ = ["sources"]


def spec_of(source: Path, *outputs: dict[str, Any]) -> JobSpec:
    folder = source.parent.as_uri()
    places = {"source": {"url": source.as_uri()}, "output": {"url": f"{folder}/out/"}}
    return parse_spec({**places, "outputs": list(outputs) or [FILM]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder in which dry runs keep the parts that they read."""
    (made := tmp_path / "parts").mkdir()
    return made


@pytest.fixture
def dry_runs(folder: Path, clips: Clips, own_sandbox: Sandbox) -> Iterator[Make]:
    """Yield a function that returns a `DryRuns` with access to the folder of the clips."""
    root = clips.make("film.mp4").parent
    with Egress(EgressPolicy(())) as egress:
        storage = Storage(StoragePolicy(roots=(root,)), egress)
        yield lambda **limits: DryRuns(
            storage, own_sandbox, folder, DryRunLimits(limits.pop("max_source_bytes", NO_LIMIT), **limits)
        )


def test_the_plan_of_an_encrypted_output_does_not_have_its_key(dry_runs: Make, clips: Clips) -> None:
    key = "c0ffee11c0ffee22c0ffee33c0ffee44"
    lock = {"key_url": "https://keys.example/1", "key": key}
    hls = {"name": "hls", "type": "hls", "video": {"ladder": [90]}, "encryption": lock}
    found = dry_runs().plan(spec_of(clips.make("film.mp4"), hls))
    assert [output["name"] for output in found["outputs"]] == ["hls"]
    assert key not in json.dumps(found)


def test_a_plan_names_tracks_sizes_and_what_is_left_out(dry_runs: Make, clips: Clips, folder: Path) -> None:
    sound = {"name": "sound", "type": "m4a", "end": 1.0}
    poster = {"name": "poster", "type": "image", "at": ["50%"]}
    found = dry_runs().plan(spec_of(clips.make("film.mp4"), FILM, sound, poster))
    assert set(found) == {one.name for one in fields_of(PlanDocument)}
    assert found["is_exact"]
    assert found["source_info"]["duration_seconds"] == pytest.approx(2.0, abs=0.1)
    film, sound_, poster_ = found["outputs"]
    assert [(t["kind"], t["codec"], t["action"], t["height"]) for t in film["tracks"]] == [
        ("video", "h264", "encode", 90),
        ("audio", "aac", "encode", None),
    ]
    assert film["expected_bytes"] > 1_000
    assert sound_["duration_seconds"] == pytest.approx(1.0)
    assert sound_["expected_bytes"] == pytest.approx(16_000)
    assert (poster_["duration_seconds"], poster_["tracks"][0]["kind"]) == (None, "image")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["film.mp4", "long.mp4", "film.mkv", "film.webm", "film.ts"])
def test_the_ends_of_a_source_give_the_plan_of_the_whole(dry_runs: Make, clips: Clips, name: str) -> None:
    source = clips.make(name)
    whole = dry_runs().plan(spec_of(source))
    part = dry_runs(ends=SMALL_ENDS).plan(spec_of(source))
    assert whole["is_exact"]
    assert part["is_exact"] == (source.stat().st_size <= 24_000)
    seconds = whole["source_info"]["duration_seconds"]
    assert part["source_info"]["duration_seconds"] == pytest.approx(seconds, abs=0.2)
    assert [output["tracks"] for output in part["outputs"]] == [
        output["tracks"] for output in whole["outputs"]
    ]


def test_a_plan_has_the_watermark_in_its_own_shape(
    dry_runs: Make, clips: Clips, sources: Sources, folder: Path
) -> None:
    source = clips.make("film.mp4")
    logo_of(source, sources)
    marks = [{**FILM, "watermark": {"source": {"url": f"{source.parent.as_uri()}/logo.png"}}}]
    found, plain = (dry_runs().plan(spec_of(source, *outputs)) for outputs in (marks, [FILM]))
    assert found["is_exact"]
    assert found["plan_hash"] != plain["plan_hash"]
    assert found["outputs"] == [{**output, "watermark": "bottom_right"} for output in plain["outputs"]]
    assert not list(folder.iterdir())


def logo_of(source: Path, sources: Sources) -> None:
    (source.parent / "logo.png").write_bytes(logo(sources).read_bytes())


@pytest.mark.parametrize(
    ("name", "code"), [("missing.png", "watermark_not_found"), ("film.mp4", "watermark_unusable")]
)
def test_a_watermark_that_cannot_be_used_has_the_code_of_the_job(
    dry_runs: Make, clips: Clips, folder: Path, name: str, code: str
) -> None:
    source = clips.make("film.mp4")
    mark = {"source": {"url": f"{source.parent.as_uri()}/{name}"}}
    with pytest.raises((MediaError, StorageError)) as refused:
        dry_runs().plan(spec_of(source, {**FILM, "watermark": mark}))
    assert refused.value.code == code
    assert not list(folder.iterdir())


def test_a_watermark_above_the_limit_is_refused_before_it_is_read(dry_runs: Make, clips: Clips) -> None:
    source = clips.make("film.mp4")
    with (source.parent / "huge.png").open("wb") as huge:
        huge.truncate(MOST_WATERMARK_BYTES + 1)
    mark = {"source": {"url": f"{source.parent.as_uri()}/huge.png"}}
    with pytest.raises(StorageError) as refusal:
        dry_runs().plan(spec_of(source, {**FILM, "watermark": mark}))
    assert refusal.value.code == "watermark_too_large"


def test_a_missing_source_has_the_code_of_the_job(dry_runs: Make, clips: Clips) -> None:
    with pytest.raises(StorageError) as refusal:
        dry_runs().plan(spec_of(clips.make("film.mp4").parent / "none.mp4"))
    assert refusal.value.code == "source_not_found"


def test_an_output_that_cannot_be_made_has_the_code_of_the_job(dry_runs: Make, clips: Clips) -> None:
    with pytest.raises(MediaError) as refusal:
        dry_runs().plan(spec_of(clips.make("sound.mp3"), {"name": "poster", "type": "image", "at": ["0s"]}))
    assert refusal.value.code == "no_video_stream"


def test_a_source_above_the_limit_is_refused(dry_runs: Make, clips: Clips) -> None:
    spec = spec_of(clips.make("film.mp4"))
    limited = spec.model_copy(update={"max_source_bytes": 1_000})
    for runs, job in ((dry_runs(max_source_bytes=1_000), spec), (dry_runs(), limited)):
        with pytest.raises(StorageError) as refusal:
            runs.plan(job)
        assert refusal.value.code == "source_too_large"


def test_an_incomplete_sandbox_reads_nothing_and_blames_the_process(
    dry_runs: Make, clips: Clips, own_sandbox: Sandbox
) -> None:
    """The API answers 503 for `sandbox_failed`.

    For `sandbox_incomplete`, the error of a worker that refuses to start, the API would answer 500.
    """
    own_sandbox.isolation = Isolation(no_network=True, no_files=False, few_system_calls=True)
    with pytest.raises(MediaError) as refused:
        dry_runs(requires_sandbox=True).plan(spec_of(clips.make("film.mp4").parent / "none.mp4"))
    assert refused.value.code == "sandbox_failed"
    assert refused.value.is_worker_fault
    assert dry_runs().plan(spec_of(clips.make("film.mp4")))["is_exact"]


def test_a_dry_run_ends_at_its_deadline_and_leaves_no_file(
    dry_runs: Make, clips: Clips, folder: Path
) -> None:
    with pytest.raises(DryRunTimeout):
        dry_runs(deadline_s=0.0).plan(spec_of(clips.make("film.mp4")))
    assert not list(folder.iterdir())


def test_the_folder_is_made_with_the_first_dry_run(dry_runs: Make, clips: Clips, folder: Path) -> None:
    folder.rmdir()
    assert dry_runs().plan(spec_of(clips.make("film.mp4")))["is_exact"]


def test_a_stop_ends_dry_runs(dry_runs: Make, clips: Clips, folder: Path) -> None:
    stopping = dry_runs()
    stopping.begin_stop()
    with pytest.raises(DryRunStopped):
        stopping.plan(spec_of(clips.make("film.mp4")))
    assert not list(folder.iterdir())


def test_a_duration_that_ends_in_the_hole_is_replaced_by_the_declared_one() -> None:
    short = replace(VIDEO, duration_seconds=2.0, end_seconds=2.0, declared_seconds=10.0)
    found = without_false_ends(info(short, AUDIO, seconds=2.0, declared_seconds=10.0))
    assert found.streams[0].duration_seconds == found.duration_seconds == 10.0
    assert found.streams[0].end_seconds is None
    assert found.streams[1] == AUDIO
