"""Settings: `EUTERPE_*` environment variables, or the same names without the prefix in `euterpe.toml`.

The environment takes precedence. An unknown name is an error in the file, but not in the environment, because
Kubernetes sets variables like `EUTERPE_SERVICE_HOST` for a service with the name euterpe.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import DeliverySchedule
from euterpe.domain.text import QUEUE
from euterpe.domain.units import parse_duration
from euterpe.net.pace import MIN_BYTES_PER_SECOND, WINDOW_S
from euterpe.storage.range_readers import DEFAULT_PARALLEL

FILE = "euterpe.toml"
_PREFIX = "EUTERPE_"
_HEARTBEAT_MS = 15_000
_DAY_MS = 24 * 3600 * 1000
_GIB = 1024**3
_LIBSQL = ("libsql:", "ws:", "wss:", "http:", "https:")
# libSQL limits a response to 10 MiB, and a response can contain 15 specs (`Engines.read_limit`).
_LARGEST_ON_LIBSQL = 512 * 1024
_MOST_RETRY_DELAYS = 100
_SHORTEST_RETRY_DELAY_MS, _LONGEST_RETRY_DELAY_MS = 1_000, 7 * _DAY_MS  # the store accepts at most a week
_LONGEST_WORKER_ID = 255  # the store refuses longer ids

_PLAIN_VAULTS = {("http", "127.0.0.1"), ("http", "::1"), ("http", "localhost")}
_VAULT_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")

_MESSAGES = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_parsing": "must be an integer",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "string_type": "must be a string",
    "path_type": "must be a path",
    "dict_type": f"must be a table in {FILE}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be one of {expected}",
}


def _split(value: object) -> object:
    """Split a comma-separated string (from the environment). Return a list (from the file) unchanged."""
    if isinstance(value, str):
        return tuple(word for part in value.split(",") if (word := part.strip()))
    return value


def _queues(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        raise ValueError("must name a queue")
    return tuple(QUEUE(word) for word in words)


def _vault_url(url: str | None) -> str | None:
    """Return the origin of a Vault server without a slash at its end. Raise if the URL is not an origin.

    Require TLS unless Vault runs on this host, because tokens and data keys are sent to Vault.
    """
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_origin = parts.hostname and not (parts.username or parts.path.strip("/") or parts.query)
        is_origin = is_origin and not parts.fragment and parts.port != 0
    except ValueError:
        is_origin = False
    if not is_origin:
        raise ValueError("must be an origin, like https://vault.internal:8200")
    if parts.scheme != "https" and (parts.scheme, parts.hostname) not in _PLAIN_VAULTS:
        raise ValueError("must be https://, or http:// on 127.0.0.1, ::1 or localhost")
    return url.rstrip("/")


def _vault_path(path: str) -> str:
    if not _VAULT_PATH.fullmatch(path):
        raise ValueError("must consist of A-Z, a-z, 0-9, . _ - and /, and not begin or end with /")
    return path


def _vault_namespace(namespace: str | None) -> str | None:
    """Return the namespace without a slash at its end. Vault's own tools print namespaces with this slash."""
    return None if namespace is None else _vault_path(namespace.removesuffix("/"))


def _retry_delays(value: object) -> tuple[int, ...]:
    """Parse durations into milliseconds. `value` is a list, or a text with commas."""
    if isinstance(value, tuple) and all(isinstance(part, int) for part in value):
        return value  # the default
    words = _split(value)
    if not isinstance(words, list | tuple) or not 1 <= len(words) <= _MOST_RETRY_DELAYS:
        raise ValueError(f"must be 1 to {_MOST_RETRY_DELAYS} durations separated by commas, like 5s,30s,2m")
    return tuple(_retry_delay(word) for word in words)


def _retry_delay(word: object) -> int:
    delay_ms = parse_duration(word) if isinstance(word, str) else None
    if delay_ms is None:
        raise ValueError("must be durations separated by commas, each a number and a unit, like 5s or 12h")
    if not _SHORTEST_RETRY_DELAY_MS <= delay_ms <= _LONGEST_RETRY_DELAY_MS:
        raise ValueError("must be durations of 1s to 7d each")
    return delay_ms


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
RetryDelays = Annotated[tuple[int, ...], NoDecode, BeforeValidator(_retry_delays)]
Attempts = Annotated[int, Field(ge=1, le=100)]
Milliseconds = Annotated[int, Field(ge=1, le=365 * _DAY_MS)]


class SettingsError(EuterpeError):
    """Invalid settings. The message has one line for each problem."""

    code = "settings"

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))


