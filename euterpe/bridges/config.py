"""The declared bridges: the TOML file that `EUTERPE_BRIDGES` names, with a table `[bridge.NAME]` for each.

The address of a foreign queue may contain a password. So the file has only the name of the environment
variable that contains the address. Error messages never contain the value of an environment variable.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from euterpe.bridges.adapter import BridgeError
from euterpe.bridges.mapping import ANY_NAME, JobMapping
from euterpe.bridges.stream_jobs import TASKS
from euterpe.bridges.templates import Template, url_problem
from euterpe.domain.field_errors import field_errors
from euterpe.domain.model import Items, StrictModel
from euterpe.domain.profiles import Profiles
from euterpe.domain.text import NAME, Name, QueueName, display_text, unset_variable

MOST_BYTES = 1024 * 1024
MOST_SLOTS = 1000


class BridgeKind(StrEnum):
    BULLMQ = "bullmq"
    BULLMQ_POSTGRES = "bullmq-postgres"
    OMNIQ = "omniq"
    STREAMS = "streams"


_SCHEMES: Mapping[BridgeKind, tuple[str, ...]] = {
    BridgeKind.BULLMQ: ("redis://", "rediss://", "unix://"),
    BridgeKind.BULLMQ_POSTGRES: ("postgresql://", "postgres://"),
    BridgeKind.OMNIQ: ("redis://", "rediss://", "unix://"),
    BridgeKind.STREAMS: ("redis://", "rediss://", "unix://"),
}
# For each kind of bridge: its fields in addition to the fields of all bridges. The first field is required.
_OWN_FIELDS: Mapping[BridgeKind, tuple[str, ...]] = {
    BridgeKind.BULLMQ: ("queue", "prefix"),
    BridgeKind.BULLMQ_POSTGRES: ("queue", "schema"),
    BridgeKind.OMNIQ: ("queue",),
    BridgeKind.STREAMS: ("stream", "group"),
}


@dataclass(frozen=True, kw_only=True)
class BridgeConfig:
    """One bridge. `url` may contain a password."""

    name: str
    kind: BridgeKind
    url: str = field(repr=False)
    url_env: str = ""  # the environment variable that contains `url`
    queue: str  # the foreign queue, or the stream
    requester: str
    slots: int
    lease_ms: int
    prefix: str | None  # the prefix of the queue's keys in Redis
    schema: str | None  # the schema in Postgres
    group: str | None  # the consumer group of a stream
    jobs: Mapping[str, JobMapping]


class InvalidBridges(BridgeError):
    """The file is not valid. `problems` lists all its errors."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def _template(value: object) -> object:
    return Template.parse(value) if isinstance(value, str) else value


def _kind(value: object) -> object:
    kinds = tuple(map(str, BridgeKind))
    if value not in kinds:
        raise ValueError(f"must be one of {', '.join(kinds)}")
    return BridgeKind(str(value))


def _priorities(value: object) -> object:
    """Return the table of priorities. A single number is the priority of all jobs."""
    if isinstance(value, int):
        return {"default": value}
    if isinstance(value, dict) and not all(key == "default" or key.isdigit() for key in value):
        raise ValueError("must have numbers and `default` as keys")
    return value


Text = Annotated[str, Field(min_length=1, max_length=200)]
TextTemplate = Annotated[Template, BeforeValidator(_template), Field(json_schema_extra={})]
Priority = Annotated[int, Field(ge=0, le=100)]


class JobTable(StrictModel, arbitrary_types_allowed=True):
    """A table `[bridge.NAME.jobs.JOB]`."""

    source: TextTemplate
    output: TextTemplate
    profile: TextTemplate
    profiles: Annotated[tuple[Name, ...], Items(1, 500, unique=True)] | None = None
    when: Annotated[dict[str, str | int | float | bool], Field(default={})]
    storage: Name | None = None
    external_id: TextTemplate | None = None
    priority: Annotated[dict[str, Priority], BeforeValidator(_priorities), Field(default={})]
    queue: QueueName | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    timeout_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = None


class BridgeTable(StrictModel):
    """A table `[bridge.NAME]`."""

    kind: Annotated[BridgeKind, BeforeValidator(_kind)]
    url_env: Text
    queue: Text | None = None
    stream: Text | None = None
    group: Text | None = None
    prefix: Text | None = None
    schema_: Annotated[Text | None, Field(alias="schema")] = None
    requester: Text
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = 8
    lease_ms: Annotated[int, Field(ge=1_000, le=86_400_000)] = 60_000
    jobs: Annotated[dict[str, JobTable], Field(min_length=1)]


