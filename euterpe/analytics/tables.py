"""The tables of the lake, which are read from the database, and the tables of facts computed from them.

No table has credentials, URLs or payloads. A table of facts has one row for each job, for each attempt, or
for each event for which a webhook is to be sent. Facts have computed durations, and names in addition to ids.
A line with only a name repeats the column of this name from an earlier table.
"""

from euterpe.analytics.schema import Table, columns

JOBS = Table(
    "jobs",
    "Each ingest adds one row for each job that has changed, with the state that it found. "
    "Facts use the row with the highest event_sequence.",
    ("job_id", "event_sequence"),
    columns("""
        job_id string The job's id.
        event_sequence long Sequence number of the job's latest event; 0 before the first event.
        requester_id string The requester that submitted the job.
        profile string The profile that the job names; null if the job lists its outputs itself.
        queue string The job's queue.
        priority int The job's priority, from 0 to 100.
        group_id string The job's group; null if it has none.
        status string The job's status.
        attempt_count int Attempts begun, except released attempts.
        max_attempts int Attempts allowed.
        refresh_count int Credential refreshes since the job was enqueued or last retried on request.
        credential_version int How many times credentials were stored, including the first time.
        source_scheme string Scheme of the source's URL: s3, gs, az, https or file.
        output_scheme string Scheme of the output's URL: s3, gs, az, https or file.
        source_container string Container format of the source, found by probing.
        source_seconds double Duration of the source, in seconds.
        source_bytes long Size of the source, in bytes.
        outputs int Number of outputs that the succeeded job made.
        output_seconds double Sum of the durations of all outputs, in seconds.
        output_bytes long Sum of the sizes of all outputs, in bytes.
        error_code string Code of the job's last error.
        error_phase string Phase in which the job's last error occurred.
        metadata string The metadata keys that the operator allows, as JSON; null if the job has none of them.
        not_before time Earliest start that the requester asked for; null if it asked for none.
        created_at time When the job was accepted.
        updated_at time When the job entered this state.
        started_at time When the job's first attempt began.
        finished_at time When the job ended; null before its end.
    """),
)

ATTEMPTS = Table(
    "attempts",
    "An attempt has one row for each of its states that an ingest found. Facts use the row of its end.",
    ("attempt_id",),
    columns("""
        attempt_id string The attempt's id.
        job_id string The id of the attempt's job.
        attempt_no int Number of the attempt within its job.
        claim_version long The claim version under which the attempt ran.
        worker_id string The worker that ran the attempt.
        started_at time When the worker claimed the job for this attempt.
        ended_at time When the attempt ended; null while it runs.
        outcome string succeeded, failed, requeued, lease_expired, canceled or released (uncharged).
        error_code string Code of the error with which the attempt ended.
        error_phase string Phase in which the error occurred.
        error_retryable bool Whether another attempt can succeed after this error.
        fetch_ms long Milliseconds spent reading the source.
        probe_ms long Milliseconds spent probing the source.
        encode_ms long Milliseconds that ffmpeg ran.
        verify_ms long Milliseconds spent verifying the files that ffmpeg made.
        upload_ms long Milliseconds spent writing the outputs.
        cpu_seconds double Processor time of ffmpeg, in seconds.
        media_seconds double Duration of the source, in seconds.
        bytes_in long Bytes read from the source.
        bytes_out long Bytes written to the outputs.
        ffmpeg string Version of ffmpeg.
        vmaf double VMAF score: quality of the output compared with the source; null if not measured.
        measured string last_beat if the last heartbeat reported the figures, otherwise null.
    """),
)

EVENTS = Table(
    "events",
    "One row for each event of a job.",
    ("event_id",),
    columns("""
        event_id string The event's id.
        job_id string The id of the event's job.
        requester_id string The requester that submitted the job.
        sequence long Number of the event within its job: 1, 2, 3 and so on, without gaps.
        type string job.<status>, or job.progress.
        created_at time When the event happened.
        wanted bool Whether a webhook is to be sent for the event; null if an earlier version ingested it.
    """),
)

DELIVERIES = Table(
    "deliveries",
    "One row for each delivery: one attempt to send an event.",
    ("delivery_id",),
    columns("""
        delivery_id string The delivery's id.
        event_id string The id of the event that was sent.
        job_id string The id of the event's job.
        requester_id string The requester whose receiver the event was sent to.
        claim_version long The claim version under which the event was sent.
        worker_id string The dispatcher that sent the event.
        outcome string delivered, pending (another attempt follows) or dead_letter.
        status_code int HTTP status of the receiver's response; null without a response.
        error_code string Error code of the delivery; null if the event was delivered.
        duration_ms long Milliseconds that the delivery took.
        ended_at time When the delivery ended.
    """),
)

