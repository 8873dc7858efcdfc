"""The classes of the documents that users see. Each document is defined once, field by field.

The JSON schemas of the API (`json_schema.py`), the classes of the SDK (`euterpe/client/documents.py`) and the
tables of the docs are derived from these classes. The classes are plain dataclasses, because the SDK does not
depend on pydantic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple, get_args

from euterpe.domain.states import JobStatus

Object = Mapping[str, Any]

_ID = "01937b1e-6f3a-7c52-8d0e-5a4c1b2f9e77"
_CREATED, _ENDED = "2026-03-01T12:00:00.000Z", "2026-03-01T12:01:30.000Z"
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@dataclass(frozen=True)
class About:
    """The description of a field, an example of its value, and further keywords of its JSON schema.

    If the value of the field is an object or a list of objects, `inner` is the document class of these
    objects. Readers get each object as a mapping, so that the object can contain members that `inner` does
    not describe.
    """

    text: str
    example: object
    inner: type | None
    is_required: bool
    schema: Mapping[str, object]


def about(
    text: str, example: object, *, inner: type | None = None, is_required: bool = True, **schema: object
) -> About:
    return About(text, example, inner, is_required, schema)


class DocumentField(NamedTuple):
    name: str
    type: object
    about: About


_fields: dict[type, tuple[DocumentField, ...]] = {}


def fields_of(document: type) -> tuple[DocumentField, ...]:
    """Return the fields that have an `About`, in order. `document` may be a subclass of a document class."""
    if document not in _fields:
        known = ((one.name, get_args(one.type)) for one in fields(document))
        _fields[document] = tuple(
            DocumentField(name, *args) for name, args in known if args and isinstance(args[-1], About)
        )
    return _fields[document]


def members(document: object) -> dict[str, Any]:
    """Return a document as a JSON object, in the order of its fields and without copying their values."""
    return {one.name: getattr(document, one.name) for one in fields_of(type(document))}


def example_document(document: type) -> Object:
    """Return a document made of the examples of its fields."""
    return {one.name: one.about.example for one in fields_of(document)}


# These fields occur in several documents.
JobId = Annotated[str, about("the id of the job", _ID, format="uuid")]
ExternalId = Annotated[str | None, about("the id that the request gave to the job", "asset-42")]
Status = Annotated[str, about("the status of the job", "processing", enum=list(JobStatus))]
Percent = Annotated[float, about("how much of the attempt is done, in percent", 41.5, minimum=0, maximum=100)]
Eta = Annotated[float | None, about("the expected number of seconds until the encode ends", 12.0)]
Speed = Annotated[float | None, about("how many seconds of media are encoded in one second", 3.1)]
AttemptCount = Annotated[int, about("how many attempts have been charged to the job", 1, minimum=0)]
Metadata = Annotated[Object, about("the metadata of the request", {"title": "Interview"})]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDocument:
    """A file of an output."""

    path: Annotated[str, about("the file's path below the output prefix", "mp4.mp4")]
    size_bytes: Annotated[int, about("the size of the file", 7_340_032, minimum=0)]
    sha256: Annotated[str, about("the checksum of the file", _SHA256)]


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityDocument:
    """The measured quality of a picture track: the encode compared with the encoder's input."""

    vmaf: Annotated[float, about("the mean VMAF, from 0 to 100", 93.4, is_required=False)]
    vmaf_p1: Annotated[float, about("the VMAF that 99 % of the pictures reach", 86.2, is_required=False)]
    psnr: Annotated[float, about("the PSNR of the luma in dB", 42.7, is_required=False)]
    ssim: Annotated[float, about("the mean SSIM of the luma, at most 1", 0.98712, is_required=False)]
    xpsnr: Annotated[float, about("the XPSNR of the luma in dB", 41.9, is_required=False)]
    crf: Annotated[int, about("the rate factor that a search for `target` chose", 31, is_required=False)]
    predicted_vmaf: Annotated[float, about("the VMAF that the search predicted", 93.1, is_required=False)]
    sample_seconds: Annotated[
        float, about("the length of the samples that the search encoded", 12.0, is_required=False)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenditionDocument:
    """A track of an output: a picture in one size, a sound track, or a subtitle track."""

    kind: Annotated[str, about("the kind of the track", "video", enum=["video", "audio", "subtitle"])]
    codec: Annotated[str, about("the codec, in the form of RFC 6381 for adaptive outputs", "avc1.64001f")]
    width: Annotated[int | None, about("the width in pixels; null for sound", 1280, minimum=0)]
    height: Annotated[int | None, about("the height in pixels; null for sound", 720, minimum=0)]
    bitrate: Annotated[int | None, about("the average rate in bit/s", 2_500_000, minimum=0)]
    language: Annotated[str | None, about("the language of the track, if the source names it", None)]
    copied: Annotated[
        bool,
        about(
            "whether the track was copied from the source and not encoded", example=False, is_required=False
        ),
    ]
    measured_lufs: Annotated[
        float | None, about("the loudness of the sound before its gain, if `loudness` was requested", None)
    ]
    gain_db: Annotated[float | None, about("the gain of the sound in dB, if `loudness` was requested", None)]
    quality: Annotated[
        Object | None,
        about(
            "the requested metrics of quality; null for a track that was not measured",
            example_document(QualityDocument),
            inner=QualityDocument,
            is_required=False,
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningDocument:
    """A warning: a part of the source or of the request that an output lacks."""

    code: Annotated[str, about("a stable code, which docs/media.md lists", "audio_track_dropped")]
    output: Annotated[str | None, about("the name of the output, or null for the whole job", "mp4")]
    message: Annotated[str, about("what is missing, for people", "sound track 2 (fre) is not included")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDocument:
    """An output of a job that has succeeded."""

    name: Annotated[str, about("the name of the output in the request", "mp4")]
    url: Annotated[
        str,
        about(
            "the URL of the file to open: the playlist, the video or the last picture", "s3://out/a/mp4.mp4"
        ),
    ]
    content_type: Annotated[str, about("the media type of the file at `url`", "video/mp4")]
    size_bytes: Annotated[int, about("the size of all files of the output together", 7_340_032, minimum=0)]
    sha256: Annotated[str, about("the checksum of the file at `url`", _SHA256, pattern="^[0-9a-f]{64}$")]
    duration_seconds: Annotated[float | None, about("the length of the media; null for pictures", 60.0)]
    width: Annotated[int | None, about("the width of a video or a picture in pixels", 1280, minimum=0)]
    height: Annotated[int | None, about("the height of a video or a picture in pixels", 720, minimum=0)]
    file_count: Annotated[int, about("how many files the output has", 1, minimum=0)]
    files: Annotated[
        Sequence[Object],
        about(
            "each file, with its path below the output prefix; if the job has more than about 900 files, the "
            "list leaves out the last segments, and `file_count` is larger than the list",
            [example_document(FileDocument)],
            inner=FileDocument,
        ),
    ]
    renditions: Annotated[
        Sequence[Object],
        about("the tracks of the output", [example_document(RenditionDocument)], inner=RenditionDocument),
    ]
    quality: Annotated[
        Object | None,
        about(
            "the measured quality; the lowest value of each score if there are several renditions; null if "
            "nothing was measured",
            example_document(QualityDocument),
            inner=QualityDocument,
            is_required=False,
        ),
    ]


Outputs = Annotated[
    Sequence[Object],
    about(
        "the outputs, once the job has succeeded", [example_document(OutputDocument)], inner=OutputDocument
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDocument:
    """The error of a job's last attempt."""

    code: Annotated[str, about("a stable code, which docs/errors.md lists", "source_forbidden")]
    message: Annotated[str, about("what happened, for people", "s3://in/a.mov: answered 403")]
    retryable: Annotated[bool, about("whether another attempt may help", example=False)]
    phase: Annotated[str | None, about("the status of the job when it failed", "fetching", is_required=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFields:
    """The columns of a job that the status document shows without a change of name or value."""

    job_id: JobId
    external_id: ExternalId
    status: Status
    progress: Percent
    eta_seconds: Eta
    speed: Speed
    attempt_count: AttemptCount
    max_attempts: Annotated[int, about("how many attempts the job may use", 3, minimum=0)]
    credential_version: Annotated[
        int, about("the version of the credentials; each replacement raises it", 1, minimum=0)
    ]
    queue: Annotated[str, about("the queue that the job is in", "default")]
    priority: Annotated[
        int, about("the order among the requester's jobs: higher numbers first", 50, minimum=0, maximum=100)
    ]
    source_info: Annotated[
        Object | None,
        about("what the probe has found in the source", {"duration_seconds": 60.0, "size_bytes": 52_428_800}),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDocument(JobFields):
    """The status document of a job. Instants are ISO 8601 in UTC."""

    cancel_requested: Annotated[bool, about("whether the running job is to be canceled", example=False)]
    outputs: Outputs
    warnings: Annotated[
        Sequence[Object],
        about(
            "what the outputs lack compared with the source or the request",
            [example_document(WarningDocument)],
            inner=WarningDocument,
        ),
    ]
    error: Annotated[
        Object | None,
        about(
            "the error of the last attempt; while the job waits or runs, the error of the previous attempt",
            example_document(ErrorDocument),
            inner=ErrorDocument,
        ),
    ]
    metadata: Metadata
    created_at: Annotated[str, about("when the job was accepted", _CREATED, format="date-time")]
    updated_at: Annotated[str, about("when this document last changed", _ENDED, format="date-time")]
    started_at: Annotated[str | None, about("when the first attempt began", _CREATED, format="date-time")]
    finished_at: Annotated[str | None, about("when the job ended", _ENDED, format="date-time")]
    next_attempt_at: Annotated[
        str | None,
        about("the earliest time of the next attempt, while the job waits for it", None, format="date-time"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrackDocument:
    """A track of a planned output: a picture in one size, a sound track, a subtitle track, or stills."""

    kind: Annotated[
        str, about("the kind of the track", "video", enum=["video", "audio", "subtitle", "image"])
    ]
    codec: Annotated[str, about("the codec", "h264")]
    action: Annotated[
        str,
        about(
            "whether the stream of the source is copied, encoded, or converted to text",
            "encode",
            enum=["copy", "encode", "convert"],
        ),
    ]
    width: Annotated[int | None, about("the width in pixels; null for sound and text", 1280, minimum=0)]
    height: Annotated[int | None, about("the height in pixels; null for sound and text", 720, minimum=0)]
    bitrate: Annotated[
        int | None, about("the expected average rate in bit/s; null if it is not known", 2_500_000, minimum=0)
    ]
    language: Annotated[str | None, about("the language, if the source names it", None)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOutputDocument:
    """An output in the plan of a job."""

    name: Annotated[str, about("the name of the output in the request", "mp4")]
    duration_seconds: Annotated[float | None, about("the length of the media; null for pictures", 60.0)]
    expected_bytes: Annotated[
        int | None,
        about(
            "an estimate of the size of all files; it may be wrong by half, because the bytes of a constant "
            "quality depend on the pictures; null for an output with a `target`",
            19_000_000,
            minimum=0,
        ),
    ]
    watermark: Annotated[str | None, about("the position of the watermark; null without one", None)]
    target_vmaf: Annotated[
        float | None,
        about("the VMAF for which a search will choose the quality; null without a target", None),
    ]
    encryption: Annotated[
        str | None, about("the method of the encryption of the segments; null without encryption", None)
    ]
    tracks: Annotated[
        Sequence[Object],
        about("the tracks", [example_document(PlannedTrackDocument)], inner=PlannedTrackDocument),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """The plan of a job: the outputs that the job would make of its source."""

    plan_hash: Annotated[
        str,
        about(
            "a hash that is equal for plans that make the same files of the same source",
            _SHA256,
            pattern="^[0-9a-f]{64}$",
        ),
    ]
    is_exact: Annotated[
        bool,
        about(
            "whether the whole source was read; if only its beginning and end were read, the job may find "
            "other durations",
            example=True,
        ),
    ]
    source_info: Annotated[
        Object,
        about("what the probe has found in the source", {"duration_seconds": 60.0, "size_bytes": 52_428_800}),
    ]
    outputs: Annotated[
        Sequence[Object],
        about("the outputs", [example_document(PlannedOutputDocument)], inner=PlannedOutputDocument),
    ]
    warnings: Annotated[
        Sequence[Object],
        about(
            "what the outputs would lack compared with the source or the request",
            [example_document(WarningDocument)],
            inner=WarningDocument,
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDocument:
    """The body of a webhook, with one event of a job. `event_id` is the same in every delivery."""

    event_id: Annotated[str, about("the id of the event: deduplicate by it", _ID, format="uuid")]
    sequence: Annotated[int, about("the number of the event within its job, counted from 1", 4, minimum=1)]
    type: Annotated[str, about("`job.` and the status, or `job.progress`", "job.succeeded")]
    job_id: JobId
    status: Status
    occurred_at: Annotated[str, about("when the event occurred", _ENDED, format="date-time")]
    attempt_count: AttemptCount
    external_id: ExternalId
    metadata: Metadata
    outputs: Outputs
    error: Annotated[Object | None, about("the error, if the job has failed", None, inner=ErrorDocument)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressDocument:
    """The progress of a running job, sent between the events of a stream."""

    job_id: JobId
    status: Status
    progress: Percent
    eta_seconds: Eta
    speed: Speed


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshDocument:
    """The body of a call to `refresh_url`. The credentials were refused, or expire soon."""

    job_id: JobId
    credential_version: Annotated[
        int, about("the version of the credentials that the worker has", 1, minimum=0)
    ]
    reason: Annotated[
        str,
        about(
            "`forbidden` if storage refused the credentials, `expiring` if they expire soon",
            "forbidden",
            enum=["forbidden", "expiring"],
        ),
    ]
    event_id: Annotated[str, about("the id of the call", _ID, format="uuid")]
    occurred_at: Annotated[str, about("when the worker made the call", _CREATED, format="date-time")]
