"""Which error codes a version of ffmpeg can cause: the closed list that the regression test counts.

Every code of docs/errors.md is in one of the two sets; a test fails for a new one until somebody decides.
"""

# While a job is `processing`, ffmpeg decodes, encodes and its output is verified. A version can fail at it,
# hang, be slow, need more memory, or make files that are wrong. It can also refuse what an older one decoded.
ENCODER_CODES = frozenset(
    {
        "attempt_timeout",
        "encode_failed",
        "encode_killed",
        "encode_stalled",
        "encode_timeout",
        "out_of_memory",
        "output_too_large",
        "output_truncated",
        "output_undecodable",
        "source_damaged",
        "source_truncated",
        "source_unsupported",
    }
)
# Storage, network, credentials, the request, the machine, a person: no version of ffmpeg changes how often
# these happen. A new version that kills its whole worker shows as `lease_expired`, which dying machines cause
# far more often.
OTHER_CODES = frozenset(
    {
        "canceled",
        "cannot_decrypt",
        "disk_full",
        "egress_refused",
        "endpoint_not_allowed",
        "ffmpeg_missing",
        "file_outside_roots",
        "internal_error",
        "lease_expired",
        "no_audio_stream",
        "no_video_stream",
        "output_changed",
        "output_conflict",
        "output_forbidden",
        "output_is_source",
        "output_not_found",
        "output_refused",
        "output_too_slow",
        "output_unreachable",
        "output_unsupported",
        "sandbox_failed",
        "source_changed",
        "source_empty",
        "source_forbidden",
        "source_not_found",
        "source_not_media",
        "source_overlong",
        "source_refused",
        "source_too_large",
        "source_too_slow",
        "source_unreachable",
        "storage_throttled",
        "too_large_for_worker",
        "worker_broken",
        "worker_exhausted",
    }
)
# The only phase in which ffmpeg runs. `source_truncated` while fetching is storage's doing.
ENCODER_PHASE = "processing"
