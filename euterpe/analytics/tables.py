"""The tables read from the database and kept in the lake, without credentials, URLs and payloads."""

from euterpe.analytics.schema import Table, columns

JOBS = Table(
    "jobs",
    "A row for each state of a job that an ingest has seen; the one with the highest event_sequence counts.",
    ("job_id", "event_sequence"),
    columns("""
        job_id string The job.
        event_sequence long Which state of the job this is: the sequence of its latest event, 0 before any.
        requester_id string Whose job it is.
        profile string The profile that the job names; null when it lists its outputs itself.
        queue string Its queue.
        priority int Its priority, 0 to 100.
        group_id string Its group, where it has one.
        status string Its status.
        attempt_count int Attempts begun.
        max_attempts int Attempts allowed.
        refresh_count int Credential refreshes in the current round of attempts.
        credential_version int How often credentials were stored, the first time included.
        source_scheme string s3, gs, az, https or file.
        output_scheme string The same of the output.
        source_container string The container that probing found.
        source_seconds double Duration of the source.
        source_bytes long Size of the source.
        outputs int Outputs that a succeeded job lists.
        output_seconds double Their durations, added up.
        output_bytes long Their sizes, added up.
        error_code string The code of its last error.
        error_phase string The phase in which that happened.
        metadata string As JSON, only the keys that the operator allows; null when none.
        not_before time When the requester wanted it begun at the earliest.
        created_at time When it was accepted.
        updated_at time When this state began.
        started_at time When its first attempt began.
        finished_at time When it ended.
    """),
)

ATTEMPTS = Table(
    "attempts",
    "A row for each attempt as an ingest has seen it; one that has ended counts more than one that has not.",
    ("attempt_id",),
    columns("""
        attempt_id string The attempt.
        job_id string Its job.
        attempt_no int Which attempt of the job.
        claim_version long The claim that it ran under.
        worker_id string Who ran it.
        started_at time When it was claimed.
        ended_at time When it ended; null while it runs.
        outcome string succeeded, failed, requeued, lease_expired, canceled or released (unharmed).
        error_code string Why it failed.
        error_phase string In which phase.
        error_retryable bool Whether another attempt could help.
        fetch_ms long Reading the source.
        probe_ms long Probing it.
        encode_ms long ffmpeg.
        verify_ms long Verifying what ffmpeg made.
        upload_ms long Writing the outputs.
        cpu_seconds double Processor time of ffmpeg.
        media_seconds double Duration of the source.
        bytes_in long Bytes read.
        bytes_out long Bytes written.
        ffmpeg string Version of ffmpeg.
        vmaf double Quality of the output against the source, where it was measured.
        measured string last_beat where the figures are those of the last heartbeat, else null.
    """),
)

EVENTS = Table(
    "events",
    "A row for each event of a job, as it was written with its transition.",
    ("event_id",),
    columns("""
        event_id string The event.
        job_id string Its job.
        requester_id string Whose job it is.
        sequence long Its place among the events of the job, from 1 without gaps.
        type string job.<status>, or job.progress.
        created_at time When it happened.
        wanted bool Whether a webhook is to be sent for it; null where an earlier version has ingested it.
    """),
)

DELIVERIES = Table(
    "deliveries",
    "A row for each try to deliver an event.",
    ("delivery_id",),
    columns("""
        delivery_id string The try.
        event_id string The event.
        job_id string Its job.
        requester_id string Whose receiver it was sent to.
        claim_version long The claim that it ran under.
        worker_id string The dispatcher.
        outcome string delivered, pending (to be tried again) or dead_letter.
        status_code int What the receiver answered, where it did.
        error_code string Why it failed.
        duration_ms long How long it took.
        ended_at time When it ended.
    """),
)

REQUESTERS = Table(
    "requesters",
    "The requesters' names.",
    ("requester_id",),
    columns("""
        requester_id string The requester.
        name string Its name.
    """),
)

# The growing tables: each is read incrementally by position, and has a folder in the lake.
HISTORY = {table.name: table for table in (JOBS, ATTEMPTS, EVENTS, DELIVERIES)}
