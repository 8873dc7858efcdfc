"""The job spec: the models of a transcoding request, and the functions that parse and validate it."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from euterpe.domain.credentials import Credentials, Side, credentials_mismatch
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.events import WebhookFormat
from euterpe.domain.field_errors import field_errors
from euterpe.domain.locations import CallbackUrl, OutputPrefix, SignedUrl, scheme_of, without_query
from euterpe.domain.model import (
    Instant,
    Items,
    StrictModel,
    exactly_one_schema,
    exactly_one_with,
    problems_at,
)
from euterpe.domain.outputs import OutputSpec, OutputSpecs, PictureOutput, encryptions
from euterpe.domain.profiles import ProfileName, Profiles, built_in_profiles
from euterpe.domain.source import Source
from euterpe.domain.strict_json import MAX_NUMBER, canonical_text, json_problems, parse_json
from euterpe.domain.text import ExternalId, FileName, GroupId, Name, QueueName

MAX_BODY_BYTES = 262_144
MAX_METADATA_BYTES = 4096
MAX_METADATA_DEPTH = 16
_ANY_OBJECT = {"type": "object", "additionalProperties": True}

WebhookEvent = Literal[
    "progress",
    "queued",
    "claimed",
    "fetching",
    "processing",
    "uploading",
    "succeeded",
    "failed",
    "dead_letter",
]


Uploads = Annotated[dict[FileName, SignedUrl], Field(min_length=1)]


def _not_signed(url: object) -> object:
    if isinstance(url, str) and scheme_of(url) == "https":
        raise ValueError("must be s3, gs, az or file; for https give a signed URL for each file in `urls`")
    return url


class Output(StrictModel):
    """The place to write to. Give either a prefix in `url`, or a signed PUT URL for each file in `urls`."""

    model_config = ConfigDict(json_schema_extra=exactly_one_schema("url", "urls"))

    url: Annotated[OutputPrefix, BeforeValidator(_not_signed)] | None = None
    """The prefix to write to: an `s3://`, `gs://`, `az://` or `file://` URL that ends with `/`."""
    urls: Annotated[Uploads | None, exactly_one_with("url"), Field(validate_default=True, repr=False)] = None
    """A signed PUT URL for each file of the job. The keys are the paths of the files."""

    @property
    def scheme(self) -> str:
        return scheme_of(self.url) if self.url else "https"


class GroupSpec(StrictModel):
    """A group of jobs that run in order, at most `limit` of them at a time."""

    id: GroupId
    """The name of the group, within the requester."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 1
    """How many jobs of the group may run at once."""


def _named(value: object) -> object:
    return {"id": value} if isinstance(value, str) else value


def _without_credentials(value: str | None, info: ValidationInfo) -> str | None:
    """Raise if a request has both credentials and a storage profile.

    A stored job may have credentials and a profile, because the credentials of the profile are stored with
    the job.
    """
    if value is not None and info.data.get("credentials") is not None and not _reading(info).is_stored:
        raise ValueError("give either credentials or storage, and not both")
    return value


def _in_order(events: tuple[WebhookEvent, ...]) -> tuple[WebhookEvent, ...]:
    return tuple(event for event in get_args(WebhookEvent) if event in events)


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    # Each value takes at least one byte, so the limit in bytes is also a limit on the number of values.
    if found := list(json_problems(value, max_depth=MAX_METADATA_DEPTH, max_values=MAX_METADATA_BYTES)):
        raise problems_at(found)
    if (size := len(canonical_text(value).encode())) > MAX_METADATA_BYTES:
        raise ValueError(f"must take at most {MAX_METADATA_BYTES} bytes as JSON, not {size}")
    return value


WebhookEvents = Annotated[
    tuple[WebhookEvent, ...], Items(0, len(get_args(WebhookEvent)), unique=True), AfterValidator(_in_order)
]
Group = Annotated[GroupSpec, BeforeValidator(_named, json_schema_input_type=GroupId | GroupSpec)]
Metadata = Annotated[dict[Any, Any], AfterValidator(_check_metadata), WithJsonSchema(_ANY_OBJECT)]


@dataclass(frozen=True)
class _Reading:
    """The known profiles, and whether the spec comes from a stored job, whose profile is resolved already."""

    profiles: Profiles
    is_stored: bool = False


def _reading(info: ValidationInfo) -> _Reading:
    return info.context if isinstance(info.context, _Reading) else _Reading(built_in_profiles())


def _known(name: str | None, info: ValidationInfo) -> str | None:
    reading = _reading(info)
    if name is None or reading.is_stored or name in reading.profiles:
        return name
    close = get_close_matches(name, reading.profiles, n=1)
    suggestion = f" (did you mean {close[0]!r}?)" if close else ""
    raise ValueError(f"must be a profile that GET /transcode/profiles lists{suggestion}")


def _resolved(given: tuple[OutputSpec, ...] | None, info: ValidationInfo) -> tuple[OutputSpec, ...] | None:
    """Return the given outputs, or else the outputs of the profile.

    A stored spec may contain both a profile and outputs, because the outputs were stored when the job was
    accepted.
    """
    if "profile" not in info.data:
        return given
    reading, name = _reading(info), info.data["profile"]
    if given is not None and (name is None or reading.is_stored):
        return given
    if name is None or given is not None:
        raise ValueError("give either profile or outputs, and not both")
    if name not in reading.profiles:
        raise ValueError("is required: this release has no such profile")
    return reading.profiles[name].outputs


