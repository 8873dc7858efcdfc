"""The patterns that are planted in a synthetic history, so that reports have something to find."""

from collections.abc import Callable
from math import exp, log
from statistics import mean, quantiles
from typing import Any

from euterpe.synthesize.history_plan import HistoryPlan
from tests.synthesize.made_history import PLAN, UNTIL_MS, by, history

JOBS = {row["job_id"]: row for row in history(PLAN, "jobs")}
ATTEMPTS = history(PLAN, "attempts")
HOUR_MS = 3_600_000
# With fewer jobs, the failure rates of a single profile could not be compared.
MANY = HistoryPlan(jobs=40_000, seed=11, until_ms=UNTIL_MS)


def share(which: Callable[[dict[str, Any]], bool], of: list[dict[str, Any]]) -> float:
    return mean(map(which, of))


def profile(attempt: dict[str, Any]) -> str | None:
    found: str | None = JOBS[attempt["job_id"]]["profile"]
    return found


def factors(name: str, ffmpeg: str) -> float:
    """Return the geometric mean of the encoding speeds of a profile with a version of ffmpeg."""
    own = [a for a in ATTEMPTS if profile(a) == name and a["ffmpeg"] == ffmpeg and a["cpu_seconds"]]
    return exp(mean(log(a["media_seconds"] * 1000 / a["encode_ms"]) for a in own))


def test_one_profile_is_slower_with_the_newer_ffmpeg_and_no_other() -> None:
    assert 0.85 < factors("hevc-1080p", "9.1") / factors("hevc-1080p", "9.0.2") < 0.91
    assert 0.97 < factors("h264-720p", "9.1") / factors("h264-720p", "9.0.2") < 1.03


def test_one_profile_fails_twice_as_often_with_the_newer_ffmpeg() -> None:
    of_job = {job["job_id"]: job["profile"] for job in history(MANY, "jobs")}
    rates = {}
    for ffmpeg in ("9.0.2", "9.1"):
        own = [
            a
            for a in history(MANY, "attempts")
            if of_job[a["job_id"]] == "hls-ladder" and a["ffmpeg"] == ffmpeg
        ]
        rates[ffmpeg] = share(lambda attempt: attempt["error_code"] == "encode_failed", own)
    assert 1.5 < rates["9.1"] / rates["9.0.2"] < 2.7


def test_the_newer_ffmpeg_comes_once_and_stays() -> None:
    assert {a["ffmpeg"] for a in ATTEMPTS if a["ffmpeg"] and a["started_at"] < PLAN.upgraded_ms} == {"9.0.2"}
    assert {a["ffmpeg"] for a in ATTEMPTS if a["ffmpeg"] and a["started_at"] >= PLAN.upgraded_ms} == {"9.1"}


def test_requesters_are_of_very_different_size() -> None:
    sizes = sorted(map(len, by("requester_id", JOBS.values()).values()))
    assert len(sizes) == 12
    assert sizes[-1] > 10 * sizes[0]


def test_all_profiles_queues_and_schemes_occur() -> None:
    seen = {name: {job[name] for job in JOBS.values()} for name in ("profile", "queue", "source_scheme")}
    assert seen["profile"] == {"h264-720p", "audio-aac", "hevc-1080p", "av1-1080p", "hls-ladder", None}
    assert seen["queue"] == {"default", "express", "bulk"}
    assert seen["source_scheme"] == {"s3", "gs", "az", "https", "file"}


def test_most_jobs_succeed_and_some_of_each_end_do_not() -> None:
    ended = [job for job in JOBS.values() if job["finished_at"]]
    assert 0.93 < share(lambda job: job["status"] == "succeeded", ended) < 0.98
    assert 0.001 < share(lambda job: job["status"] == "dead_letter", ended) < 0.02


def test_waiting_is_long_when_it_is_busy() -> None:
    waits = [
        (job["created_at"] // HOUR_MS % 24, job["started_at"] - job["created_at"])
        for job in JOBS.values()
        if job["started_at"] and job["not_before"] is None
    ]
    busy, quiet = ([took for hour, took in waits if hour in hours] for hours in ((14, 15, 16), (2, 3, 4)))
    assert quantiles(busy, n=20)[-1] > 10 * quantiles(quiet, n=20)[-1]


def test_a_third_of_what_succeeded_was_measured() -> None:
    seen = [a for a in ATTEMPTS if a["outcome"] == "succeeded" and profile(a) != "audio-aac"]
    assert 0.31 < share(lambda attempt: attempt["vmaf"] is not None, seen) < 0.36
    assert all(80 < attempt["vmaf"] < 100 for attempt in seen if attempt["vmaf"])


def test_no_worker_has_more_than_its_slots() -> None:
    for attempts in by("worker_id", history(PLAN, "attempts")).values():
        edges = sorted(
            edge
            for attempt in attempts
            for edge in ((attempt["started_at"], 1), (attempt["ended_at"] or UNTIL_MS + 1, -1))
        )
        busy = most = 0
        for _, step in edges:
            busy += step
            most = max(most, busy)
        # Consecutive blocks have different workers, and blocks alternate between two sets of workers.
        assert most <= 8