def _default_heartbeat(so_far: dict[str, Any]) -> int:
    """Return the default heartbeat interval.

    It is at most a quarter of the lease, so that even a short lease survives two lost heartbeats in a row.
    """
    lease_ms: int = so_far["lease_ttl_ms"]
    return min(_HEARTBEAT_MS, lease_ms // 4)


class Settings(BaseSettings):
    """All settings, validated together. Neither errors nor `repr` show the value of a secret."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_ignore_empty=True,
        toml_file=FILE,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    database_url: SecretStr = SecretStr("sqlite:///euterpe.db")  # may contain a password
    kek_file: Path | None = None
    keks: SecretStr | None = None
    vault_url: Annotated[str | None, AfterValidator(_vault_url)] = None
    vault_token_file: Annotated[Path | None, Field(validate_default=True)] = None
    vault_key: Annotated[str, AfterValidator(_vault_path)] = "euterpe"
    vault_mount: Annotated[str, AfterValidator(_vault_path)] = "transit"
    vault_namespace: Annotated[str | None, AfterValidator(_vault_namespace)] = None
    vault_ca_file: Path | None = None  # default: the certificate authorities of the system
    # The provider that wraps new data keys. Every configured provider unwraps data keys.
    key_provider: Literal["local", "vault"] = "local"

    lease_ttl_ms: Annotated[int, Field(ge=100, le=_DAY_MS)] = 60_000
    heartbeat_interval_ms: Annotated[int, Field(ge=10, default_factory=_default_heartbeat)]

    worker_slots: Annotated[int, Field(ge=1, le=1000)] = max(1, (os.cpu_count() or 1) // 2)
    worker_queues: Annotated[Words, AfterValidator(_queues)] = ("default",)
    # `inline` gives unsealed credentials to remote workers that send no public key, over TLS or loopback.
    worker_credentials: Literal["sealed", "inline"] = "sealed"
    work_dir: Path | None = None  # default: the system's temporary folder
    max_source_bytes: Annotated[int, Field(ge=1)] = 50 * _GIB
    min_free_bytes: Annotated[int, Field(ge=0)] = _GIB // 2  # disk space that a worker keeps free
    stall_timeout_ms: Milliseconds = 120_000  # ffmpeg is stopped after this time without progress
    # By default Kubernetes kills a pod 30 s after SIGTERM. Attempts need up to 10 s to end after the drain.
    drain_timeout_ms: Annotated[int, Field(ge=0, le=_DAY_MS)] = 15_000
    ffmpeg: Path | None = None  # default: the ffmpeg in the imageio-ffmpeg wheel
    # The default is True, because any requester can send media to a worker: s3:// and https:// sources cannot
    # be turned off.
    require_sandbox: bool = True

    # The minimum rate of a fetch or an upload, averaged over the window. 0 disables the check.
    min_transfer_bytes_per_s: Annotated[int, Field(ge=0)] = MIN_BYTES_PER_SECOND
    min_transfer_window_ms: Milliseconds = int(WINDOW_S * 1000)

    fetch_connections: Annotated[int, Field(ge=1, le=16)] = DEFAULT_PARALLEL.connections  # per source

    server: str | None = None  # a remote worker gets its jobs from this server, and needs no database
    api_key: SecretStr | None = None  # the API key of a remote worker
    server_ca: Path | None = None  # default: the public certificate authorities
    client_cert: Path | None = None
    client_key: Annotated[Path | None, Field(validate_default=True)] = None
    server_insecure: bool = False  # allows http:// to a server on another machine

    profiles: Path | None = None  # a folder with further profiles, each a TOML file

    bridges: Path | None = None  # a TOML file with the bridges to foreign queues

    # Storage profiles by name: tables `[storage.NAME]` of the file, which `wiring/storage_profiles.py` reads.
    storage: Annotated[dict[str, dict[str, Any]], NoDecode] = {}
    storage_roots: Words = ()
    storage_endpoints: Words = ()
    egress_allow: Words = ()

    # The contract (§12) sets the limit of 25, for pods with little CPU.
    outbox_batch: Annotated[int, Field(ge=1, le=25)] = 10
    outbox_concurrency: Annotated[int, Field(ge=1, le=100)] = 5
    outbox_poll_ms: Milliseconds = 1000  # the mean pause; each pause is random, 0.5 to 1.5 times this value

    outbox_max_attempts: Attempts = 12
    outbox_retry_delays: RetryDelays = DeliverySchedule().delays_ms
    job_max_attempts: Attempts = 3
    refresh_max_attempts: Attempts = 3

    backoff_base_ms: Milliseconds = 1000
    backoff_429_base_ms: Milliseconds = 30_000
    backoff_cap_ms: Milliseconds = 900_000

    idempotency_ttl_ms: Milliseconds = 7 * _DAY_MS
    max_body_bytes: Annotated[int, Field(ge=1024, le=16 * 1024 * 1024)] = 262_144
    max_unfinished: Annotated[int, Field(ge=1)] = 10_000  # per requester
    max_unfinished_of_all: Annotated[int, Field(ge=1)] = 1_000_000
    # Upper bounds on the limits of a job. `euterpe requester set` can lower these bounds for one requester.
    limit_timeout_seconds: Annotated[int, Field(ge=1, le=604_800)] = 604_800
    limit_attempts: Attempts = 100
    limit_priority: Annotated[int, Field(ge=0, le=100)] = 100

    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("vault_token_file")
    @classmethod
    def _is_there_for_vault(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is None and info.data.get("vault_url") is not None:
            raise ValueError("must be set with vault_url")
        return value

    @field_validator("key_provider")
    @classmethod
    def _is_configured(cls, value: str, info: ValidationInfo) -> str:
        if value == "vault" and info.data.get("vault_url", "") is None:
            raise ValueError("must be local, or vault_url must be set")
        return value

    @field_validator("client_key")
    @classmethod
    def _is_a_pair(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if (value is None) != (info.data.get("client_cert") is None):
            raise ValueError("must be set with client_cert, and only then")
        return value

    @field_validator("max_body_bytes")
    @classmethod
    def _fits_into_a_response(cls, value: int, info: ValidationInfo) -> int:
        url = info.data.get("database_url", SecretStr("")).get_secret_value()
        if value > _LARGEST_ON_LIBSQL and url.startswith(_LIBSQL):
            raise ValueError(f"must be at most {_LARGEST_ON_LIBSQL} on libSQL, which limits response sizes")
        return value

    @field_validator("heartbeat_interval_ms")
    @classmethod
    def _allows_two_heartbeats_per_lease(cls, value: int, info: ValidationInfo) -> int:
        if value > info.data.get("lease_ttl_ms", value * 2) // 2:
            raise ValueError("must be at most half of lease_ttl_ms, or one lost heartbeat ends the lease")
        return value

    @field_validator("backoff_cap_ms")
    @classmethod
    def _is_at_least_the_base(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("backoff_base_ms", value):
            raise ValueError("must be at least backoff_base_ms")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings  # only the environment and one TOML file are read
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load(**fixed: Any) -> Settings:
    """Return the settings of this process. The values in `fixed` take precedence over file and environment.

    If there are problems, raise one `SettingsError` with all of them.
    """
    try:
        return Settings(**fixed)
    except ValidationError as invalid:
        details = invalid.errors(include_url=False, include_input=False)
        # Skip a default that could not be computed: there is already a line for the setting that the default
        # depends on.
        lines = [_line(detail) for detail in details if detail["type"] != "default_factory_not_called"]
        raise SettingsError(lines) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{FILE}: {error}"]) from None
    except UnicodeDecodeError:
        raise SettingsError([f"{FILE}: must be UTF-8"]) from None
    except (ValueError, RecursionError):  # for example a number of 5,000 digits, or 5,000 nested brackets
        raise SettingsError([f"{FILE}: has a number or a nesting that is too large to parse"]) from None
    except OSError as error:
        raise SettingsError([f"{FILE}: cannot be read: {error.strerror}"]) from None


def _line(detail: ErrorDetails) -> str:
    name = str(detail["loc"][0])
    if detail["type"] == "extra_forbidden":
        close = get_close_matches(name.lower(), Settings.model_fields, n=1)
        return f"{FILE}: {name!r} is not a setting" + "".join(f"; did you mean {near!r}?" for near in close)
    variable = _PREFIX + name.upper()
    where = f"{FILE}: {name}" if variable not in os.environ and Path(FILE).is_file() else variable
    what = _MESSAGES.get(detail["type"], "{error}").format_map(
        {"error": detail["msg"], **detail.get("ctx", {})}
    )
    return f"{where} {what}"


def worker_id(environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of this process in claims and logs (contract §2): pod name, host name or random id."""
    named = environ.get("POD_NAME") or environ.get("HOSTNAME") or _boot_id(os.getpid())
    return named.encode("utf-8", "replace").decode()[:_LONGEST_WORKER_ID]


@lru_cache(maxsize=1)
def _boot_id(_pid: int) -> str:
    """Return a random id for the process.

    The pid is the cache key, because a forked process inherits the cache, but needs another id.
    """
    return str(uuid4())
