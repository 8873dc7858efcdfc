"""Compute the same marts independently, by SQL in DuckDB over facts that DuckDB computed.

The module `statistical` adds the columns that SQL cannot compute.
"""

PARTS = """
CREATE TABLE parts AS
WITH whole AS (
    SELECT worker_id, queue, started_at AS began,
           greatest(started_at, coalesce(
               ended_at, least((SELECT finish FROM horizon), started_at + INTERVAL 7 DAY))) AS ended
    FROM attempt_facts
)
SELECT day::DATE AS day, worker_id, queue,
       greatest(began, day) AS begins, least(ended, day + INTERVAL 1 DAY) AS ends
FROM whole, generate_series(date_trunc('day', began), ended, INTERVAL 1 DAY) AS days (day)
WHERE ended > day OR ended = began
"""

HORIZON = """
CREATE TABLE horizon AS
WITH instants AS (
    SELECT unnest([created_at, finished_at]) AS instant FROM job_facts
    UNION ALL SELECT unnest([started_at, ended_at]) FROM attempt_facts
    UNION ALL SELECT unnest([created_at, delivered_at]) FROM delivery_facts
)
SELECT min(instant) AS start, max(instant) AS finish FROM instants
"""

FAILED = """
CREATE TABLE failed AS
SELECT *, outcome <> 'succeeded' AS has_failed
FROM attempt_facts
WHERE outcome NOT IN ('running', 'canceled', 'released') AND error_code IS DISTINCT FROM 'canceled'
"""


THROUGHPUT = """
SELECT day, requester, profile, queue, count(*) AS jobs,
       count(*) FILTER (outcome = 'succeeded') AS succeeded,
       count(*) FILTER (outcome = 'failed') AS failed,
       count(*) FILTER (outcome = 'dead_letter') AS dead_letter,
       count(*) FILTER (outcome = 'canceled') AS canceled,
       count(*) FILTER (outcome = 'in_flight') AS in_flight,
       avg((outcome = 'succeeded')::INT)
           FILTER (outcome IN ('succeeded', 'failed', 'dead_letter')) AS success_rate,
       coalesce(sum(output_seconds) FILTER (outcome = 'succeeded'), 0) / 60 AS output_minutes
FROM job_facts GROUP BY ALL
"""

LATENCY = """
WITH spent AS (
    SELECT profile, queue, 'waiting' AS stage, waiting_ms AS ms FROM job_facts
    UNION ALL SELECT profile, queue, 'total', total_ms FROM job_facts WHERE outcome = 'succeeded'
    UNION ALL SELECT profile, queue, 'fetch', fetch_ms FROM attempt_facts WHERE outcome = 'succeeded'
    UNION ALL SELECT profile, queue, 'encode', encode_ms FROM attempt_facts WHERE outcome = 'succeeded'
    UNION ALL SELECT profile, queue, 'upload', upload_ms FROM attempt_facts WHERE outcome = 'succeeded'
)
SELECT profile, queue, stage, count(*) AS count,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY ms::DOUBLE) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY ms::DOUBLE) AS p95_ms,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY ms::DOUBLE) AS p99_ms,
       max(ms)::DOUBLE AS max_ms
FROM spent WHERE ms IS NOT NULL GROUP BY ALL
"""

SPEED = """
SELECT profile, ffmpeg, count(*) AS attempts, sum(media_seconds) / 60 AS media_minutes,
       sum(media_seconds) / sum(encode_ms / 1000) AS factor,
       quantile_cont(speed, 0.05) AS p05_factor, median(speed) AS p50_factor,
       sum(cpu_seconds) / sum(media_seconds) FILTER (cpu_seconds IS NOT NULL) AS cpu_per_media_second
FROM attempt_facts WHERE outcome = 'succeeded' AND speed IS NOT NULL GROUP BY ALL
"""