def read_bridges(path: Path, environ: Mapping[str, str], profiles: Profiles) -> Mapping[str, BridgeConfig]:
    """Return the bridges by name. Raise `InvalidBridges` with every error in the file."""
    document = _document(path)
    problems = [
        f"{path}: {display_text(name)!r} is not a known table; bridges are tables [bridge.NAME]"
        for name in document
        if name != "bridge"
    ]
    tables = document.get("bridge")
    if not isinstance(tables, dict) or not tables:
        raise InvalidBridges([*problems, f"{path}: has no table [bridge.NAME]"])
    bridges: dict[str, BridgeConfig] = {}
    for name, table in tables.items():
        wrong: list[str] = []
        bridge = _bridge(name, table, environ, profiles, wrong)
        problems += [f"{path}: bridge.{display_text(name)}: {problem}" for problem in wrong]
        if bridge is not None:
            bridges[name] = bridge
    if problems:
        raise InvalidBridges(problems)
    return bridges


def _document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise InvalidBridges([f"{path}: is larger than {MOST_BYTES} bytes"])
        return tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        raise InvalidBridges([f"{path}: must be UTF-8"]) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidBridges([f"{path}: {error}"]) from None
    except (ValueError, RecursionError):
        raise InvalidBridges([f"{path}: has a number or a nesting that is too large to parse"]) from None
    except OSError as error:
        raise InvalidBridges([f"{path}: cannot be read: {error.strerror}"]) from None


def _bridge(
    name: str, table: object, environ: Mapping[str, str], profiles: Profiles, wrong: list[str]
) -> BridgeConfig | None:
    """Return the bridge that a table declares, or None. Add the problems of the table to `wrong`."""
    try:
        NAME(name)
    except ValueError as error:
        wrong.append(f"the name {error}")
    try:
        read = BridgeTable.model_validate(table)
    except ValidationError as invalid:
        errors = field_errors(invalid, table)
        wrong += sorted(f"{'.'.join(map(str, error.loc))} {error.msg}".strip() for error in errors)
        return None
    wrong += _misplaced(read)
    url = environ.get(read.url_env, "")
    if not url:
        wrong.append(f"url_env {unset_variable(read.url_env)}")
    elif not url.startswith(_SCHEMES[read.kind]):
        wrong.append(f"url_env must name a URL that begins with {' or '.join(_SCHEMES[read.kind])}")
    wrong += _unknown_tasks(read)
    jobs = {key: _mapping(key, job, profiles, wrong) for key, job in read.jobs.items()}
    if wrong:
        return None
    return BridgeConfig(
        name=name,
        kind=read.kind,
        url=url,
        url_env=read.url_env,
        queue=read.queue or read.stream or "",
        requester=read.requester,
        slots=read.slots,
        lease_ms=read.lease_ms,
        prefix=read.prefix,
        schema=read.schema_,
        group=read.group,
        jobs=jobs,
    )


def _misplaced(table: BridgeTable) -> list[str]:
    """Return an error for a missing required field, and for each field of another kind of bridge."""
    own = {
        "queue": table.queue,
        "stream": table.stream,
        "group": table.group,
        "prefix": table.prefix,
        "schema": table.schema_,
    }
    known = _OWN_FIELDS[table.kind]
    problems = [f"{known[0]} is required for the kind {table.kind}"] if own[known[0]] is None else []
    return problems + [
        f"{name} is not a field of the kind {table.kind}"
        for name, value in own.items()
        if value is not None and name not in known
    ]


def _unknown_tasks(table: BridgeTable) -> list[str]:
    """Return an error for each mapping of a stream that no job can have."""
    if table.kind is not BridgeKind.STREAMS:
        return []
    tasks = ", ".join(TASKS)
    return [
        f"jobs.{display_text(name)} must be {tasks} or {ANY_NAME}: a stream has no other tasks"
        for name in table.jobs
        if name not in (*TASKS, ANY_NAME)
    ]


def _mapping(name: str, table: JobTable, profiles: Profiles, wrong: list[str]) -> JobMapping:
    where = f"jobs.{name if name == ANY_NAME else display_text(name)}"
    for field_name, template, is_output in (("source", table.source, False), ("output", table.output, True)):
        if problem := url_problem(template, is_output=is_output):
            wrong.append(f"{where}.{field_name} {problem}")
    if all(placeholder.path == "name" for placeholder in table.output.placeholders):
        wrong.append(f"{where}.output must contain {{id}} or {{ref}}, because all jobs would share one place")
    constant = table.profile.constant
    allowed = frozenset(table.profiles or (() if constant is None else (constant,)))
    if not allowed:
        wrong.append(f"{where}.profiles is required: list the profiles that a payload may name")
    asked = {constant, *(placeholder.default for placeholder in table.profile.placeholders)} - {None}
    if len(table.profile.parts) == 1 and (extra := asked - allowed):
        wrong.append(f"{where}.profile must be one of its profiles, and is also {', '.join(map(str, extra))}")
    if unknown := sorted(allowed - profiles.keys()):
        wrong.append(f"{where}.profiles has no profile of this installation: {', '.join(unknown)}")
    return JobMapping(
        name=name,
        source=table.source,
        output=table.output,
        profile=table.profile,
        profiles=allowed,
        when=table.when,
        storage=table.storage,
        external_id=table.external_id,
        priority=table.priority,
        queue=table.queue,
        max_attempts=table.max_attempts,
        timeout_seconds=table.timeout_seconds,
    )
