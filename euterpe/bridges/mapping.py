"""The declared mapping from the jobs of a foreign queue to Euterpe's jobs. Pure: no I/O, no clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from euterpe.bridges.adapter import ForeignJob
from euterpe.bridges.payloads import MOST_TEXT, TOO_LARGE
from euterpe.bridges.templates import MappingRefused, Template, values_match
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.field_errors import MAX_ERRORS, first_errors, shown_path
from euterpe.domain.profiles import Profiles
from euterpe.domain.spec import JobSpec, parse_spec
from euterpe.domain.text import display_text

ANY_NAME = "*"
MOST_ATTEMPTS = 100
# If the foreign queue makes several attempts of a job, Euterpe's job gets the same number plus two. The two
# attempts are for crashes of our workers.
SPARE_ATTEMPTS = 2
_MOST_VALUES = 10_000
_MOST_CHARACTERS = 1024 * 1024
# The last words in the name of a credential, without case and separators: also `awsSecretAccessKey` is one.
_SECRET_ENDS = (
    *("accesskey", "accesskeyid", "secretkey", "secret", "password", "passwd", "pwd", "apikey", "privatekey"),
    *("accountkey", "sessiontoken", "accesstoken", "securitytoken", "sastoken", "authtoken", "refreshtoken"),
    *("connectionstring", "credentials", "authorization"),
)
_SECRET_KEYS = frozenset({"token"})  # but a `nextPageToken` is no credential
_NAMELESS = "without a name; in OmniQ, the name is the field `type` of the payload"
# Valid values for fields that could not be mapped, so that parsing the spec finds all other errors.
_STAND_INS: Mapping[str, Any] = {
    "source": {"url": "s3://source/object"},
    "output": {"url": "s3://output/prefix/"},
}


@dataclass(frozen=True)
class JobMapping:
    """The mapping of the foreign jobs with one name."""

    name: str
    source: Template
    output: Template
    profile: Template
    profiles: frozenset[str]  # the profiles that a payload may name
    when: Mapping[str, Any] = field(default_factory=dict)
    storage: str | None = None
    external_id: Template | None = None
    # Euterpe's priority for each priority of the foreign queue. "default" is for all other priorities.
    priority: Mapping[str, int] = field(default_factory=dict)
    queue: str | None = None
    max_attempts: int | None = None
    timeout_seconds: int | None = None


def spec_of(job: ForeignJob, mappings: Mapping[str, JobMapping], profiles: Profiles) -> JobSpec:
    """Return the spec of a foreign job. Raise `InvalidSpec` with all errors. No error contains a value."""
    data = job.data
    if data is TOO_LARGE:
        raise InvalidSpec((FieldError(("data",), f"must not have more than {MOST_TEXT} characters of JSON"),))
    mapping = _mapping_of(job, mappings)
    if data is None:
        raise InvalidSpec((FieldError(("data",), "must be a JSON object"),))
    if problem := _size_problem(data):
        raise InvalidSpec((FieldError(("data",), problem),))
    errors = list(_credentials_in(data))
    if mapping.when and not values_match(mapping.when, data):
        paths = ", ".join(f"data.{path}" for path in mapping.when)
        errors.append(FieldError(("data",), f"is not mapped: the mapping wants other values at {paths}"))
    document = _document(job, mapping, errors)
    spec = _parsed(document, profiles, errors)
    if errors or spec is None:
        raise InvalidSpec(first_errors(errors))
    return spec


def _mapping_of(job: ForeignJob, mappings: Mapping[str, JobMapping]) -> JobMapping:
    mapping = mappings.get(job.name, mappings.get(ANY_NAME))
    if mapping is None:
        which = f"named {display_text(job.name, 64)!r}" if job.name else _NAMELESS
        raise InvalidSpec((FieldError(("name",), f"no mapping for jobs {which}"),))
    return mapping


def _document(job: ForeignJob, mapping: JobMapping, errors: list[FieldError]) -> dict[str, Any]:
    """Return the document of the spec. Append to `errors` an error for each value that cannot be mapped."""
    document: dict[str, Any] = dict(_STAND_INS)

    def put(name: str, make: Callable[[ForeignJob], Any]) -> None:
        try:
            document[name] = make(job)
        except MappingRefused as refused:
            errors.extend(error for error in refused.errors if error not in errors)

    put("source", lambda job: {"url": mapping.source.source(job)})
    put("output", lambda job: {"url": mapping.output.output(job)})
    put("profile", lambda job: _profile(job, mapping))
    if "profile" not in document:
        document["profile"] = min(mapping.profiles)
    if mapping.external_id is not None:
        put("external_id", mapping.external_id.text)
    priority = mapping.priority.get(str(job.priority), mapping.priority.get("default"))
    attempts = mapping.max_attempts
    if attempts is None and job.attempts is not None:
        attempts = min(MOST_ATTEMPTS, job.attempts + SPARE_ATTEMPTS)
    fixed = {
        "storage": mapping.storage,
        "queue": mapping.queue,
        "priority": priority,
        "max_attempts": attempts,
        "timeout_seconds": mapping.timeout_seconds,
    }
    return {**document, **{name: value for name, value in fixed.items() if value is not None}}


def _profile(job: ForeignJob, mapping: JobMapping) -> str:
    name = mapping.profile.text(job)
    if name not in mapping.profiles:
        allowed = ", ".join(sorted(mapping.profiles))
        raise MappingRefused(FieldError(("profile",), f"must be one of {allowed}"))
    return name


def _parsed(document: Mapping[str, Any], profiles: Profiles, errors: list[FieldError]) -> JobSpec | None:
    try:
        return parse_spec(document, profiles)
    except InvalidSpec as invalid:
        errors += invalid.errors
    return None


def _size_problem(data: Mapping[str, Any]) -> str | None:
    """Return the error for a payload that is too large to be read, or None."""
    values, characters = 0, 0
    rest: list[object] = [data]
    while rest:
        item = rest.pop()
        values += 1
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, Mapping):
            characters += sum(map(len, item))
            rest.extend(item.values())
        elif isinstance(item, list):
            rest.extend(item)
        if values + len(rest) > _MOST_VALUES:
            return f"must not have more than {_MOST_VALUES} values"
        if characters > _MOST_CHARACTERS:
            return f"must not have more than {_MOST_CHARACTERS} characters"
    return None


def _credentials_in(data: Mapping[str, Any]) -> Sequence[FieldError]:
    """Return an error for each value that may be a credential. No secret should be stored in Redis."""
    found: list[FieldError] = []
    rest: list[tuple[tuple[str | int, ...], object]] = [(("data",), data)]
    for loc, item in rest:
        if isinstance(item, Mapping):
            for key, value in item.items():
                if _is_secret(key) and value not in (None, "") and not isinstance(value, bool):
                    text = "must not be in the payload: name a storage profile in the mapping, and replace it"
                    found.append(FieldError((*shown_path(loc), display_text(key, 32)), text))
                else:
                    rest.append(((*loc, key), value))
        elif isinstance(item, list):
            rest += [((*loc, index), value) for index, value in enumerate(item)]
        if len(found) > MAX_ERRORS:
            break
    return found


def _is_secret(key: str) -> bool:
    name = "".join(character for character in key.lower() if character.isalnum())
    return name in _SECRET_KEYS or name.endswith(_SECRET_ENDS)