FAILURES = """
SELECT error_code, error_phase, count(*) AS attempts, count(DISTINCT job_id) AS jobs,
       count(DISTINCT failed.requester_id) AS requesters,
       count(DISTINCT job_id) FILTER (job_facts.outcome = 'succeeded')
           / nullif(count(DISTINCT job_id) FILTER (job_facts.outcome <> 'in_flight'), 0) AS recovered,
       min(ended_at) AS first_seen, max(ended_at) AS last_seen,
       count(*) FILTER (ended_at > finish - INTERVAL 7 DAY) AS last_week,
       count(*) FILTER (ended_at > finish - INTERVAL 14 DAY AND ended_at <= finish - INTERVAL 7 DAY)
           AS week_before
FROM (SELECT * EXCLUDE (error_code, error_phase), coalesce(error_code, 'unknown') AS error_code,
             coalesce(error_phase, 'unknown') AS error_phase FROM failed) AS failed
JOIN (SELECT job_id, outcome FROM job_facts) AS job_facts USING (job_id), horizon
WHERE has_failed GROUP BY ALL
"""

REFRESHES = """
WITH refused AS (
    SELECT requester, count(*) AS n FROM attempt_facts
    WHERE error_code IN ('source_forbidden', 'output_forbidden') GROUP BY ALL
)
SELECT requester, count(*) AS jobs, count(*) FILTER (refreshes > 0) AS refreshed_jobs,
       sum(refreshes)::BIGINT AS refreshes, avg((refreshes > 0)::INT) AS refreshed_share,
       avg((outcome = 'succeeded')::INT)
           FILTER (refreshes > 0 AND outcome NOT IN ('in_flight', 'canceled')) AS succeeded_after,
       coalesce(any_value(n), 0) AS credential_failures
FROM job_facts LEFT JOIN refused USING (requester) GROUP BY requester
"""

WEBHOOKS = """
WITH error AS (
    SELECT requester, error_code, count(*) AS n FROM delivery_facts
    WHERE error_code IS NOT NULL GROUP BY requester, error_code
    QUALIFY row_number() OVER (PARTITION BY requester ORDER BY n DESC, error_code) = 1
)
SELECT requester, count(*) AS events,
       count(*) FILTER (outcome = 'delivered') AS delivered,
       count(*) FILTER (outcome = 'pending') AS pending,
       count(*) FILTER (tries = 0) AS untried,
       count(*) FILTER (outcome = 'dead_letter') AS dead_letter,
       avg(tries) FILTER (tries > 0) AS tries_per_event,
       quantile_cont(latency_ms::DOUBLE, 0.5) AS p50_ms,
       quantile_cont(latency_ms::DOUBLE, 0.95) AS p95_ms,
       quantile_cont(latency_ms::DOUBLE, 0.99) AS p99_ms,
       count(*) FILTER (outcome <> 'pending' OR created_at < finish - INTERVAL 60 SECOND) AS judged,
       avg(coalesce(outcome = 'delivered' AND latency_ms <= 60000, false)::INT)
           FILTER (outcome <> 'pending' OR created_at < finish - INTERVAL 60 SECOND) AS within_slo,
       within_slo >= 0.99 AS meets_slo,
       any_value(error.error_code) AS worst_error
FROM delivery_facts LEFT JOIN error USING (requester), horizon GROUP BY requester
"""

SIZES = """
SELECT profile, count(*) AS jobs, sum(source_bytes)::BIGINT AS bytes_in, sum(bytes_out)::BIGINT AS bytes_out,
       sum(bytes_out) / sum(source_bytes) AS ratio, median(bytes_out / source_bytes) AS p50_ratio,
       count(*) FILTER (bytes_out > source_bytes) AS larger_than_source,
       sum(bytes_out) FILTER (output_seconds > 0) * 0.008 / sum(output_seconds) AS kbit_per_second,
       count(vmaf) AS measured, quantile_cont(vmaf, 0.05) AS p05_vmaf, median(vmaf) AS p50_vmaf,
       count(*) FILTER (vmaf > 97) AS generous
FROM job_facts
WHERE outcome = 'succeeded' AND source_bytes > 0 AND bytes_out IS NOT NULL GROUP BY ALL
"""

