"""Compute the same facts independently: plain SQL in DuckDB over the same Parquet files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from tests.analytics.facts.history_rows import TABLES

JOB_FACTS = """
WITH job AS (
    SELECT * FROM jobs
    QUALIFY row_number() OVER (PARTITION BY job_id ORDER BY event_sequence DESC, updated_at DESC) = 1
), spent AS (
    SELECT job_id,
           min(started_at) AS first_started_at,
           coalesce(sum(used_seconds), 0) AS cpu_seconds,
           coalesce(sum(used_seconds) FILTER (outcome IS DISTINCT FROM 'succeeded'), 0) AS wasted_cpu_seconds,
           coalesce(sum(used_seconds) FILTER (used_from = 'slot'), 0) AS estimated_seconds,
           coalesce(sum(bytes_in), 0) AS bytes_in,
           max(bytes_out) FILTER (outcome = 'succeeded') AS bytes_out,
           max(vmaf) FILTER (outcome = 'succeeded') AS vmaf
    FROM attempt GROUP BY job_id
), known AS (
    SELECT job.* EXCLUDE (started_at),
           CASE WHEN status = 'failed' AND error_code = 'canceled' THEN 'canceled'
                WHEN status IN ('succeeded', 'failed', 'dead_letter') THEN status
                ELSE 'in_flight' END AS outcome,
           CASE WHEN not_before > created_at THEN not_before ELSE created_at END AS due_at,
           CASE WHEN first_started_at < started_at OR started_at IS NULL THEN first_started_at
                ELSE started_at END AS first_claimed_at,
           spent.* EXCLUDE (job_id)
    FROM job LEFT JOIN spent USING (job_id)
)
SELECT job_id, requester_id, coalesce(name, requester_id) AS requester,
       coalesce(profile, 'custom') AS profile, queue, priority, group_id, outcome,
       CASE WHEN outcome NOT IN ('succeeded', 'in_flight') THEN error_code END AS error_code,
       CASE WHEN outcome NOT IN ('succeeded', 'in_flight') THEN error_phase END AS error_phase,
       attempt_count AS attempts, credential_version - 1 AS refreshes, source_scheme, created_at, due_at,
       first_claimed_at, finished_at,
       CASE WHEN first_claimed_at < due_at THEN 0
            ELSE epoch_ms(first_claimed_at) - epoch_ms(due_at) END AS waiting_ms,
       CASE WHEN finished_at < due_at THEN 0 ELSE epoch_ms(finished_at) - epoch_ms(due_at) END AS total_ms,
       coalesce(cpu_seconds, 0) AS cpu_seconds, coalesce(wasted_cpu_seconds, 0) AS wasted_cpu_seconds,
       coalesce(estimated_seconds, 0)::DOUBLE AS estimated_seconds,
       coalesce(bytes_in, 0)::BIGINT AS bytes_in, coalesce(bytes_out, output_bytes) AS bytes_out,
       source_bytes,
       source_seconds AS media_seconds, output_seconds, vmaf, created_at::DATE AS day
FROM known LEFT JOIN names USING (requester_id)
"""

ATTEMPT_FACTS = """
SELECT attempt_id, job_id, requester_id, requester, profile, queue, attempt_no, worker_id,
       coalesce(ffmpeg, 'unknown') AS ffmpeg, coalesce(attempt.outcome, 'running') AS outcome,
       attempt.error_code, attempt.error_phase, error_retryable AS retryable, started_at, ended_at,
       CASE WHEN ended_at < started_at THEN 0 ELSE epoch_ms(ended_at) - epoch_ms(started_at) END AS busy_ms,
       fetch_ms, probe_ms, encode_ms, verify_ms, upload_ms, attempt.cpu_seconds, used_seconds, used_from,
       attempt.media_seconds,
       CASE WHEN encode_ms > 0 AND attempt.media_seconds > 0
            THEN attempt.media_seconds / (encode_ms / 1000) END AS speed,
       attempt.bytes_in, attempt.bytes_out, attempt.vmaf, started_at::DATE AS day
FROM attempt JOIN job_facts USING (job_id)
"""

DELIVERY_FACTS = """
WITH tries AS (SELECT DISTINCT * FROM deliveries),
     happened AS (SELECT DISTINCT event_id, job_id, requester_id, type, created_at, wanted FROM events),
     latest_try AS (
    SELECT event_id, count(*)::INT AS tries, min(ended_at - to_milliseconds(duration_ms)) AS first_tried_at,
           min(ended_at) FILTER (outcome = 'delivered') AS delivered_at,
           last(outcome ORDER BY claim_version) AS latest,
           last(status_code ORDER BY claim_version) AS status_code,
           last(error_code ORDER BY claim_version) FILTER (outcome <> 'delivered') AS error_code
    FROM tries GROUP BY event_id
)
SELECT event_id, job_id, requester_id, coalesce(name, requester_id) AS requester, type, created_at,
       coalesce(tries, 0) AS tries, first_tried_at, delivered_at,
       CASE WHEN tries IS NULL THEN 'pending' WHEN delivered_at IS NULL THEN latest
            ELSE 'delivered' END AS outcome,
       CASE WHEN delivered_at < created_at THEN 0
            ELSE epoch_ms(delivered_at) - epoch_ms(created_at) END AS latency_ms,
       status_code, error_code, created_at::DATE AS day
FROM happened LEFT JOIN latest_try USING (event_id) LEFT JOIN names USING (requester_id) WHERE wanted
"""


@contextmanager
def independently(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection with the history as views and the facts as tables."""
    with duckdb.connect() as sql:
        sql.execute("SET TimeZone = 'UTC'")
        for name in TABLES:
            files = f"'{folder / name}/**/*.parquet', hive_partitioning = false"
            sql.execute(f"CREATE VIEW {name} AS FROM read_parquet({files})")
        sql.execute("CREATE VIEW names AS SELECT DISTINCT requester_id, name FROM requesters")
        # An attempt can have two rows. Only the row with an end has the outcome, so prefer this row.
        sql.execute(
            "CREATE TABLE latest AS SELECT DISTINCT ON (attempt_id) * FROM attempts "
            "ORDER BY attempt_id, (ended_at IS NOT NULL) DESC"
        )
        sql.execute(
            "CREATE TABLE attempt AS SELECT *, "
            "CASE WHEN ended_at IS NULL THEN NULL "
            "WHEN cpu_seconds IS NOT NULL THEN coalesce(measured, 'cpu') "
            "WHEN ffmpeg IS NOT NULL AND encode_ms IS NULL AND measured IS NULL THEN 'cpu' "
            "ELSE 'slot' END AS used_from, "
            "CASE used_from WHEN 'slot' THEN greatest(0, epoch_ms(ended_at) - epoch_ms(started_at)) / 1000 "
            "WHEN NULL THEN NULL ELSE CASE WHEN used_from IS NOT NULL THEN coalesce(cpu_seconds, 0) END END "
            "AS used_seconds FROM latest"
        )
        facts = {"job_facts": JOB_FACTS, "attempt_facts": ATTEMPT_FACTS, "delivery_facts": DELIVERY_FACTS}
        for name, query in facts.items():
            sql.execute(f"CREATE TABLE {name} AS {query}")
        yield sql
