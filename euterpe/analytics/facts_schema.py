"""The tables of the facts: one row for one thing, with durations computed and names beside ids."""

from euterpe.analytics.schema import Table, columns

JOB_FACTS = Table(
    "job_facts",
    "A row for each job, as it was last seen.",
    ("job_id",),
    columns("""
        job_id string The job.
        requester_id string Whose job it is.
        requester string The requester's name, or its id where the name is unknown.
        profile string The profile, or `custom` for a job that lists its outputs itself.
        queue string Its queue.
        priority int Its priority.
        group_id string Its group, where it has one.
        outcome string succeeded, failed, dead_letter, canceled (failed as its requester wished) or in_flight.
        error_code string Why it ended as it did; null for a job that succeeded or is in flight.
        error_phase string In which phase.
        attempts int Attempts begun.
        refreshes int Credentials stored after the first.
        source_scheme string Where the source came from.
        created_at time When it was accepted.
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
        source_bytes long Size of the source.
        media_seconds double Duration of the source.
        output_seconds double Duration of all outputs together.
        vmaf double Quality, where it was measured.
        day day Of created_at.
    """),
)

ATTEMPT_FACTS = Table(
    "attempt_facts",
    "A row for each attempt, with what matters of its job.",
    ("attempt_id",),
    columns("""
        attempt_id string The attempt.
        job_id string Its job.
        requester_id string Whose job it is.
        requester string The requester's name or id.
        profile string The job's profile, or `custom`.
        queue string The job's queue.
        attempt_no int Which attempt of the job.
        worker_id string Who ran it.
        ffmpeg string Version of ffmpeg, or `unknown`.
        outcome string succeeded, failed, requeued, lease_expired, canceled, released (unharmed) or running.
        error_code string Why it failed.
        error_phase string In which phase.
        retryable bool Whether another attempt could help.
        started_at time When it was claimed.
        ended_at time When it ended; null while it runs.
        busy_ms long From one to the other, at least 0.
        fetch_ms long Reading the source.
        probe_ms long Probing it.
        encode_ms long ffmpeg.
        verify_ms long Verifying what ffmpeg made.
        upload_ms long Writing the outputs.
        cpu_seconds double Processor time of ffmpeg; null where it is unknown.
        used_seconds double Processor time, or busy_ms where it is unknown; null while it runs.
        used_from string cpu, last_beat (processor time until the last heartbeat) or slot (busy_ms).
        media_seconds double Duration of the source.
        speed double Real-time factor: seconds of media for each second of encoding, where both are known.
        bytes_in long Bytes read.
        bytes_out long Bytes written.
        vmaf double Quality, where it was measured.
        day day Of started_at.
    """),
)

DELIVERY_FACTS = Table(
    "delivery_facts",
    "A row for each event for which a webhook is to be sent, tried or not.",
    ("event_id",),
    columns("""
        event_id string The event.
        job_id string Its job.
        requester_id string Whose receiver it is sent to.
        requester string The requester's name or id.
        type string job.<status>, or job.progress.
        created_at time When it happened.
        tries int Tries so far; 0 where it still waits for the first.
        first_tried_at time When the first try began; null before it.
        delivered_at time When the receiver accepted it; null where it has not.
        outcome string delivered once any try was; else that of the latest try; pending before the first.
        latency_ms long From created_at to delivered_at, at least 0.
        status_code int What the receiver answered the latest try.
        error_code string Why the latest failed try failed.
        day day Of created_at.
    """),
)

FACTS = {table.name: table for table in (JOB_FACTS, ATTEMPT_FACTS, DELIVERY_FACTS)}
