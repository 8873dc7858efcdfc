"""`euterpe/bridges/bridge.py` and `attach.py`: each foreign job gets one row, even after a crash."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from euterpe.bridges.adapter import BridgeError, ForeignJob, Json, ReportOutcome
from euterpe.bridges.outage import ForeignCalls
from euterpe.bridges.requester_account import QueueLimits
from euterpe.domain.credentials import S3Credentials
from euterpe.domain.states import JobStatus
from euterpe.domain.storage_profiles import StorageProfile
from euterpe.store.queue.enqueue import NewJob
from euterpe.store.queue.progress import ProgressReport
from euterpe.store.store import Store
from tests.bridges.memory_queue import MemoryAdapter
from tests.bridges.running_bridge import DATA, Setup, in_thread, running
from tests.bridges.scripted_worker import FLAKY, NOT_MEDIA, claim, fail, succeed
from tests.store.attempts import completion
from tests.store.jobs import new_job

OUTPUTS = [{"name": "mp4", "url": "s3://out/a/mp4.mp4", "size_bytes": 1}]


def run(test: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(120):
            await test

    asyncio.run(limited())


@pytest.fixture
def setup(store: Store) -> Setup:
    return Setup(store)


def test_a_job_is_transcoded_once_and_reported_once(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: job.state == "completed")
        (row,) = setup.rows()
        assert job.result == {
            "job_id": row.job_id,
            "status": "succeeded",
            "external_id": None,
            "outputs": OUTPUTS,
            "warnings": [],
        }
        assert (row.source_ref, job.reports) == ("bullmq:memory:1:1", 1)
        assert row.requester_id == setup.store.requesters.find("newsroom")
        assert setup.count("ended_total", answer="done") == 1
        assert setup.count("reported_total", outcome="succeeded") == 1

    run(test())


def test_progress_only_rises(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            claimed = await in_thread(claim, setup.store)
            for percent in (10.0, 5.0, 30.0):
                await in_thread(setup.store.progress.write, [ProgressReport(claimed, percent)])
                if percent != 5.0:
                    await setup.queue.until(lambda percent=percent: percent in job.progress)  # type: ignore[misc]
            await in_thread(succeed, setup.store, claimed)
            await setup.queue.until(lambda: job.state == "completed")
        assert job.progress == [10.0, 30.0]

    run(test())


def test_progress_is_throttled(setup: Setup) -> None:
    setup = replace(setup, timings=replace(setup.timings, progress_every_s=3600.0))

    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            claimed = await in_thread(claim, setup.store)
            for percent in (10.0, 20.0, 30.0):
                await in_thread(setup.store.progress.write, [ProgressReport(claimed, percent)])
                await setup.queue.until(lambda: job.progress)
            await in_thread(succeed, setup.store, claimed)
            await setup.queue.until(lambda: job.state == "completed")
        assert job.progress == [10.0]

    run(test())


def test_a_failed_attempt_is_repeated_when_the_foreign_queue_says_so(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA, attempts=2)
        async with running(setup):
            await in_thread(lambda: fail(setup.store, claim(setup.store)))
            await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: job.state == "completed")
        (row,) = setup.rows()
        assert (row.attempt_count, [failure.retry for failure in job.failures]) == (2, [True])
        assert job.progress == [0.0]  # the bridge reports 0 when the second attempt begins

    run(test())


def test_a_permanent_failure_is_final(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA, attempts=5)
        async with running(setup):
            await in_thread(lambda: fail(setup.store, claim(setup.store), NOT_MEDIA))
            await setup.queue.until(lambda: job.state == "failed")
        assert [(failure.code, failure.retry) for failure in job.failures] == [("source_not_media", False)]
        assert len(setup.rows()) == 1

    run(test())


def test_a_failure_that_was_never_reported_is_reported_and_not_repeated(setup: Setup) -> None:
    """The killed bridge has not reported the failure, so the next bridge must report the failure first.

    The foreign queue grants the second attempt only after this report.
    """

    async def test() -> None:
        job = await setup.queue.add(DATA, attempts=2)
        async with running(setup) as first:
            claimed = await in_thread(claim, setup.store)
            await first.kill()
        await in_thread(fail, setup.store, claimed, FLAKY)
        await setup.queue.steal(job)
        async with running(setup, MemoryAdapter(setup.queue, name="b")):
            await setup.queue.until(lambda: job.failures)
            assert setup.rows()[0].attempt_count == 1
            await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: job.state == "completed")
        assert (setup.rows()[0].attempt_count, job.reports) == (2, 2)

    run(test())


@pytest.mark.parametrize("ends_before", [True, False])
def test_a_killed_bridge_loses_and_repeats_nothing(setup: Setup, ends_before: bool) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup) as first:
            claimed = await in_thread(claim, setup.store)
            await first.kill()
        if ends_before:
            await in_thread(succeed, setup.store, claimed)
        await setup.queue.steal(job)
        async with running(setup, MemoryAdapter(setup.queue, name="b")):
            if not ends_before:
                await setup.queue.until(lambda: job.state == "active")
                await in_thread(succeed, setup.store, claimed)
            await setup.queue.until(lambda: job.state == "completed")
        (row,) = setup.rows()
        assert (row.attempt_count, job.reports) == (1, 1)

    run(test())


def test_two_bridges_that_attach_at_once_make_one_row(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup) as _, running(setup, MemoryAdapter(setup.queue, name="b")):
            for _ in range(20):
                await setup.queue.until(lambda: job.state == "active")
                await setup.queue.steal(job)  # now each of the two bridges can attach the job
            await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: job.state == "completed")
        assert (len(setup.rows()), job.reports) == (1, 1)

    run(test())


def test_a_lost_lease_cancels_nothing_and_reports_nothing(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            claimed = await in_thread(claim, setup.store)
            job.holder, job.state = "another worker", "active"
            await setup.queue.until(lambda: setup.count("ended_total", answer="lost"))
            await in_thread(succeed, setup.store, claimed)
        (row,) = setup.rows()
        assert (row.status, row.cancel_requested_at) == (JobStatus.SUCCEEDED, None)
        assert (job.reports, setup.count("held")) == (0, 0)

    run(test())


def test_a_job_that_its_producer_cancels_is_canceled(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA, attempts=3)
        async with running(setup):
            await setup.queue.until(lambda: job.heartbeats)
            job.is_canceled = True
            await setup.queue.until(lambda: job.state == "failed")
        (row,) = setup.rows()
        assert (row.status, row.error_code) == (JobStatus.FAILED, "canceled")
        assert [(failure.code, failure.retry) for failure in job.failures] == [("canceled", False)]
        assert setup.count("reported_total", outcome="canceled") == 1

    run(test())


def test_a_failure_is_counted_as_one(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            await in_thread(lambda: fail(setup.store, claim(setup.store), NOT_MEDIA))
            await setup.queue.until(lambda: job.state == "failed")
        assert setup.count("reported_total", outcome="failed") == 1
        assert setup.count("ended_total", answer="done") == 1

    run(test())


def test_a_stopped_bridge_logs_how_many_jobs_it_has_handed_back(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        jobs = [await setup.queue.add(DATA) for _ in range(2)]
        async with running(setup) as bridge:
            await setup.queue.until(lambda: all(job.heartbeats for job in jobs))
            await bridge.stop()

    run(test())
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "bridge_stopped" in line]
    assert "handed_back=2" in line


def test_a_job_that_its_producer_removes_leaves_its_row(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            claimed = await in_thread(claim, setup.store)
            await setup.queue.remove(job)
            await in_thread(succeed, setup.store, claimed)
            other = await setup.queue.add(DATA)
            await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: other.state == "completed")
        assert [row.status for row in setup.rows()] == [JobStatus.SUCCEEDED] * 2

    run(test())


def test_an_outage_loses_no_end_and_is_logged_once(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        jobs = [await setup.queue.add(DATA) for _ in range(3)]
        async with running(setup):
            claimed = [await in_thread(claim, setup.store) for _ in jobs]
            setup.queue.is_down = True
            for one in claimed:
                await in_thread(succeed, setup.store, one)
            refused = setup.queue.refused_calls
            await setup.queue.until(lambda: setup.queue.refused_calls >= refused + 10)
            assert setup.count("reachable") == 0
            setup.queue.is_down = False
            await setup.queue.until(lambda: all(job.state == "completed" for job in jobs))
        assert [job.reports for job in jobs] == [1, 1, 1]
        assert setup.count("outages_total") == 1
        assert setup.count("reachable") == 1

    run(test())
    assert capsys.readouterr().out.count("foreign_queue_unavailable") == 1


def test_a_report_whose_answer_is_lost_counts_once(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            claimed = await in_thread(claim, setup.store)
            setup.queue.loses_answers = True
            await in_thread(succeed, setup.store, claimed)
            await setup.queue.until(lambda: setup.count("ended_total", answer="done"))
        assert job.reports == 1

    run(test())


@pytest.mark.parametrize("call", ["progress", "succeed"])
def test_a_login_that_is_refused_after_the_start_is_an_outage(setup: Setup, call: str) -> None:
    """The password of Redis can change before the bridge gets the new password."""

    class Refused(MemoryAdapter):
        refusals = 3

        def _check_login(self, name: str) -> None:
            if name == call and self.refusals:
                self.refusals -= 1
                raise BridgeError("Redis refuses the login")

        async def progress(self, job: ForeignJob, percent: float) -> None:
            self._check_login("progress")
            await super().progress(job, percent)

        async def succeed(self, job: ForeignJob, result: Json) -> ReportOutcome:
            self._check_login("succeed")
            return await super().succeed(job, result)

    async def test() -> None:
        job = await setup.queue.add(DATA)
        adapter = Refused(setup.queue)
        async with running(setup, adapter):
            claimed = await in_thread(claim, setup.store)
            await in_thread(setup.store.progress.write, [ProgressReport(claimed, 10.0)])
            if call == "progress":
                await setup.queue.until(lambda: adapter.refusals < 3)
            await in_thread(succeed, setup.store, claimed)
            await setup.queue.until(lambda: job.state == "completed")
        assert (job.reports, adapter.released) == (1, [])
        assert setup.count("outages_total") >= 1

    run(test())


def test_an_unexpected_error_of_a_release_frees_the_slot(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = replace(setup, slots=1)

    class Broken(MemoryAdapter):
        async def succeed(self, job: ForeignJob, result: Json) -> ReportOutcome:
            if job.job_id == "1":
                raise ValueError("unexpected")
            return await super().succeed(job, result)

        async def release(self, job: ForeignJob) -> None:
            raise LookupError(f"{job.job_id} is broken")

    async def test() -> None:
        first, second = [await setup.queue.add(DATA) for _ in range(2)]
        async with running(setup, Broken(setup.queue)):
            for _ in range(2):
                await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: second.state == "completed")
        assert first.state == "active"
        assert setup.count("held") == 0

    run(test())
    assert "LookupError" in capsys.readouterr().out


def test_a_job_that_is_handed_back_gets_no_heartbeat(setup: Setup) -> None:
    """In streams, a release sets a long idle time, so that another bridge can take the message at once.

    A heartbeat would reset this idle time.
    """
    heartbeats: list[int] = []

    class Broken(MemoryAdapter):
        async def succeed(self, job: ForeignJob, result: Json) -> ReportOutcome:
            del job, result
            raise ValueError("unexpected")

        async def release(self, job: ForeignJob) -> None:
            released, other = (setup.queue.jobs[job_id] for job_id in ("1", "2"))
            if job.job_id == "1":
                heartbeats.append(released.heartbeats)
                seen = other.heartbeats
                await setup.queue.until(lambda: other.heartbeats >= seen + 3)
                heartbeats.append(released.heartbeats)

    async def test() -> None:
        await setup.queue.add(DATA)
        async with running(setup, Broken(setup.queue)):
            claimed = await in_thread(claim, setup.store)
            await setup.queue.add(DATA)
            await setup.queue.until(lambda: setup.queue.jobs["2"].heartbeats)
            await in_thread(succeed, setup.store, claimed)
            await setup.queue.until(lambda: len(heartbeats) == 2)
        assert heartbeats[1] <= heartbeats[0] + 1  # one heartbeat may have begun before the release

    run(test())


def test_a_bridge_starts_during_an_outage(setup: Setup) -> None:
    async def test() -> None:
        setup.queue.is_down = True
        job = await setup.queue.add(DATA)
        async with running(setup):
            await setup.queue.until(lambda: setup.queue.refused_calls >= 3)
            setup.queue.is_down = False
            await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: job.state == "completed")

    run(test())


def test_a_heartbeat_follows_an_outage_at_once_however_long_it_was(setup: Setup) -> None:
    """Some seconds after an outage, other bridges reap the expired leases that got no heartbeat."""
    setup = replace(setup, timings=replace(setup.timings, heartbeat_retry_s=0.01))
    growing = ForeignCalls("b", setup.counts.of("b"), base_s=3600.0, cap_s=3600.0)

    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup, foreign_calls=growing):
            await setup.queue.until(lambda: job.heartbeats)
            setup.queue.is_down = True
            refused = setup.queue.refused_calls
            await setup.queue.until(lambda: setup.queue.refused_calls >= refused + 3)
            setup.queue.is_down = False
            heartbeats = job.heartbeats
            await setup.queue.until(lambda: job.heartbeats > heartbeats)

    run(test())


def test_a_bridge_holds_at_most_its_slots(setup: Setup) -> None:
    setup = replace(setup, slots=3)

    async def test() -> None:
        jobs = [await setup.queue.add(DATA) for _ in range(7)]
        held: list[int] = []
        async with running(setup):
            for count in range(1, 8):
                await in_thread(lambda: succeed(setup.store, claim(setup.store)))
                done = lambda count=count: sum(j.state == "completed" for j in jobs) >= count  # noqa: E731
                await setup.queue.until(done)
                held.append(sum(job.state == "active" for job in jobs))
        assert max(held) <= 3

    run(test())


def test_a_stop_hands_back_what_has_not_ended(setup: Setup) -> None:
    async def test() -> None:
        jobs = [await setup.queue.add(DATA) for _ in range(3)]
        async with running(setup) as bridge:
            claimed = [await in_thread(claim, setup.store) for _ in jobs]
            await setup.queue.until(lambda: all(job.heartbeats for job in jobs))
            await bridge.stop()
            assert sorted(bridge.adapter.released) == ["1", "2", "3"]
            assert bridge.adapter.is_stopped
        assert [job.state for job in jobs] == ["waiting"] * 3
        async with running(setup, MemoryAdapter(setup.queue, name="b")):
            for one in claimed:
                await in_thread(succeed, setup.store, one)
            await setup.queue.until(lambda: all(job.state == "completed" for job in jobs))
        assert [row.attempt_count for row in setup.rows()] == [1, 1, 1]

    run(test())


def test_a_release_without_an_answer_delays_a_stop_by_the_drain_time_only(setup: Setup) -> None:
    setup = replace(setup, timings=replace(setup.timings, drain_s=0.05))

    class Silent(MemoryAdapter):
        async def release(self, job: ForeignJob) -> None:
            del job
            await asyncio.Event().wait()

    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup, Silent(setup.queue)) as bridge:
            await setup.queue.until(lambda: job.heartbeats)
            async with asyncio.timeout(30):
                await bridge.stop()
            assert bridge.adapter.is_stopped

    run(test())


def test_a_job_without_a_mapping_is_refused_once(setup: Setup) -> None:
    async def test() -> None:
        jobs = [
            await setup.queue.add({"script": {}}, "video-generation", attempts=5),
            await setup.queue.add(None, attempts=5),
            await setup.queue.add({**DATA, "credentials": {"secret": "hunter2"}}, attempts=5),
            await setup.queue.add({"source": "ftp://hunter2"}, attempts=5),
        ]
        async with running(setup):
            await setup.queue.until(lambda: all(job.state == "failed" for job in jobs))
        assert [job.reports for job in jobs] == [1] * 4
        messages = [job.failures[0].message for job in jobs]
        assert messages[0] == "name: no mapping for jobs named 'video-generation'"
        assert not any("hunter2" in message for message in messages)
        assert setup.rows() == []
        assert setup.count("reported_total", outcome="refused") == 4
        assert setup.count("refused_total") == 4

    run(test())


def test_the_limits_of_the_requester_hold(setup: Setup) -> None:
    requester_id = setup.store.requesters.find("newsroom")
    setup.store.requester_limits.set(requester_id, {"max_attempts": 2, "max_priority": 60})

    async def test() -> None:
        jobs = [await setup.queue.add(DATA, attempts=9), await setup.queue.add(DATA)]
        async with running(setup):
            await setup.queue.until(lambda: len(setup.rows()) == 2)
        assert [setup.row_of(job).max_attempts for job in jobs] == [2, 2]
        high = setup.with_mapping(priority={"default": 90})
        refused = await setup.queue.add(DATA)
        async with running(high, MemoryAdapter(setup.queue, name="b")):
            await setup.queue.until(lambda: refused.state == "failed")
        assert refused.failures[0].message == "priority: must be at most 60: the operator allows no more"

    run(test())


def test_a_full_quota_leaves_jobs_in_the_foreign_queue(setup: Setup) -> None:
    setup = replace(setup, limits=QueueLimits(max_unfinished=2), slots=1)

    async def test() -> None:
        first = await setup.queue.add(DATA)
        async with running(setup):
            await setup.queue.until(setup.rows)
        await in_thread(lambda: setup.store.enqueue.many([_other(setup)]))
        second = await setup.queue.add(DATA)
        claimed = [await in_thread(claim, setup.store) for _ in range(2)]
        async with running(setup, MemoryAdapter(setup.queue, name="b")):
            await setup.queue.until(lambda: setup.count("closed"))
            assert second.state == "waiting"
            for one in claimed:
                await in_thread(succeed, setup.store, one)
            await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: first.state == second.state == "completed")

    run(test())


def test_a_disabled_requester_gets_no_new_jobs(setup: Setup) -> None:
    setup.store.requesters.disable(setup.store.requesters.find("newsroom"))

    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            await setup.queue.until(lambda: setup.count("closed"))
        assert job.state == "waiting"

    run(test())


def test_a_storage_profile_becomes_the_sealed_credentials_of_the_job(setup: Setup) -> None:
    secret = SecretStr("hunter2")
    credentials = S3Credentials(type="s3", access_key_id=secret, secret_access_key=secret)
    profile = StorageProfile(credentials, frozenset({"newsroom"}))
    setup = replace(setup.with_mapping(storage="main"), storage_profiles={"main": profile})

    async def test() -> None:
        job = await setup.queue.add({"source": "s3://in/a.mov"})
        async with running(setup):
            await setup.queue.until(setup.rows)
        row = setup.row_of(job)
        assert "hunter2" not in str(row)

    run(test())


def test_a_pruned_job_is_a_clear_failure(setup: Setup) -> None:
    async def test() -> None:
        job = await setup.queue.add(DATA)
        async with running(setup):
            await in_thread(lambda: succeed(setup.store, claim(setup.store)))
            await setup.queue.until(lambda: job.state == "completed")
        await in_thread(lambda: _prune(setup.store))
        await setup.queue.steal(job)
        async with running(setup, MemoryAdapter(setup.queue, name="b")):
            await setup.queue.until(lambda: job.state == "failed")
        assert [failure.code for failure in job.failures] == ["pruned"]
        assert setup.rows() == []

    run(test())


def test_hundreds_of_jobs_are_in_flight(setup: Setup) -> None:
    setup = replace(setup, slots=200)

    async def test() -> None:
        jobs = [await setup.queue.add(DATA) for _ in range(200)]
        async with running(setup):
            await setup.queue.until(lambda: setup.count("held") == 200)
            ended = 0
            while ended < 200:
                claimed = [await in_thread(claim, setup.store)]
                claimed += await in_thread(setup.store.inbox.claim, "w1", 50)
                await in_thread(setup.store.attempt_ends.complete, [completion(job) for job in claimed])
                ended += len(claimed)
            await setup.queue.until(lambda: all(job.state == "completed" for job in jobs))
        assert {job.reports for job in jobs} == {1}

    run(test())


def _other(setup: Setup) -> NewJob:
    requester_id = setup.store.requesters.find("newsroom")
    return new_job(requester_id=requester_id, source_ref="another")


def _prune(store: Store) -> None:
    for _ in store.prune.run(1):
        pass