COSTS = """
WITH made AS (
    SELECT requester, profile, sum(output_seconds) / 60 AS minutes
    FROM job_facts WHERE outcome = 'succeeded' GROUP BY ALL
)
SELECT requester, profile, count(DISTINCT job_id) AS jobs,
       coalesce(sum(used_seconds), 0) / 3600 AS cpu_hours,
       coalesce(sum(used_seconds) FILTER (used_from = 'slot'), 0) / 3600 AS estimated_hours,
       coalesce(sum(used_seconds) FILTER (outcome <> 'succeeded'), 0) / 3600 AS wasted_cpu_hours,
       coalesce(sum(used_seconds) FILTER (used_from = 'slot' AND outcome <> 'succeeded'), 0) / 3600
           AS wasted_estimated_hours,
       coalesce(sum(bytes_in), 0) / 1024 ** 3 AS gib_in,
       coalesce(sum(bytes_out), 0) / 1024 ** 3 AS gib_out,
       coalesce(any_value(minutes), 0)::DOUBLE AS output_minutes,
       cpu_hours * 0.04 + gib_in * 0.01 + gib_out * 0.09 AS cost,
       wasted_cpu_hours * 0.04 AS wasted_cost,
       CASE WHEN output_minutes > 0 THEN cost / output_minutes END AS cost_per_output_minute
FROM attempt_facts LEFT JOIN made USING (requester, profile)
WHERE ended_at IS NOT NULL GROUP BY requester, profile
"""

PEAK = """
    greatest(1, max((
        SELECT count(*) FROM parts AS other
        WHERE other.day = part.day AND other.{by} = part.{by}
          AND other.begins <= part.begins AND other.ends > part.begins
    )))
"""

UTILISATION = f"""
SELECT day, worker_id, count(*) AS attempts,
       sum(epoch_us(ends) - epoch_us(begins)) / 1e6 AS busy_seconds,
       (epoch_us(max(ends)) - epoch_us(min(begins))) / 1e6 AS present_seconds,
       CASE WHEN present_seconds > 0 THEN busy_seconds / present_seconds END AS mean_busy,
       {PEAK.format(by="worker_id")} AS peak_busy,
       mean_busy / peak_busy AS utilisation
FROM parts AS part GROUP BY day, worker_id
"""  # noqa: S608

CAPACITY = f"""
WITH hour AS (
    SELECT queue, date_trunc('hour', created_at) AS hour, count(*) AS n FROM job_facts, horizon
    WHERE created_at > finish - INTERVAL 28 DAY GROUP BY ALL
), spent AS (
    SELECT queue, job_id, sum(busy_ms) / 1000 AS seconds FROM attempt_facts, horizon
    WHERE ended_at IS NOT NULL AND started_at > finish - INTERVAL 28 DAY GROUP BY ALL
), service AS (
    SELECT queue, avg(seconds) AS mean, var_pop(seconds) AS variance FROM spent GROUP BY ALL
), slots AS (
    SELECT queue, {PEAK.format(by="queue")} AS slots_now
    FROM parts AS part, horizon WHERE begins > finish - INTERVAL 28 DAY GROUP BY ALL
), week AS (
    SELECT queue, floor((epoch_us(finish) - epoch_us(created_at)) / (7 * 86400e6)) AS ago, count(*) AS n
    FROM job_facts, horizon GROUP BY ALL
), busiest AS (
    SELECT queue, max_by(hour, (n, hour)) AS hour FROM hour GROUP BY queue
), seen AS (
    SELECT queue, quantile_cont(waited_ms, 0.5) AS p50_waited, quantile_cont(waited_ms, 0.95) AS p95_waited,
           quantile_cont(waited_ms, 0.5) FILTER (date_trunc('hour', created_at) = hour) AS p50_busiest,
           quantile_cont(waited_ms, 0.95) FILTER (date_trunc('hour', created_at) = hour) AS p95_busiest,
           count(*) FILTER (is_waiting) AS still_waiting
    FROM waited JOIN busiest USING (queue), horizon WHERE created_at > finish - INTERVAL 28 DAY GROUP BY ALL
), growth AS (
    SELECT queue, exp(regr_slope(ln(n), -ago)) - 1 AS weekly_growth
    FROM week WHERE ago < 5 GROUP BY ALL  -- forty days are five whole weeks
)
SELECT queue, max(n)::DOUBLE AS arrivals_per_hour, any_value(mean) AS service_seconds,
       any_value(variance) / any_value(mean) ** 2 AS service_cv2,
       arrivals_per_hour * service_seconds / 3600 AS load, any_value(weekly_growth) AS weekly_growth,
       load * (1 + any_value(weekly_growth)) ** (30 / 7) AS forecast_load,
       any_value(slots_now) AS slots_now, any_value(still_waiting) AS still_waiting,
       any_value(p50_waited) / 1000 AS p50_waited_seconds, any_value(p95_waited) / 1000 AS p95_waited_seconds,
       any_value(p50_busiest) / 1000 AS p50_busiest_seconds,
       any_value(p95_busiest) / 1000 AS p95_busiest_seconds
FROM hour JOIN service USING (queue) JOIN slots USING (queue) JOIN growth USING (queue)
JOIN seen USING (queue) GROUP BY queue
"""  # noqa: S608

