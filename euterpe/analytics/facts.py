"""Facts: the ingested history, cleaned.

Facts have one row for each job, for each attempt, and for each event for which a webhook is to be sent.
Attempts without a job and deliveries without an event are left out. The missing job or event was deleted from
the lake with all rows of its day, or was pruned from the database during an ingest.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StructField

from euterpe.analytics.schema import Table, spark_schema
from euterpe.analytics.tables import ATTEMPT_FACTS, ATTEMPTS, DELIVERY_FACTS, JOB_FACTS


class HistoryFrames(NamedTuple):
    """The history tables as DataFrames.

    A job or an attempt can have several rows, one for each ingested version.
    """

    jobs: DataFrame
    attempts: DataFrame
    events: DataFrame
    deliveries: DataFrame
    requesters: DataFrame


class Facts(NamedTuple):
    jobs: DataFrame
    attempts: DataFrame
    deliveries: DataFrame


def facts(history: HistoryFrames) -> Facts:
    """Return the facts of a history.

    The caller caches these frames, because the marts read each frame several times.
    """
    names = history.requesters.groupBy("requester_id").agg(F.max("name").alias("name"))
    # The frames of jobs and attempts are partitioned by job, so that the choice of versions, the sums and the
    # joins need only one shuffle.
    jobs = latest_jobs(history.jobs.repartition("job_id"))
    jobs = _named(jobs, names).withColumn("profile", F.coalesce("profile", F.lit("custom")))
    attempts = _with_use(shaped(latest_attempts(history.attempts.repartition("job_id")), ATTEMPTS))
    return Facts(
        _job_facts(jobs, attempts),
        _attempt_facts(jobs, attempts),
        _delivery_facts(history.events, history.deliveries, names),
    )


def shaped(frame: DataFrame, table: Table) -> DataFrame:
    """Return the frame with the columns of the table, in the order and with the types of the table."""
    return frame.select(*(_value(field).alias(field.name) for field in spark_schema(table).fields))


def _value(field: StructField) -> Column:
    """Cast the column to its type. NaN and infinity become null: one NaN makes every sum and mean NaN."""
    value = F.col(field.name).cast(field.dataType)
    return F.when(F.abs(value) < float("inf"), value) if isinstance(field.dataType, DoubleType) else value


def milliseconds(begin: str, end: str) -> Column:
    """Return the milliseconds between two instants, or 0 if a clock was set back between them."""
    apart = F.unix_millis(F.col(end)) - F.unix_millis(F.col(begin))
    return F.when(apart < 0, 0).otherwise(apart)


def latest_jobs(versions: DataFrame) -> DataFrame:
    # Credentials are replaced without an event, so two versions of a job can have the same `event_sequence`.
    # Then `updated_at` and `credential_version` decide which version is newer.
    return _latest(versions, ["job_id"], ["event_sequence", "updated_at", "credential_version"])


def latest_attempts(versions: DataFrame) -> DataFrame:
    return _latest(versions, ["job_id", "attempt_id"], [F.col("ended_at").isNotNull(), "ended_at"])


def _latest(versions: DataFrame, key: list[str], order: list[str | Column]) -> DataFrame:
    newest = Window.partitionBy(*key).orderBy(
        *(F.desc(by) if isinstance(by, str) else by.desc() for by in order)
    )
    return versions.withColumn("version", F.row_number().over(newest)).where("version = 1").drop("version")


def _named(frame: DataFrame, names: DataFrame) -> DataFrame:
    named = frame.join(F.broadcast(names), "requester_id", "left")
    return named.withColumn("requester", F.coalesce("name", "requester_id"))


def _job_facts(jobs: DataFrame, attempts: DataFrame) -> DataFrame:
    succeeded = F.col("outcome") == "succeeded"
    spent = attempts.groupBy("job_id").agg(
        F.min("started_at").alias("first_started_at"),
        F.sum("used_seconds").alias("cpu_seconds"),
        F.sum(F.when(F.col("outcome") != "succeeded", F.col("used_seconds"))).alias("wasted_cpu_seconds"),
        F.sum(F.when(F.col("used_from") == "slot", F.col("used_seconds"))).alias("estimated_seconds"),
        F.sum("bytes_in").alias("bytes_in"),
        F.max(F.when(succeeded, F.col("bytes_out"))).alias("bytes_out"),
        F.max(F.when(succeeded, F.col("vmaf"))).alias("vmaf"),
    )
    has_failed = F.col("outcome").isin("failed", "dead_letter", "canceled")
    columns = {
        "outcome": _job_outcome(),
        "attempts": F.col("attempt_count"),
        "refreshes": F.greatest(F.col("credential_version") - 1, F.lit(0)),
        "media_seconds": F.col("source_seconds"),
        # `greatest` and `least` ignore nulls, so one unknown instant does not make the result null.
        "due_at": F.greatest("created_at", "not_before"),
        "first_claimed_at": F.least("started_at", "first_started_at"),
        "bytes_out": F.coalesce("bytes_out", "output_bytes"),
        "day": F.to_date("created_at"),
    }
    worked_out = {
        "error_code": F.when(has_failed, F.col("error_code")),
        "error_phase": F.when(has_failed, F.col("error_phase")),
        "waiting_ms": milliseconds("due_at", "first_claimed_at"),
        "total_ms": milliseconds("due_at", "finished_at"),
    }
    sums = ["cpu_seconds", "wasted_cpu_seconds", "estimated_seconds", "bytes_in"]
    known = jobs.join(spent, "job_id", "left").fillna(0, sums)
    return shaped(known.withColumns(columns).withColumns(worked_out), JOB_FACTS)


def _job_outcome() -> Column:
    status = F.col("status")
    return (
        F.when((status == "failed") & (F.col("error_code") == "canceled"), "canceled")
        .when(status.isin("succeeded", "failed", "dead_letter"), status)
        .otherwise("in_flight")
    )


def _with_use(attempts: DataFrame) -> DataFrame:
    """Add each attempt's usage: its processor time or, if unknown, the time for which it held its slot.

    A worker that reports the end of an attempt fills the column `ffmpeg` and, if ffmpeg ran, also `encode_ms`
    and `cpu_seconds`. So if `ffmpeg` has a value and `encode_ms` is null, the attempt used no processor time.
    If the worker was killed, at most the figures of its last heartbeat are known.
    """
    at_last_beat = F.col("measured").eqNullSafe("last_beat")
    never_encoded = F.col("ffmpeg").isNotNull() & F.col("encode_ms").isNull() & ~at_last_beat
    used_from = (
        F.when(F.col("ended_at").isNull(), None)
        .when(F.col("cpu_seconds").isNotNull(), F.when(at_last_beat, "last_beat").otherwise("cpu"))
        .when(never_encoded, "cpu")
        .otherwise("slot")
    )
    used = F.when(
        F.col("used_from").isNotNull(),
        F.when(F.col("used_from") == "slot", milliseconds("started_at", "ended_at") / 1000).otherwise(
            F.coalesce("cpu_seconds", F.lit(0.0))
        ),
    )
    return attempts.withColumn("used_from", used_from).withColumn("used_seconds", used)


def _attempt_facts(jobs: DataFrame, attempts: DataFrame) -> DataFrame:
    of_job = jobs.select("job_id", "requester_id", "requester", "profile", "queue")
    encoded = (F.col("media_seconds") > 0) & (F.col("encode_ms") > 0)
    columns = {
        "ffmpeg": F.coalesce("ffmpeg", F.lit("unknown")),
        "outcome": F.coalesce("outcome", F.lit("running")),
        "retryable": F.col("error_retryable"),
        "busy_ms": milliseconds("started_at", "ended_at"),
        "speed": F.when(encoded, F.col("media_seconds") * 1000 / F.col("encode_ms")),
        "day": F.to_date("started_at"),
    }
    return shaped(attempts.join(of_job, "job_id").withColumns(columns), ATTEMPT_FACTS)


def _delivery_facts(events: DataFrame, deliveries: DataFrame, names: DataFrame) -> DataFrame:
    # The frames of events and deliveries are partitioned by event, so that the removal of duplicates, the
    # join and the sums need only one sort.
    happened = _wanted(events.repartition("event_id"))
    tried = deliveries.repartition("event_id").dropDuplicates(["event_id", "delivery_id"])
    place = F.struct("claim_version", "ended_at", "delivery_id")
    delivered = F.col("outcome") == "delivered"
    by_event = tried.groupBy("event_id").agg(
        F.count("*").alias("tries"),
        F.min(F.timestamp_millis(F.unix_millis(F.col("ended_at")) - F.col("duration_ms"))).alias(
            "first_tried_at"
        ),
        F.min(F.when(delivered, F.col("ended_at"))).alias("delivered_at"),
        F.max_by("outcome", place).alias("latest"),
        F.max_by("status_code", place).alias("status_code"),
        F.max_by("error_code", F.when(~delivered, place)).alias("error_code"),
    )
    columns = {
        # A delivered event stays delivered, even if a replay of it fails.
        "outcome": F.when(F.col("delivered_at").isNotNull(), "delivered").otherwise(
            F.coalesce("latest", F.lit("pending"))
        ),
        "tries": F.coalesce("tries", F.lit(0)),
        "latency_ms": milliseconds("created_at", "delivered_at"),
        "day": F.to_date("created_at"),
    }
    # An event without deliveries counts only if `wanted` is true. Earlier versions did not record `wanted`,
    # so it can be null.
    known = happened.join(by_event, "event_id", "left").where("wanted OR tries IS NOT NULL")
    return shaped(_named(known, names).withColumns(columns), DELIVERY_FACTS)


def _wanted(events: DataFrame) -> DataFrame:
    """Return each event once, except events for which no webhook is sent."""
    return (
        events.where("wanted IS NOT false")
        .groupBy("event_id")
        .agg(
            *(F.max(name).alias(name) for name in ("job_id", "requester_id", "type", "created_at")),
            F.bool_or("wanted").alias("wanted"),
        )
    )
