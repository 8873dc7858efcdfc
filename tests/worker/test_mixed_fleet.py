"""Tests that a worker releases a job which it cannot run, so that another worker can run the job."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from euterpe.control.refresher import Refresher
from euterpe.control.store_plane import StorePlane
from euterpe.domain.canonical import split_secrets
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.leased_job import End, LeasedJob
from euterpe.domain.release_limits import ReleaseLimits
from euterpe.domain.retry import JobError
from euterpe.domain.spec import parse_spec
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.settings import Settings
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.storage import Storage
from euterpe.store.store import Store
from euterpe.wiring.worker import worker_tools
from euterpe.worker.attempt import Attempt
from euterpe.worker.attempt_control import AttemptControl, AttemptResult
from euterpe.worker.blame import Charge, judge
from euterpe.worker.tools import Tools
from euterpe.worker.worker import WorkerTimings
from tests.clock import SettableClock
from tests.key_providers import checked_ring
from tests.store.jobs import SPEC, enqueue, event_types
from tests.worker.job_secrets import submit
from tests.worker.planes import claim_leased, store_plane
from tests.worker.test_worker import running_worker, wait_for_end


def run_attempt(store: Store, tools: Tools) -> AttemptResult:
    tools.workdir.open()
    try:
        with tools.sandbox:
            return Attempt(tools, AttemptControl(claim_leased(store, lease_ms=60_000), 60)).run()
    finally:
        tools.workdir.close()


def stored(**fields: Any) -> dict[str, Any]:
    """Return a spec as the API stores it."""
    return split_secrets(parse_spec({**SPEC, **fields}))[0]


FILM = {"name": "film", "type": "mp4"}
# Changes of a stored spec that only a newer release could make. `None` removes a field.
CHANGES: dict[str, dict[str, Any]] = {
    "field": {"holograms": True},
    "value": {"webhook_format": "telepathy"},
    "output field": {"profile": None, "outputs": [{**FILM, "smell": "rose"}]},
    "output type": {"profile": None, "outputs": [{**FILM, "type": "hologram"}]},
    "codec": {"profile": None, "outputs": [{**FILM, "video": {"codec": "h267"}}]},
    "profile": {"profile": "of-next-year"},
    "no source": {"source": None},
    "two sources": {"source": [{"url": "s3://in/a.mov"}, {"url": "s3://in/b.mov"}]},
    "output without urls": {"output": {"to": "s3://out/a/"}},
}


def of_newer_release(change: str) -> dict[str, Any]:
    """Return a stored spec that this release does not understand."""
    return {name: value for name, value in {**stored(), **CHANGES[change]}.items() if value is not None}


@pytest.mark.parametrize("change", CHANGES)
def test_a_spec_of_a_newer_release_costs_no_attempt(
    store: Store, clock: SettableClock, tools: Tools, change: str
) -> None:
    (job_id,) = enqueue(store, spec=of_newer_release(change), max_attempts=1)
    with capture_logs() as logs:
        assert run_attempt(store, tools) is AttemptResult.RELEASED
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.error_code) == ("queued", 0, "spec_not_understood")
    assert 2_500 <= row.available_at - clock.now_ms <= 5_000, "no busy loop"
    assert event_types(store, job_id) == ["claimed", "queued"]
    assert "attempt_not_charged" in [entry["event"] for entry in logs]


def test_the_message_names_the_fields_and_no_value(store: Store, tools: Tools) -> None:
    spec = {**of_newer_release("value"), "holograms": "canary"}
    (job_id,) = enqueue(store, spec=spec)
    run_attempt(store, tools)
    message = (store.jobs.get(job_id).last_error or {})["message"]
    assert "webhook_format" in message
    assert "holograms" in message
    assert "telepathy" not in message
    assert "canary" not in message


@pytest.mark.parametrize("timeout", ["PT2H", None, [7200]])
def test_a_job_without_a_known_timeout_delays_no_other(
    store: Store, tools: Tools, timeout: object, sound_spec: dict[str, Any]
) -> None:
    (job_id,) = enqueue(store, spec={**stored(), "timeout_seconds": timeout}, priority=90)
    (other_id,) = enqueue(store, spec=sound_spec)
    with running_worker(tools, timings=WorkerTimings(poll_s=0.03)):
        assert wait_for_end(store, other_id).status == "succeeded"
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count) == ("queued", 0)


@pytest.fixture
def sound_spec(clips: Any, tmp_path: Path) -> dict[str, Any]:
    """Return the stored spec of a job that makes a short sound from a file."""
    (tmp_path / "sound.m4a").write_bytes(clips.make("sound.m4a").read_bytes())
    sound = [{"name": "sound", "type": "m4a", "audio": {"codec": "aac", "bitrate_kbps": 64}}]
    spec = {
        "source": {"url": f"file://{tmp_path}/sound.m4a"},
        "output": {"url": f"file://{tmp_path}/out/"},
        "outputs": sound,
    }
    return split_secrets(parse_spec(spec))[0]


def of_folder(folder: Path, sound_spec: dict[str, Any], side: str) -> dict[str, Any]:
    """Return the spec with its source, its output or a watermark in a subfolder of this folder."""
    url = f"file://{folder}/sub/"
    if side == "output":
        return {**sound_spec, "output": {"url": url, "urls": None}}
    if side == "source":
        return {**sound_spec, "source": {"url": f"{url}sound.m4a"}}
    mark = {"source": {"url": f"{url}logo.png"}}
    film = parse_spec({**sound_spec, "profile": None, "outputs": [{**FILM, "watermark": mark}]})
    return split_secrets(film)[0]


@pytest.mark.parametrize("side", ["source", "output", "watermark"])
def test_a_folder_that_this_worker_may_not_use_costs_no_attempt(
    store: Store, tools: Tools, sound_spec: dict[str, Any], tmp_path: Path, side: str
) -> None:
    spec = of_folder(tmp_path.parent / "share", sound_spec, side)
    (job_id,) = enqueue(store, spec=spec, max_attempts=1)
    assert run_attempt(store, tools) is AttemptResult.RELEASED
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.error_code) == ("queued", 0, "storage_root_missing")
    assert event_types(store, job_id) == ["claimed", "queued"], "released before the fetch"


@pytest.mark.parametrize("side", ["source", "output"])
def test_a_folder_that_is_not_mounted_here_costs_no_attempt(
    store: Store, tools: Tools, sound_spec: dict[str, Any], tmp_path: Path, side: str
) -> None:
    share = tmp_path / "share"
    with Egress(EgressPolicy(())) as egress:
        storage = Storage(StoragePolicy(roots=(share, tmp_path)), egress)
        (job_id,) = enqueue(store, spec=of_folder(share, sound_spec, side))
        assert run_attempt(store, replace(tools, storage=storage)) is AttemptResult.RELEASED
    assert store.jobs.get(job_id).error_code == "storage_root_missing"


def test_an_endpoint_that_this_worker_may_not_use_costs_no_attempt(store: Store, tools: Tools) -> None:
    job_id = submit(store, max_attempts=1)
    assert run_attempt(store, tools) is AttemptResult.RELEASED
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.error_code) == ("queued", 0, "storage_endpoint_missing")
    assert event_types(store, job_id) == ["claimed", "queued"]


@pytest.mark.parametrize("path", ["link/sound.m4a", "sound.m4a/x.mp4"])
def test_a_path_that_leads_out_of_a_folder_fails_at_once(
    store: Store, tools: Tools, sound_spec: dict[str, Any], tmp_path: Path, path: str
) -> None:
    """`blame`: the requester chose this path, and no other worker could read it either."""
    (tmp_path / "link").symlink_to("/etc")
    (job_id,) = enqueue(store, spec={**sound_spec, "source": {"url": f"file://{tmp_path}/{path}"}})
    assert run_attempt(store, tools) is AttemptResult.FAILED
    row = store.jobs.get(job_id)
    assert (row.status, row.error_code) == ("failed", "file_outside_roots")


def test_jobs_that_this_worker_cannot_run_delay_no_other(
    store: Store, tools: Tools, sound_spec: dict[str, Any], tmp_path: Path
) -> None:
    lacking = of_folder(tmp_path.parent / "share", sound_spec, "source")
    job_ids = enqueue(store, 5, spec=lacking, priority=90)
    (other_id,) = enqueue(store, spec=sound_spec)
    with running_worker(tools, timings=WorkerTimings(poll_s=0.03)):
        assert wait_for_end(store, other_id).status == "succeeded"
    rows = [store.jobs.get(job_id) for job_id in job_ids]
    assert {(row.status, row.attempt_count, row.claim_version) for row in rows} == {("queued", 0, 1)}


def without(tools: Tools, **names: str) -> Tools:
    """Return the tools of a worker whose ffmpeg lacks these encoders, muxers or filters."""
    here = tools.ffmpeg_features
    return replace(
        tools,
        ffmpeg_features=replace(here, **{kind: getattr(here, kind) - {name} for kind, name in names.items()}),
    )


def test_an_encoder_that_this_ffmpeg_lacks_costs_no_attempt_and_no_fetch(
    store: Store, tools: Tools, sound_spec: dict[str, Any]
) -> None:
    (job_id,) = enqueue(store, spec=sound_spec, max_attempts=1)
    assert run_attempt(store, without(tools, encoders="aac")) is AttemptResult.RELEASED
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.error_code) == ("queued", 0, "ffmpeg_incomplete")
    assert "encoder aac" in (row.last_error or {})["message"]
    assert event_types(store, job_id) == ["claimed", "queued"], "released before the fetch"


@pytest.mark.parametrize("kind", [{"muxers": "ipod"}, {"filters": "aresample"}])
def test_what_only_the_plan_shows_costs_no_attempt_either(
    store: Store, tools: Tools, sound_spec: dict[str, Any], kind: dict[str, str]
) -> None:
    (job_id,) = enqueue(store, spec=sound_spec, max_attempts=1)
    assert run_attempt(store, without(tools, **kind)) is AttemptResult.RELEASED
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.error_code) == ("queued", 0, "ffmpeg_incomplete")


def test_an_encoder_that_a_job_does_not_need_is_not_missed(
    store: Store, tools: Tools, sound_spec: dict[str, Any]
) -> None:
    enqueue(store, spec=sound_spec)
    assert run_attempt(store, without(tools, encoders="libx264")) is AttemptResult.SUCCEEDED


class OlderPlane(StorePlane):
    """A control plane that adds an unknown field to each spec. So the worker acts like an older release."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.has_released = threading.Event()

    def claim(self, limit: int, *, wait_s: float) -> Sequence[LeasedJob]:
        jobs = super().claim(limit, wait_s=wait_s)
        return [replace(job, spec={**job.spec, "holograms": True}) for job in jobs]

    def release(self, job: LeasedJob, *, reason: JobError | None, timings: Mapping[str, Any]) -> End:
        end = super().release(job, reason=reason, timings=timings)
        self.has_released.set()
        return end