REGRESSIONS = """
WITH named AS (FROM attempt_facts WHERE ffmpeg <> 'unknown'),
seen AS (SELECT profile, ffmpeg, min(started_at) AS first_seen FROM named GROUP BY ALL),
judged AS (
    SELECT *, row_number() OVER (
               PARTITION BY profile, ffmpeg ORDER BY started_at DESC, attempt_id DESC) AS place
    FROM named
    WHERE outcome = 'succeeded' OR (outcome <> 'running' AND error_phase = 'processing'
          AND (error_code LIKE 'encode_%' OR error_code LIKE 'source_damaged'))
)
SELECT profile, ffmpeg, first_seen, (place - 1) // 20 AS atom, count(*) AS ended,
       count(*) FILTER (outcome <> 'succeeded') AS failed,
       count(speed) FILTER (outcome = 'succeeded') AS measured,
       coalesce(sum(ln(speed)) FILTER (outcome = 'succeeded'), 0) AS log_speed
FROM judged JOIN seen USING (profile, ffmpeg) GROUP BY ALL
"""

# The time of the read is taken to be the end of the history (`finish`).
WAITED = """
CREATE TABLE waited AS
SELECT job_facts.*, waiting_ms IS NULL AND outcome = 'in_flight' AND due_at < finish AS is_waiting,
       CASE WHEN is_waiting THEN (epoch_us(finish) - epoch_us(due_at)) / 1000
            ELSE waiting_ms::DOUBLE END AS waited_ms
FROM job_facts, horizon
"""

FAIRNESS = """
WITH by_requester AS (
    SELECT queue, requester, count(*) AS jobs, count(*) FILTER (is_waiting) AS still_waiting,
           avg(waited_ms) + 1000 AS mean, avg(priority) AS mean_priority,
           quantile_cont(waited_ms, 0.5) AS p50_waiting_ms, quantile_cont(waited_ms, 0.95) AS p95_waiting_ms
    FROM waited WHERE waited_ms IS NOT NULL GROUP BY ALL
), worked AS (SELECT queue, requester, sum(busy_ms) AS work FROM attempt_facts GROUP BY ALL),
of_queue AS (
    SELECT queue, quantile_cont(waited_ms, 0.95) AS p95 FROM waited WHERE waited_ms IS NOT NULL GROUP BY ALL
), comparable AS (
    SELECT queue, count(*) AS n, sum(mean) ** 2 / (count(*) * sum(mean ** 2)) AS jain
    FROM by_requester WHERE jobs >= 30 GROUP BY queue HAVING count(*) > 1
)
SELECT queue, requester, jobs, still_waiting, jobs / sum(jobs) OVER (PARTITION BY queue) AS share_of_jobs,
       work / sum(work) OVER (PARTITION BY queue) AS share_of_work, mean_priority,
       p50_waiting_ms, p95_waiting_ms, p95_waiting_ms / p95 AS waiting_ratio,
       jobs >= 30 AND n IS NOT NULL AS is_compared, jain
FROM by_requester JOIN worked USING (queue, requester) JOIN of_queue USING (queue)
LEFT JOIN comparable USING (queue)
"""

PREPARE = (HORIZON, PARTS, FAILED, WAITED)

MARTS = {
    "throughput": THROUGHPUT,
    "latency": LATENCY,
    "speed": SPEED,
    "failures": FAILURES,
    "refreshes": REFRESHES,
    "webhooks": WEBHOOKS,
    "sizes": SIZES,
    "costs": COSTS,
    "utilisation": UTILISATION,
    "capacity": CAPACITY,
    "regressions": REGRESSIONS,
    "fairness": FAIRNESS,
}
