"""Histories for the tests of facts and marts: rows written by hand, with defaults, and generated rows."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from euterpe.analytics.facts import HistoryFrames
from euterpe.analytics.schema import Table, arrow_schema
from euterpe.analytics.tables import ATTEMPTS, DELIVERIES, EVENTS, HISTORY, JOBS, REQUESTERS

Row = dict[str, Any]
Rows = dict[str, list[Row]]

TABLES = {**HISTORY, REQUESTERS.name: REQUESTERS}
START = datetime(2026, 3, 2, tzinfo=UTC)


def at(hours: float = 0, seconds: float = 0) -> datetime:
    """Return the instant that is this long after `START`. `START` is the beginning of a Monday."""
    moment = START + timedelta(hours=hours, seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


JOB: Row = {
    "event_sequence": 1,
    "requester_id": "r1",
    "profile": "h264-720p",
    "queue": "default",
    "priority": 50,
    "status": "queued",
    "attempt_count": 0,
    "max_attempts": 3,
    "refresh_count": 0,
    "credential_version": 1,
    "source_scheme": "s3",
    "created_at": at(),
    "updated_at": at(),
}
ATTEMPT: Row = {
    "job_id": "j1",
    "attempt_no": 1,
    "claim_version": 1,
    "worker_id": "w1",
    "started_at": at(),
}
EVENT: Row = {"job_id": "j1", "requester_id": "r1", "sequence": 1, "type": "job.claimed", "created_at": at()}
DELIVERY: Row = {
    "event_id": "e1",
    "job_id": "j1",
    "requester_id": "r1",
    "claim_version": 1,
    "worker_id": "d1",
    "outcome": "delivered",
    "status_code": 200,
    "duration_ms": 100,
    "ended_at": at(),
}
_DEFAULTS = {JOBS: JOB, ATTEMPTS: ATTEMPT, EVENTS: EVENT, DELIVERIES: DELIVERY, REQUESTERS: {}}


def table_of(table: Table, rows: Sequence[Mapping[str, Any]], defaults: Row) -> pa.Table:
    """Return the rows with defaults for missing columns, and with a generated key if the key is missing."""
    numbers = count(1)
    whole = [{table.key[0]: f"{table.name[0]}{next(numbers)}", **defaults, **row} for row in rows]
    return pa.Table.from_pylist(whole, arrow_schema(table.columns))


def history(spark: SparkSession, **rows: Sequence[Mapping[str, Any]]) -> HistoryFrames:
    """Return the data frames of handwritten rows."""
    tables = (table_of(table, rows.get(name, ()), _DEFAULTS[table]) for name, table in TABLES.items())
    return HistoryFrames(*map(spark.createDataFrame, tables))


def write(folder: Path, rows: Rows) -> None:
    """Write each table as three Parquet files. The rows are distributed round-robin."""
    for name, table in TABLES.items():
        (folder / name).mkdir(parents=True)
        for part in range(3):
            some = pa.Table.from_pylist(rows[name][part::3], arrow_schema(table.columns))
            pq.write_table(some, folder / name / f"{part}.parquet")


def read(spark: SparkSession, folder: Path) -> HistoryFrames:
    def frame(name: str) -> DataFrame:
        return spark.read.parquet(str(folder / name))

    return HistoryFrames(*map(frame, TABLES))


PROFILES = ("h264-720p", "h264-720p", "audio-aac", "hevc-1080p", None, "of-a-later-release")
REQUESTERS_BY_SIZE = ("r1", "r1", "r1", "r1", "r2", "r2", "r3", "r4")
ERRORS = (
    ("source_unreachable", "fetching", True),
    ("storage_throttled", "uploading", True),
    ("encode_stalled", "processing", True),
    ("source_not_found", "fetching", False),
    ("source_forbidden", "fetching", False),
    ("output_forbidden", "uploading", False),
)
DAYS = 40


def generate(seed: int, jobs: int) -> Rows:
    """Return a history of `jobs` jobs over forty days, with older versions and copies of some rows."""
    rng = random.Random(seed)
    rows: Rows = {name: [] for name in TABLES}
    # Requester r4 was deleted, so it has no name.
    rows["requesters"] = [{"requester_id": f"r{n}", "name": f"studio-{n}"} for n in (1, 2, 3)]
    for number in range(jobs):
        JobHistory(rng, rows, f"job-{number:06}").simulate()
    for table in rows.values():
        table += [dict(row) for row in table if rng.random() < 0.02]
        rng.shuffle(table)
    return rows


class JobHistory:
    """A simulated job. Each step adds a version of the job's row, and an event."""

    def __init__(self, rng: random.Random, rows: Rows, job_id: str) -> None:
        self.rng, self.rows = rng, rows
        self.now = START + timedelta(milliseconds=int(DAYS * 86_400_000 * rng.random() ** 0.8))
        self.job = {
            **JOB,
            "job_id": job_id,
            "event_sequence": 0,
            "requester_id": rng.choice(REQUESTERS_BY_SIZE),
            "profile": rng.choice(PROFILES),
            "queue": rng.choice(("default", "default", "bulk")),
            "source_bytes": rng.randint(10**6, 10**10),
            "source_seconds": round(rng.lognormvariate(5, 1), 3),
            "created_at": self.now,
        }
        if rng.random() < 0.1:
            self.job["not_before"] = self.now + timedelta(minutes=rng.randint(-5, 60))
        self.tries = 0

    def simulate(self) -> None:
        self.step("queued", new=True)
        if self.rng.random() < 0.03:
            self.pass_time(60)
            return self.step("failed", error_code="canceled", error_phase="queued", finished_at=self.now)
        while self.rng.random() > 0.02:
            self.pass_time(400)
            if not self.attempt():
                break
        return None

    def attempt(self) -> bool:
        """Add an attempt, and return whether another attempt follows."""
        self.tries += 1
        version = "9.0.2" if self.now < START + timedelta(days=25) else "9.1"
        attempt = {
            **ATTEMPT,
            "job_id": self.job["job_id"],
            "attempt_id": f"{self.job['job_id']}-{self.tries}",
            "attempt_no": min(self.tries, 3),
            "worker_id": f"worker-{self.rng.randint(1, 5)}",
            "started_at": self.now,
        }
        self.step(
            "claimed", attempt_count=min(self.tries, 3), started_at=self.job.get("started_at", self.now)
        )
        self.rows["attempts"].append(dict(attempt))
        draw = self.rng.random()
        if draw < 0.01:
            return False  # the attempt still runs
        self.pass_time(1200)
        attempt["ended_at"] = self.now
        if draw < 0.02:
            attempt["ended_at"] = attempt["started_at"] - timedelta(seconds=2)  # the clock was set back
        if draw < 0.05:
            self.rows["attempts"].append(attempt | {"outcome": "released"})
            self.step("queued")
            return True
        if draw < 0.07:
            return self.kill(attempt, version)
        attempt |= self.timings(version)
        if draw < 0.22:
            return self.fail(attempt)
        self.succeed(attempt)
        return False

    def kill(self, attempt: Row, version: str) -> bool:
        """End the attempt with a lost lease. In half of the cases, add the figures of its last heartbeat."""
        measured = {
            "ffmpeg": version,
            "cpu_seconds": round(self.rng.uniform(1, 90), 3),
            "measured": "last_beat",
        }
        code: Row = {"error_code": "lease_expired", "error_phase": "processing", "error_retryable": True}
        known = measured if self.rng.random() < 0.5 else {}
        self.rows["attempts"].append(attempt | known | code | {"outcome": "lease_expired"})
        self.step("queued", error_code="lease_expired", error_phase="processing")
        return True

    def timings(self, version: str) -> Row:
        encode = round(1000 * self.job["source_seconds"] / self.rng.lognormvariate(1, 0.3))
        return {
            "fetch_ms": self.rng.randint(10, 90_000),
            "probe_ms": self.rng.randint(1, 900),
            "encode_ms": encode,
            "cpu_seconds": round(encode * self.rng.uniform(1, 2) / 1000, 3),
            "media_seconds": self.job["source_seconds"],
            "bytes_in": self.job["source_bytes"],
            "ffmpeg": version if self.rng.random() < 0.97 else None,
        }

    def fail(self, attempt: Row) -> bool:
        if self.rng.random() < 0.1:
            code, phase, again = "canceled", "processing", False
        else:
            code, phase, again = self.rng.choice(ERRORS)
        if code == "source_forbidden":
            self.job["credential_version"] += self.rng.randint(0, 2)
        again = again and self.tries < 3
        outcome = "canceled" if code == "canceled" else "requeued" if again else "failed"
        error: Row = {"error_code": code, "error_phase": phase}
        self.rows["attempts"].append(attempt | error | {"outcome": outcome, "error_retryable": again})
        if again:
            self.step("queued", **error)
        else:
            self.step("failed", **error, finished_at=self.now)
            if self.tries >= 3:
                self.step("dead_letter")
        return again

    def succeed(self, attempt: Row) -> None:
        size = int(self.job["source_bytes"] * self.rng.lognormvariate(-1, 0.7))
        if self.rng.random() < 0.3:
            attempt["vmaf"] = round(self.rng.uniform(80, 100), 3)
        attempt |= {"upload_ms": self.rng.randint(10, 60_000), "bytes_out": size, "outcome": "succeeded"}
        self.rows["attempts"].append(attempt)
        self.job |= {"outputs": 1, "output_seconds": self.job["source_seconds"], "output_bytes": size}
        self.step("succeeded", error_code=None, error_phase=None, finished_at=self.now)

    def step(self, status: str, *, new: bool = False, **changes: Any) -> None:
        self.job |= changes | {"status": status, "updated_at": self.now}
        if not new:
            self.job["event_sequence"] += 1
            self.add_event()
        self.rows["jobs"].append(dict(self.job))

    def add_event(self) -> None:
        event = {
            **EVENT,
            "event_id": f"{self.job['job_id']}-e{self.job['event_sequence']}",
            "job_id": self.job["job_id"],
            "requester_id": self.job["requester_id"],
            "sequence": self.job["event_sequence"],
            "type": f"job.{self.job['status']}",
            "created_at": self.now,
            "wanted": self.job["requester_id"] != "r3",  # requester r3 has no webhook, and polls
        }
        self.rows["events"].append(event)
        if event["wanted"] and self.rng.random() > 0.01:  # 1 % of these events were not sent yet
            self.add_deliveries(event)

    def add_deliveries(self, event: Row) -> None:
        ended, is_slow = self.now, event["requester_id"] == "r2"
        for number in range(1, 4):
            ended += timedelta(milliseconds=self.rng.randint(20, 90_000 if is_slow else 4_000))
            is_delivered = self.rng.random() < (0.5 if is_slow else 0.97)
            code = self.rng.choice(("answered_503", "egress_timeout"))
            failure = {"error_code": code, "status_code": 503 if code == "answered_503" else None}
            delivery = {
                **DELIVERY,
                **{name: event[name] for name in ("event_id", "job_id", "requester_id")},
                "delivery_id": f"{event['event_id']}-d{number}",
                "claim_version": number,
                "outcome": "delivered" if is_delivered else "dead_letter" if number == 3 else "pending",
                "duration_ms": self.rng.randint(5, 3_000),
                "ended_at": ended,
            }
            self.rows["deliveries"].append(delivery | ({} if is_delivered else failure))
            if is_delivered or self.rng.random() < 0.05:
                return

    def pass_time(self, mean_seconds: float) -> None:
        self.now += timedelta(milliseconds=int(1000 * self.rng.expovariate(1 / mean_seconds)))
