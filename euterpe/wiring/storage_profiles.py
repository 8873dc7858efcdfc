"""Load the storage profiles of this process: the tables `[storage.NAME]` of `euterpe.toml`.

A table has the fields of `credentials` in a job. Secrets are not written into the file: each field may be
replaced by a field with the suffix `_env`. For example, `access_key_id_env` names the environment variable
that contains the access key id. `requesters` lists the names of the requesters that may use the profile.
`prefixes` lists the beginnings of the URLs for which the profile may be used.
"""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.field_errors import field_errors
from euterpe.domain.locations import OBJECT_STORES
from euterpe.domain.storage_profiles import StorageProfile, StorageProfiles
from euterpe.domain.text import NAME
from euterpe.settings import FILE, Settings, SettingsError
from euterpe.wiring.worker import storage_policy

_CREDENTIALS: TypeAdapter[StorageCredentials] = TypeAdapter(StorageCredentials)
_FROM_ENVIRONMENT = "_env"


def load_storage_profiles(settings: Settings, environ: Mapping[str, str] = os.environ) -> StorageProfiles:
    """Return the profiles by name. Raise `SettingsError` with every error in every table."""
    problems: list[str] = []
    profiles: dict[str, StorageProfile] = {}
    for name, table in settings.storage.items():
        wrong: list[str] = []
        profile = _profile(name, dict(table), environ, wrong)
        if profile is not None and not storage_policy(settings).allows(profile.credentials.endpoint):
            wrong.append("endpoint must be one of EUTERPE_STORAGE_ENDPOINTS, on the workers, too")
        if profile is not None:
            profiles[name] = profile
        problems += [f"{FILE}: storage.{name}: {problem}" for problem in wrong]
    if problems:
        raise SettingsError(problems)
    return profiles


def _profile(
    name: str, table: dict[str, Any], environ: Mapping[str, str], wrong: list[str]
) -> StorageProfile | None:
    """Return the profile that a table declares, or None. Add the problems of the table to `wrong`."""
    try:
        NAME(name)
    except ValueError as error:
        wrong.append(f"the name {error}")
    requesters = _texts(table, "requesters", wrong)
    prefixes = _texts(table, "prefixes", wrong) if "prefixes" in table else ()
    if any(not _is_prefix(prefix) for prefix in prefixes):
        wrong.append("prefixes must be URLs of object storage that end with /, like s3://media/in/")
    credentials = _credentials(_with_secrets(table, environ, wrong), wrong)
    if wrong or credentials is None:
        return None
    return StorageProfile(credentials, frozenset(requesters), prefixes)


def _texts(table: dict[str, Any], name: str, wrong: list[str]) -> tuple[str, ...]:
    """Remove the list of texts `name` from the table, and return it."""
    value = table.pop(name, None)
    if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
        return tuple(value)
    wrong.append(f"{name} must be a list of texts with at least one")
    return ()


def _is_prefix(url: str) -> bool:
    scheme, separator, _ = url.partition("://")
    return scheme in OBJECT_STORES and bool(separator) and url.endswith("/")


def _with_secrets(table: Mapping[str, Any], environ: Mapping[str, str], wrong: list[str]) -> dict[str, Any]:
    """Return the table, with each `_env` field replaced by the value of its environment variable."""
    whole: dict[str, Any] = {}
    for key, value in table.items():
        if not key.endswith(_FROM_ENVIRONMENT):
            whole[key] = value
        elif isinstance(value, str) and environ.get(value):
            whole[key.removesuffix(_FROM_ENVIRONMENT)] = environ[value]
        else:
            wrong.append(f"{key} must name an environment variable that is set")
    return whole


def _credentials(whole: Mapping[str, Any], wrong: list[str]) -> StorageCredentials | None:
    try:
        return _CREDENTIALS.validate_python(whole)
    except ValidationError as invalid:
        if not wrong:  # otherwise a missing variable would be reported twice
            errors = field_errors(invalid, whole)
            wrong += sorted(f"{'.'.join(map(str, error.loc))} {error.msg}".strip() for error in errors)
    return None
