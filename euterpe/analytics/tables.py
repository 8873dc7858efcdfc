"""The tables of the lake, as they are read from the database, and the tables of the facts made from them.

No table has credentials, URLs or payloads. Facts have one row for one thing, with durations computed and
names beside ids. A line with a name alone takes over the column of an earlier table.
"""

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
        queue string The job's queue.
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

JOB_FACTS = Table(
    "job_facts",
    "A row for each job, as it was last seen.",
    ("job_id",),
    columns(
        """
        job_id
        requester_id
        requester string The requester's name, or its id where the name is unknown.
        profile string The profile, or `custom` for a job that lists its outputs itself.
        queue
        priority
        group_id
        outcome string succeeded, failed, dead_letter, canceled (failed as its requester wished) or in_flight.
        error_code string Why it ended as it did; null for a job that succeeded or is in flight.
        error_phase
        attempts int Attempts begun.
        refreshes int Credentials stored after the first.
        source_scheme string Where the source came from.
        created_at
        due_at time When it could first have begun: created_at, or not_before where that is later.
        first_claimed_at time When its first attempt began.
        finished_at time When it ended; null in flight.
        waiting_ms long From due_at to first_claimed_at, at least 0.
        total_ms long From due_at to finished_at, at least 0.
        cpu_seconds double What all its attempts used: used_seconds, added up.
        wasted_cpu_seconds double The part of it in attempts that did not succeed.
        estimated_seconds double The part of it that is slot time, because processor time is unknown.
        bytes_in long Bytes read in all its attempts.
        bytes_out long Bytes of its outputs, once it succeeded.
        source_bytes
        media_seconds
        output_seconds double Duration of all outputs together.
        vmaf
        day day Of created_at.
    """,
        JOBS,
        ATTEMPTS,
    ),
)

ATTEMPT_FACTS = Table(
    "attempt_facts",
    "A row for each attempt, with what matters of its job.",
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
        outcome string succeeded, failed, requeued, lease_expired, canceled, released (unharmed) or running.
        error_code
        error_phase
        retryable bool Whether another attempt could help.
        started_at
        ended_at
        busy_ms long From one to the other, at least 0.
        fetch_ms
        probe_ms
        encode_ms
        verify_ms
        upload_ms
        cpu_seconds double Processor time of ffmpeg; null where it is unknown.
        used_seconds double Processor time, or busy_ms where it is unknown; null while it runs.
        used_from string cpu, last_beat (processor time until the last heartbeat) or slot (busy_ms).
        media_seconds
        speed double Real-time factor: seconds of media for each second of encoding, where both are known.
        bytes_in
        bytes_out
        vmaf
        day day Of started_at.
    """,
        ATTEMPTS,
        JOB_FACTS,
    ),
)

DELIVERY_FACTS = Table(
    "delivery_facts",
    "A row for each event for which a webhook is to be sent, tried or not.",
    ("event_id",),
    columns(
        """
        event_id
        job_id
        requester_id string Whose receiver it is sent to.
        requester
        type
        created_at
        tries int Tries so far; 0 where it still waits for the first.
        first_tried_at time When the first try began; null before it.
        delivered_at time When the receiver accepted it; null where it has not.
        outcome string delivered once any try was; else that of the latest try; pending before the first.
        latency_ms long From created_at to delivered_at, at least 0.
        status_code int What the receiver answered the latest try.
        error_code string Why the latest failed try failed.
        day day Of created_at.
    """,
        EVENTS,
        JOB_FACTS,
    ),
)

FACTS = {table.name: table for table in (JOB_FACTS, ATTEMPT_FACTS, DELIVERY_FACTS)}
