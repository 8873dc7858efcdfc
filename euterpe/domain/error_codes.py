"""The error codes of jobs. Each code has a retry class, the party at fault, its phases and advice.

This table is the only list of these codes. `docs/errors.md` is generated from this table
(ci/error_tables.py), and the code of every job error is a member of this enum. The codes are public, so a
member may be added but never renamed.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class RetryClass(StrEnum):
    TRANSIENT = "transient"  # Try again after a backoff.
    THROTTLED = "throttled"  # Try again after a longer backoff.
    CREDENTIALS = "credentials"  # Refresh the credentials, then try again (contract §7).
    PERMANENT = "permanent"  # The job stays in `failed`, and a person may retry it.
    UNRECOVERABLE = "unrecoverable"  # No retry can help, so the job becomes a dead letter immediately.


class Fault(StrEnum):
    """The party that can correct an error."""

    SOURCE = "source"  # the media file
    REQUEST = "request"  # the fields of the job
    REQUESTER = "requester"  # what the requester does while the job runs, such as sending credentials
    STORAGE = "storage"  # the store of the source or of the outputs
    WORKER = "worker"  # the machine, the program or its operator


class Release(Enum):
    """The rule that decides whether an attempt that fails with a code is released without a charge."""

    NEVER = auto()  # every attempt is charged
    LIMITED = auto()  # only five such attempts of a job are released, because the job could cause the error
    BY_CAUSE = auto()  # released, except when this job or the disk of a `file://` output is the cause
    ALWAYS = auto()  # never charged, because the job waits for disk space or for the key provider
    # Released for another worker, because this worker lacks something that the job needs. `ReleaseLimits`
    # ends a job that no worker can run. The time limit is longer for ROLLOUT, because the operator may have
    # to update the workers first.
    ELSEWHERE = auto()
    ROLLOUT = auto()

    @property
    def is_bounded(self) -> bool:
        """Return whether a job is released for another worker, but fails permanently after a limit."""
        return self in (Release.ELSEWHERE, Release.ROLLOUT)


@dataclass(frozen=True)
class _Kind:
    fault: Fault
    retry: RetryClass
    phases: str
    of_ffmpeg: bool = False
    release: Release = Release.NEVER
    retry_note: str = ""
    ends_as: str = ""


# These short names let the row of a code fit on one line.
_PERMANENT = RetryClass.PERMANENT
_TRANSIENT = RetryClass.TRANSIENT
_SOURCE = Fault.SOURCE
_REQUEST = Fault.REQUEST
_REQUESTER = Fault.REQUESTER
_STORAGE = Fault.STORAGE
_WORKER = Fault.WORKER


class ErrorCode(StrEnum):
    """A code in the `error` of a job.

    `retry` is the usual retry class. The function that raises an error may set another retry class for this
    error. `phases` is empty for a code that never ends an attempt. `of_ffmpeg` marks the codes whose
    frequency may depend on the version of ffmpeg. Analytics compares versions of ffmpeg by these codes.
    `final` replaces this code when a job has reached its limit of releases. `summary`, `advice` and
    `retry_note` are Markdown for docs/errors.md.
    """

    fault: Fault
    retry: RetryClass
    phases: tuple[str, ...]
    of_ffmpeg: bool
    release: Release
    retry_note: str
    summary: str
    advice: str
    _ends_as: str

    def __new__(cls, code: str, kind: _Kind, summary: str, advice: str) -> "ErrorCode":
        member = str.__new__(cls, code)
        member._value_ = code
        member.fault, member.retry, member.phases = kind.fault, kind.retry, tuple(kind.phases.split())
        member.of_ffmpeg, member.release, member.retry_note = kind.of_ffmpeg, kind.release, kind.retry_note
        member.summary, member.advice, member._ends_as = summary, advice, kind.ends_as
        return member

    @property
    def final(self) -> "ErrorCode":
        return ErrorCode[self._ends_as.upper()] if self._ends_as else self

    SOURCE_NOT_FOUND = (
        "source_not_found",
        _Kind(_SOURCE, _PERMANENT, "fetching"),
        "the object, file, bucket or container does not exist",
        "check the URL",
    )
    SOURCE_FORBIDDEN = (
        "source_forbidden",
        _Kind(_REQUESTER, RetryClass.CREDENTIALS, "fetching"),
        "storage answered 401 or 403, or the credentials do not fit the source, and no refresh brought "
        "credentials that work",
        "send credentials that may read the source, then retry",
    )
    SOURCE_REFUSED = (
        "source_refused",
        _Kind(_STORAGE, _PERMANENT, "fetching"),
        "storage answered with a status that no retry changes, or with a redirect, which is not followed",
        "check the URL, the region or endpoint, and the store's settings",
    )
    SOURCE_UNREACHABLE = (
        "source_unreachable",
        _Kind(_STORAGE, _TRANSIENT, "fetching"),
        "storage was unavailable, failed, or closed the connection, five times in a row",
        "check the store if the error repeats",
    )
    SOURCE_EMPTY = (
        "source_empty",
        _Kind(_SOURCE, _PERMANENT, "fetching"),
        "the object has no bytes",
        "upload the source again",
    )
    SOURCE_TOO_LARGE = (
        "source_too_large",
        _Kind(_SOURCE, _PERMANENT, "fetching"),
        "the source is larger than `max_source_bytes` or than the operator allows; reading stops at the "
        "limit, whether the size was announced or not",
        "raise the limit of the job, or ask the operator",
    )
    SOURCE_OVERLONG = (
        "source_overlong",
        _Kind(_STORAGE, _PERMANENT, "fetching"),
        "the server sent more bytes than it had announced",
        "correct the server",
    )
    SOURCE_CHANGED = (
        "source_changed",
        _Kind(_SOURCE, _PERMANENT, "fetching", retry_note="yes if several requests fetched the source"),
        "the source was replaced while it was fetched",
        "retry: the next attempt fetches the new source",
    )
    SOURCE_TRUNCATED = (
        "source_truncated",
        _Kind(
            _SOURCE, _PERMANENT, "fetching processing", of_ffmpeg=True, retry_note="yes if the transfer broke"
        ),
        "the transfer ended before the announced length (retried), or the file itself is incomplete (not "
        "retried)",
        "upload the source again, or set `allow_truncated` to encode what can be read",
    )
    SOURCE_NOT_MEDIA = (
        "source_not_media",
        _Kind(_SOURCE, _PERMANENT, "fetching"),
        "the source is not a media file, or is damaged at its beginning; playlists do not count as media",
        "check what was uploaded",
    )
    SOURCE_DAMAGED = (
        "source_damaged",
        _Kind(_SOURCE, _PERMANENT, "processing", of_ffmpeg=True),
        "the source cannot be decoded to its end",
        "upload the source again",
    )
    SOURCE_UNSUPPORTED = (
        "source_unsupported",
        _Kind(_SOURCE, _PERMANENT, "fetching processing", of_ffmpeg=True),
        "the source has a container, codec or picture size that is not accepted",
        "convert the source first",
    )
    NO_VIDEO_STREAM = (
        "no_video_stream",
        _Kind(_REQUEST, _PERMANENT, "processing"),
        "an output needs video, and the source has none",
        "request sound only, or make the outputs with pictures `optional`",
    )
    NO_AUDIO_STREAM = (
        "no_audio_stream",
        _Kind(_REQUEST, _PERMANENT, "processing"),
        "an output needs audio, and the source has none",
        "leave out the outputs of sound, or make them `optional`",
    )
    SOURCE_TOO_SLOW = (
        "source_too_slow",
        _Kind(_STORAGE, _TRANSIENT, "fetching"),
        "the source arrived more slowly than the operator's minimum speed ([64 KiB a second over a "
        "minute](operate.md#settings))",
        "use a faster server",
    )
    STORAGE_THROTTLED = (
        "storage_throttled",
        _Kind(_STORAGE, RetryClass.THROTTLED, "fetching uploading"),
        "storage answered 429",
        "ask the store for a higher rate",
    )
    ENDPOINT_NOT_ALLOWED = (
        "endpoint_not_allowed",
        _Kind(_REQUESTER, _PERMANENT, "claimed fetching uploading"),
        "the `endpoint` of the credentials, which a refresh can change, is not allowed on the workers",
        "ask the operator for `EUTERPE_STORAGE_ENDPOINTS`",
    )
    FILE_OUTSIDE_ROOTS = (
        "file_outside_roots",
        _Kind(_REQUEST, _PERMANENT, "claimed fetching uploading"),
        "a `file://` path leads outside the operator's folders, or through a symbolic link, or no worker has "
        "the folder",
        "ask the operator for `EUTERPE_STORAGE_ROOTS`",
    )
    EGRESS_REFUSED = (
        "egress_refused",
        _Kind(_REQUEST, _PERMANENT, "fetching uploading"),
        "a signed URL leads to an address that is not public",
        "ask the operator for `EUTERPE_EGRESS_ALLOW`",
    )
    WATERMARK_NOT_FOUND = (
        "watermark_not_found",
        _Kind(_REQUEST, _PERMANENT, "fetching"),
        "the picture of a watermark, or its bucket or container, does not exist",
        "check the `watermark.source.url` of the outputs",
    )
    WATERMARK_FORBIDDEN = (
        "watermark_forbidden",
        _Kind(_REQUESTER, RetryClass.CREDENTIALS, "fetching"),
        "storage answered 401 or 403 for a watermark, or the credentials of the source are for another "
        "store, and no refresh brought credentials that work",
        "send credentials that may read the source and the watermark, then retry",
    )
    WATERMARK_REFUSED = (
        "watermark_refused",
        _Kind(_STORAGE, _PERMANENT, "fetching"),
        "for a watermark, storage answered with a status that no retry changes, with a redirect (which is "
        "not followed), or with more bytes than it had announced",
        "check the URL, the region or endpoint, and the store's settings",
    )
    WATERMARK_UNREACHABLE = (
        "watermark_unreachable",
        _Kind(_STORAGE, _TRANSIENT, "fetching"),
        "a watermark could not be fetched: its store was unavailable, failed, was too slow or closed the "
        "connection, or the picture was replaced in the meantime",
        "check the store if the error repeats",
    )
    WATERMARK_TOO_LARGE = (
        "watermark_too_large",
        _Kind(_REQUEST, _PERMANENT, "fetching"),
        "the file of a watermark has more than 20 MB",
        "make the picture smaller",
    )
    WATERMARK_UNUSABLE = (
        "watermark_unusable",
        _Kind(_REQUEST, _PERMANENT, "fetching"),
        "a watermark is not a whole PNG, JPEG, WebP, GIF or AVIF picture of at most 16,777,216 pixels",
        "check what was uploaded",
    )
    OUTPUT_NOT_FOUND = (
        "output_not_found",
        _Kind(_REQUEST, _PERMANENT, "uploading"),
        "there is no such bucket or container, or `output.urls` lacks a file of the job",
        "create the bucket or container, or correct the request",
    )
    OUTPUT_FORBIDDEN = (
        "output_forbidden",
        _Kind(_REQUESTER, RetryClass.CREDENTIALS, "uploading"),
        "storage answered 401 or 403, or the credentials do not fit the output, and no refresh brought "
        "credentials that work",
        "send credentials that may write under the prefix, then retry",
    )
    OUTPUT_REFUSED = (
        "output_refused",
        _Kind(_STORAGE, _PERMANENT, "uploading"),
        "storage answered with a status that no retry changes, or with a redirect, which is not followed",
        "check the URL, the region or endpoint, and the store's settings",
    )
    OUTPUT_UNREACHABLE = (
        "output_unreachable",
        _Kind(_STORAGE, _TRANSIENT, "uploading"),
        "storage was unavailable, failed, or closed the connection, several times in a row",
        "check the store if the error repeats",
    )
    OUTPUT_TOO_SLOW = (
        "output_too_slow",
        _Kind(_STORAGE, _TRANSIENT, "uploading"),
        "the store accepted an output more slowly than the operator's minimum speed ([64 KiB a second over a "
        "minute](operate.md#settings))",
        "check the store if the error repeats",
    )
    OUTPUT_CONFLICT = (
        "output_conflict",
        _Kind(_REQUEST, _PERMANENT, "uploading"),
        "another job wrote a different file under this name while this job ran",
        "give each job an output prefix of its own",
    )
    OUTPUT_CHANGED = (
        "output_changed",
        _Kind(_REQUESTER, _TRANSIENT, "uploading"),
        "an output was replaced or removed after it was published and before the job had succeeded",
        "make sure that no other program writes under the output prefix",
    )
    OUTPUT_IS_SOURCE = (
        "output_is_source",
        _Kind(_REQUEST, _PERMANENT, "uploading"),
        "an output would replace the job's own source or watermark; if the request already shows this, the "
        "answer is 422",
        "choose another prefix or name",
    )
    OUTPUT_UNSUPPORTED = (
        "output_unsupported",
        _Kind(_REQUEST, _PERMANENT, "processing"),
        "the output's type, its picture size or its number of sprite pictures is not supported",
        "change the request; for a sprite, choose a larger `interval_seconds`",
    )
    OUTPUT_TOO_LARGE = (
        "output_too_large",
        _Kind(_REQUEST, _PERMANENT, "processing", of_ffmpeg=True),
        "an output grew beyond its limit: twice the size of a source above 1 GB, 10 GB for a smaller source",
        "request a lower quality",
    )
    OUTPUT_TRUNCATED = (
        "output_truncated",
        _Kind(_SOURCE, _PERMANENT, "processing", of_ffmpeg=True),
        "the output ends before the source does",
        "check the source",
    )
    OUTPUT_UNDECODABLE = (
        "output_undecodable",
        _Kind(_WORKER, _PERMANENT, "processing uploading", of_ffmpeg=True),
        "the output cannot be decoded, or is not as requested",
        "tell the operator",
    )
    QUALITY_TOO_LOW = (
        "quality_too_low",
        _Kind(_REQUEST, _PERMANENT, "processing", of_ffmpeg=True),
        "the measured VMAF of an output is below its `vmaf_min`",
        "request a lower `crf` or a higher bit rate, or lower `vmaf_min`",
    )
    ENCODE_FAILED = (
        "encode_failed",
        _Kind(_SOURCE, _PERMANENT, "processing", of_ffmpeg=True),
        "ffmpeg failed; the message has the reason",
        "check the source",
    )
    ENCODE_STALLED = (
        "encode_stalled",
        _Kind(_SOURCE, _TRANSIENT, "processing", of_ffmpeg=True),
        "ffmpeg made no progress for two minutes (`EUTERPE_STALL_TIMEOUT_MS`)",
        "check the source if the error repeats",
    )
    ENCODE_KILLED = (
        "encode_killed",
        _Kind(_WORKER, _TRANSIENT, "processing", of_ffmpeg=True, release=Release.LIMITED),
        "the kernel or another process killed ffmpeg, although ffmpeg had not exceeded its limits",
        "tell the operator if the error repeats",
    )
    ENCODE_TIMEOUT = (
        "encode_timeout",
        _Kind(_REQUEST, _PERMANENT, "processing", of_ffmpeg=True),
        "ffmpeg used more processor time than the job's `timeout_seconds`",
        "raise `timeout_seconds`",
    )
    ATTEMPT_TIMEOUT = (
        "attempt_timeout",
        _Kind(_REQUEST, _PERMANENT, "any", of_ffmpeg=True),
        "the attempt took longer than `timeout_seconds`",
        "raise `timeout_seconds`",
    )
    CANCELED = (
        "canceled",
        _Kind(_REQUESTER, _PERMANENT, "any"),
        "the job was canceled on request",
        "retry the job if you need it after all",
    )
    LEASE_EXPIRED = (
        "lease_expired",
        _Kind(_WORKER, _TRANSIENT, "any"),
        "the worker died, or could not reach the database in time",
        "nothing: the job is retried",
    )
    DISK_FULL = (
        "disk_full",
        _Kind(_WORKER, _TRANSIENT, "any", release=Release.BY_CAUSE),
        "the disk of the worker, or of a `file://` output, is full, or has less free space than the operator"
        " reserves",
        "tell the operator if the error repeats",
    )
    TOO_LARGE_FOR_WORKER = (
        "too_large_for_worker",
        _Kind(_WORKER, _TRANSIENT, "fetching processing", retry_note="another worker can have a larger disk"),
        "the source or its outputs need more of a worker's disk [than one job may "
        "have](guarantees.md#shares-of-the-disk)",
        "serve the source with a `Content-Length`, or ask the operator for a worker with a larger disk",
    )
    OUT_OF_MEMORY = (
        "out_of_memory",
        _Kind(_WORKER, _TRANSIENT, "fetching processing", of_ffmpeg=True),
        "the job needs more memory than its slot on this worker has",
        "request smaller pictures, or ask the operator for a worker with more memory",
    )
    SANDBOX_FAILED = (
        "sandbox_failed",
        _Kind(_WORKER, _TRANSIENT, "fetching processing", release=Release.LIMITED),
        "the fork server of the sandbox was killed, or could not start a child",
        "tell the operator if the error repeats",
    )
    WORKER_EXHAUSTED = (
        "worker_exhausted",
        _Kind(_WORKER, _TRANSIENT, "any", release=Release.LIMITED),
        "the worker has no file descriptors, threads or memory left",
        "tell the operator if the error repeats",
    )
    WORKER_BROKEN = (
        "worker_broken",
        _Kind(_WORKER, _TRANSIENT, "any", release=Release.LIMITED),
        "the worker's self-check failed for another reason; the worker's log has the cause",
        "tell the operator if the error repeats",
    )
    FFMPEG_MISSING = (
        "ffmpeg_missing",
        _Kind(_WORKER, _TRANSIENT, ""),
        "the worker has no working ffmpeg, and reports this at start",
        "the operator corrects `EUTERPE_FFMPEG`",
    )
    CANNOT_DECRYPT = (
        "cannot_decrypt",
        _Kind(_WORKER, _PERMANENT, "claimed"),
        "the stored credentials, or the keys of encrypted outputs, were changed, so they cannot be decrypted",
        "send new credentials, then retry (a job with encrypted outputs: submit it again); tell the operator",
    )
    INTERNAL_ERROR = (
        "internal_error",
        _Kind(_WORKER, _TRANSIENT, "any"),
        "a bug; the worker's log has the details, under the job's id",
        "tell the operator",
    )
    WAITS_FOR_DISK = (
        "waits_for_disk",
        _Kind(_WORKER, _TRANSIENT, "fetching processing", release=Release.ALWAYS),
        "other jobs of the worker use the disk space that this job needs",
        "nothing: the job waits and is tried again",
    )
    STORAGE_ROOT_MISSING = (
        "storage_root_missing",
        _Kind(
            _WORKER,
            _TRANSIENT,
            "claimed fetching uploading",
            release=Release.ELSEWHERE,
            ends_as="file_outside_roots",
        ),
        "the worker does not have the folder of a `file://` URL, which the API accepted",
        "nothing, if another worker has the folder; else ask the operator for `EUTERPE_STORAGE_ROOTS` on the "
        "worker",
    )
    STORAGE_ENDPOINT_MISSING = (
        "storage_endpoint_missing",
        _Kind(
            _WORKER,
            _TRANSIENT,
            "claimed fetching uploading",
            release=Release.ELSEWHERE,
            ends_as="endpoint_not_allowed",
        ),
        "the worker is not allowed to use the `endpoint` of the credentials, although the API accepted it",
        "nothing, if another worker may use it; else ask the operator for `EUTERPE_STORAGE_ENDPOINTS` on the "
        "worker",
    )
    FFMPEG_INCOMPLETE = (
        "ffmpeg_incomplete",
        _Kind(_WORKER, _TRANSIENT, "claimed processing", release=Release.ELSEWHERE),
        "the worker's ffmpeg lacks an encoder, a muxer or a filter that the job needs",
        "nothing, if another worker has it; else request another codec, or ask the operator for another "
        "ffmpeg",
    )
    SPEC_NOT_UNDERSTOOD = (
        "spec_not_understood",
        _Kind(_WORKER, _TRANSIENT, "claimed", release=Release.ROLLOUT),
        "the job has a field or a value that the worker's older release does not know",
        "nothing; the operator updates the workers",
    )
    UNKNOWN_KEK = (
        "unknown_kek",
        _Kind(_WORKER, _TRANSIENT, "claimed", release=Release.ROLLOUT),
        "the worker lacks the key of the credentials",
        "if the operator has [lost the key](operate.md#when-a-key-is-missing), send new credentials: `PUT "
        "/transcode/{job_id}/credentials`",
    )
    UNKNOWN_ENCRYPTION_VERSION = (
        "unknown_encryption_version",
        _Kind(_WORKER, _TRANSIENT, "claimed", release=Release.ROLLOUT),
        "the credentials were stored by a newer release",
        "the operator updates the workers",
    )
    KEY_PROVIDER_UNAVAILABLE = (
        "key_provider_unavailable",
        _Kind(_WORKER, _TRANSIENT, "claimed", release=Release.ALWAYS),
        "the worker could not reach [the keys](operate.md#keys) for a minute",
        "nothing; the operator makes the key provider available",
    )