REQUESTERS = Table(
    "requesters",
    "The name of each requester.",
    ("requester_id",),
    columns("""
        requester_id string The requester's id.
        name string The requester's name.
    """),
)

# The tables that grow: an ingest reads only their new rows, and each table has a folder in the lake.
HISTORY = {table.name: table for table in (JOBS, ATTEMPTS, EVENTS, DELIVERIES)}

JOB_FACTS = Table(
    "job_facts",
    "One row for each job, in the latest state that an ingest read.",
    ("job_id",),
    columns(
        """
        job_id
        requester_id
        requester string The requester's name, or the requester's id if the name is unknown.
        profile string The job's profile, or `custom` if the job lists its outputs itself.
        queue
        priority
        group_id
        outcome string succeeded, failed, dead_letter, canceled (ended on request) or in_flight (not ended).
        error_code string Code of the error that ended the job; null if the job succeeded or is in flight.
        error_phase
        attempts int Attempts begun, except released attempts.
        refreshes int How many times credentials were stored after the first time.
        source_scheme
        created_at
        due_at time The earliest time at which the job could begin: the later of created_at and not_before.
        first_claimed_at time When a worker first claimed the job; null before the first claim.
        finished_at time When the job ended; null while it is in flight.
        waiting_ms long Milliseconds from due_at to first_claimed_at, at least 0.
        total_ms long Milliseconds from due_at to finished_at, at least 0.
        cpu_seconds double Usage of all attempts of the job: the sum of their used_seconds.
        wasted_cpu_seconds double cpu_seconds of the attempts that did not succeed.
        estimated_seconds double cpu_seconds of the attempts whose processor time is unknown.
        bytes_in long Bytes read by all attempts of the job.
        bytes_out long Bytes of the job's outputs; null before the job succeeded.
        source_bytes
        media_seconds
        output_seconds
        vmaf
        day day The day of created_at.
    """,
        JOBS,
        ATTEMPTS,
    ),
)

ATTEMPT_FACTS = Table(
    "attempt_facts",
    "One row for each attempt, with the requester, profile and queue of its job.",
    ("attempt_id",),
    columns(
        """
        attempt_id
        job_id
        requester_id
        requester
        profile
        queue
        attempt_no
        worker_id
        ffmpeg string Version of ffmpeg, or `unknown`.
        outcome string succeeded, failed, requeued, lease_expired, canceled, released (uncharged) or running.
        error_code
        error_phase
        retryable bool Whether another attempt can succeed after the error.
        started_at
        ended_at
        busy_ms long Milliseconds from started_at to ended_at, at least 0.
        fetch_ms
        probe_ms
        encode_ms
        verify_ms
        upload_ms
        cpu_seconds double Processor time of ffmpeg, in seconds; null if it is unknown.
        used_seconds double Processor time or, if that is unknown, slot time (busy_ms); null while running.
        used_from string Kind of used_seconds: cpu, last_beat (cpu until the last heartbeat), slot (busy_ms).
        media_seconds
        speed double Real-time factor: seconds of media per second of encoding; null if unknown.
        bytes_in
        bytes_out
        vmaf
        day day The day of started_at.
    """,
        ATTEMPTS,
        JOB_FACTS,
    ),
)

DELIVERY_FACTS = Table(
    "delivery_facts",
    "One row for each event for which a webhook is to be sent, even before the first attempt to send it.",
    ("event_id",),
    columns(
        """
        event_id
        job_id
        requester_id string The requester whose receiver the event is sent to.
        requester
        type
        created_at
        tries int Attempts to send the event so far; 0 before the first attempt.
        first_tried_at time When the first attempt to send the event began; null before it began.
        delivered_at time When the receiver accepted the event; null if it has not accepted it.
        outcome string delivered after a success, pending before any attempt, else the last attempt's result.
        latency_ms long Milliseconds from created_at to delivered_at, at least 0.
        status_code int HTTP status of the response to the latest attempt; null without a response.
        error_code string Error code of the latest failed attempt; null if no attempt failed.
        day day The day of created_at.
    """,
        EVENTS,
        JOB_FACTS,
    ),
)

FACTS = {table.name: table for table in (JOB_FACTS, ATTEMPT_FACTS, DELIVERY_FACTS)}