def test_a_newer_worker_runs_the_job_that_an_older_one_does_not_understand(
    url: str, tools: Tools, sound_spec: dict[str, Any], tmp_path: Path
) -> None:
    settings = Settings(work_dir=tmp_path / "older", storage_roots=(str(tmp_path),), min_free_bytes=0)
    limits = ReleaseLimits(first_pause_ms=20, longest_pause_ms=100)
    with (
        Store(url, checked_ring(), release_limits=limits, sweep_every_ms=0) as store,
        Egress(EgressPolicy(())) as egress,
        store_plane(store) as newer,
    ):
        refresher = Refresher(store, egress, max_refreshes=3)
        older = OlderPlane(store, refresher, "w2")
        timings = WorkerTimings(poll_s=0.03)
        (job_id,) = enqueue(store, spec=sound_spec, max_attempts=1)
        with running_worker(worker_tools(settings, older, egress), timings=timings):
            assert older.has_released.wait(60)
            with running_worker(replace(tools, plane=newer), timings=timings):
                ended = wait_for_end(store, job_id)
        assert (ended.status, ended.attempt_count) == ("succeeded", 1)
        *released, last = store.jobs.attempts(job_id)
    assert {(attempt.worker_id, attempt.error_code) for attempt in released} == {
        ("w2", "spec_not_understood")
    }
    assert (last.worker_id, last.outcome) == ("w1", "succeeded")


def test_blame_an_invalid_value_of_a_source_is_no_newer_spec() -> None:
    """The store raises `InvalidSpec` for source facts that it cannot store.

    A hostile source can cause this error.
    """
    error = InvalidSpec((FieldError(("source_info",), "must be storable"),))
    verdict = judge(error, "processing", lambda: None)
    assert isinstance(verdict, Charge)
    assert verdict.error.code == "internal_error"