def _with_keys(outputs: tuple[OutputSpec, ...] | None, info: ValidationInfo) -> tuple[OutputSpec, ...] | None:
    """Raise for an encryption without a key.

    A stored spec is not checked, because its keys are sealed separately.
    """
    if outputs is not None and not _reading(info).is_stored:
        keyless = [place for place, _, encryption in encryptions(outputs) if encryption.key is None]
        if keyless:
            text = "must have a key of 16 bytes as 32 hex digits"
            raise problems_at([((place, "encryption"), text) for place in keyless])
    return outputs


def _with_one_watermark_per_path(
    outputs: tuple[OutputSpec, ...] | None, info: ValidationInfo
) -> tuple[OutputSpec, ...] | None:
    """Raise for watermarks that differ only in the query.

    The query may be a signature, which a refresh replaces, so a query cannot identify a picture. Before this
    check, two outputs with `logo?id=1` and `logo?id=2` got the same picture.
    """
    if outputs is None or _reading(info).is_stored:
        return outputs
    first: dict[str, str] = {}
    problems = []
    for place, output in enumerate(outputs):
        if isinstance(output, PictureOutput) and output.watermark is not None:
            url = output.watermark.source.url
            if first.setdefault(without_query(url), url) != url:
                text = "must be the same as in the other outputs with this path, also in its query"
                problems.append(((place, "watermark", "source", "url"), text))
    if problems:
        raise problems_at(problems)
    return outputs


class JobSpec(StrictModel):
    """A job: the source, the outputs to make, the place to write them, and the webhook to call."""

    model_config = ConfigDict(json_schema_extra=exactly_one_schema("profile", "outputs"))

    source: Source
    """The media to read."""
    output: Output
    """The place to write to."""
    profile: Annotated[ProfileName | None, AfterValidator(_known)] = None
    """A ready-made list of outputs, by name. Give either this field or `outputs`."""
    outputs: Annotated[
        OutputSpecs | None,
        AfterValidator(_resolved),
        AfterValidator(_with_keys),
        AfterValidator(_with_one_watermark_per_path),
        Field(validate_default=True),
    ] = None
    """The outputs to make. Give either this field or `profile`."""
    credentials: Credentials | None = None
    """Access to the object storage of the source and the output, encrypted at rest."""
    storage: Annotated[Name | None, AfterValidator(_without_credentials)] = None
    """A storage profile of the operator, whose credentials are used. Give this field or `credentials`."""
    refresh_url: CallbackUrl | None = Field(default=None, repr=False)
    """The URL to ask for new credentials when they expire or are refused."""
    status_webhook_url: CallbackUrl | None = Field(default=None, repr=False)
    """The URL that receives signed webhooks."""
    webhook_events: WebhookEvents | None = None
    """The events to send, without the prefix `job.`. Without a list: all status changes, but no progress."""
    webhook_format: WebhookFormat = "euterpe"
    """The signature format of webhooks and refresh calls: Euterpe's own, or Standard Webhooks."""
    queue: QueueName = "default"
    """The queue to wait in."""
    priority: Annotated[int, Field(ge=0, le=100)] = 50
    """Jobs with a higher priority are claimed first."""
    group: Group | None = None
    """Jobs of a group run in order, at most `limit` at once. A string is the id of a group with limit 1."""
    not_before: Instant | None = None
    """The earliest time to start."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    """How many attempts the job has. Null means the default of the operator."""
    timeout_seconds: Annotated[int, Field(ge=1, le=604_800)] = 7200
    """How long one attempt may take."""
    allow_truncated: bool = False
    """Whether to encode what can be read of a cut off or damaged source, with an entry in `warnings`."""
    max_source_bytes: Annotated[int, Field(ge=1, le=MAX_NUMBER)] | None = None
    """A larger source is refused. Null means the limit of the operator."""
    external_id: ExternalId | None = None
    """Your own id of the job. The status and each event repeat it."""
    metadata: Metadata = Field(default={})
    """Your own JSON object, at most 4096 bytes. The status and each event repeat it."""

    @field_validator("credentials")
    @classmethod
    def _credentials_fit(cls, given: Credentials | None, info: ValidationInfo) -> Credentials | None:
        sides: tuple[Side, Side] = ("source", "output")
        schemes = {side: info.data[side].scheme for side in sides if side in info.data}
        if given and (problem := credentials_mismatch(given, schemes)):
            raise ValueError(problem)
        return given


def parse_spec(data: object, profiles: Profiles | None = None) -> JobSpec:
    """Return the spec in `data`, a decoded JSON document. Raise `InvalidSpec` with every error in it.

    If the spec names a profile, look it up in `profiles` (by default, the built-in profiles). The returned
    spec contains the outputs of the profile, so that no later step needs the profile.
    """
    return _parse(data, _Reading(built_in_profiles() if profiles is None else profiles))


def parse_spec_json(raw: bytes, max_bytes: int = MAX_BODY_BYTES, profiles: Profiles | None = None) -> JobSpec:
    """Return the spec in a raw request body, as `parse_spec` does. Raise `InvalidSpec`."""
    return parse_spec(parse_json(raw, max_bytes), profiles)


def parse_stored_spec(data: object) -> JobSpec:
    """Return the spec of an accepted job. Raise `InvalidSpec` if this release does not understand it.

    The outputs of an operator's profile are in the spec, because this process may not have that profile.
    """
    return _parse(data, _Reading(built_in_profiles(), is_stored=True))


def _parse(data: object, reading: _Reading) -> JobSpec:
    try:
        return JobSpec.model_validate(data, context=reading)
    except ValidationError as invalid:
        errors = field_errors(invalid, data)
    # Raise outside `except`, because the chained pydantic error would contain the input, including secrets.
    raise InvalidSpec(errors)


def resolve_outputs(spec: JobSpec) -> tuple[OutputSpec, ...]:
    """Return the outputs that the spec or its profile lists. There is at least one output."""
    return spec.outputs or ()
