"""Load the storage profiles of this process: the tables `[storage.NAME]` of `euterpe.toml`.

A table has the fields of `credentials` in a job. Secrets are not written into the file in clear text: each
field may be replaced by a field with the suffix `_env` or `_sealed`. For example, `access_key_id_env` names
the environment variable that contains the access key id, and `access_key_id_sealed` contains the text that
`euterpe keys seal` printed. `requesters` lists the names of the requesters that may use the profile.
`prefixes` lists the beginnings of the URLs for which the profile may be used.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from euterpe.crypto.envelope import storage_profile_context
from euterpe.crypto.errors import CannotDecrypt, UnknownKek
from euterpe.crypto.key_provider import KeyProvider
from euterpe.crypto.sealed_text import kek_id_of, unseal_text
from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.field_errors import field_errors
from euterpe.domain.locations import OBJECT_STORES
from euterpe.domain.storage_profiles import StorageProfile, StorageProfiles
from euterpe.domain.text import NAME, unset_variable
from euterpe.settings import FILE, Settings, SettingsError
from euterpe.wiring.database import key_provider
from euterpe.wiring.worker import storage_policy

_CREDENTIALS: TypeAdapter[StorageCredentials] = TypeAdapter(StorageCredentials)
_FROM_ENVIRONMENT, _SEALED = "_env", "_sealed"
# Return the secret of a field, or raise `ValueError` with the problem.
_Opens = Callable[[str, str], str]


def load_storage_profiles(settings: Settings, environ: Mapping[str, str] = os.environ) -> StorageProfiles:
    """Return the profiles by name. Raise `SettingsError` with every error in every table.

    If a field is sealed, call the key provider, which may wait for the network and may raise
    `KeyProviderUnavailable`.
    """
    keys = key_provider(settings) if any(True for _ in _sealed_texts(settings)) else None
    problems: list[str] = []
    profiles: dict[str, StorageProfile] = {}
    for name, table in settings.storage.items():
        wrong: list[str] = []
        profile = _profile(name, dict(table), partial(_open_secret, name, environ, keys), wrong)
        if profile is not None and not storage_policy(settings).allows(profile.credentials.endpoint):
            wrong.append("endpoint must be one of EUTERPE_STORAGE_ENDPOINTS, on the workers, too")
        if profile is not None:
            profiles[name] = profile
        problems += [f"{FILE}: storage.{name}: {problem}" for problem in wrong]
    if problems:
        raise SettingsError(problems)
    return profiles


def _profile(
    name: str, table: dict[str, Any], open_secret: _Opens, wrong: list[str]
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
    credentials = _credentials(_with_secrets(table, open_secret, wrong), wrong)
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


def _with_secrets(table: Mapping[str, Any], open_secret: _Opens, wrong: list[str]) -> dict[str, Any]:
    """Return the table, with each `_env` and `_sealed` field replaced by the secret that it stands for."""
    whole: dict[str, Any] = {}
    given: dict[str, list[str]] = {}
    for key in sorted(table):
        given.setdefault(_field_of(key), []).append(key)
    wrong += [f"give only one of {' and '.join(keys)}" for keys in given.values() if len(keys) > 1]
    for key, value in table.items():
        if not key.endswith((_FROM_ENVIRONMENT, _SEALED)):
            whole[key] = value
            continue
        try:
            whole[_field_of(key)] = open_secret(key, value)
        except ValueError as problem:
            wrong.append(f"{key} {problem}")
    return whole


def _field_of(key: str) -> str:
    return key.removesuffix(_FROM_ENVIRONMENT).removesuffix(_SEALED)


def _open_secret(
    profile: str, environ: Mapping[str, str], keys: KeyProvider | None, key: str, value: object
) -> str:
    """Return the secret of an `_env` or `_sealed` field. Raise `ValueError` with the problem."""
    if key.endswith(_FROM_ENVIRONMENT):
        if isinstance(value, str) and environ.get(value):
            return environ[value]
        raise ValueError(unset_variable(value))
    if not isinstance(value, str) or keys is None:
        raise ValueError("must be a text that `euterpe keys seal` printed")
    try:
        return unseal_text(value, storage_profile_context(profile, key.removesuffix(_SEALED)), keys)
    except UnknownKek as error:
        raise ValueError(f"was sealed with the KEK {error.kek_id!r}, which is not in the key ring") from None
    except CannotDecrypt:
        raise ValueError("must be a text that `euterpe keys seal` printed for this field") from None


def kek_ids_of_sealed_fields(settings: Settings) -> frozenset[str]:
    """Return the ids of the KEKs that encrypt fields of `euterpe.toml`."""
    ids = set[str]()
    for text in _sealed_texts(settings):
        with suppress(CannotDecrypt):  # `load_storage_profiles` reports a malformed text
            ids.add(kek_id_of(text))
    return frozenset(ids)


def _sealed_texts(settings: Settings) -> Iterator[str]:
    for table in settings.storage.values():
        yield from (text for key, text in table.items() if key.endswith(_SEALED) and isinstance(text, str))


def _credentials(whole: Mapping[str, Any], wrong: list[str]) -> StorageCredentials | None:
    try:
        return _CREDENTIALS.validate_python(whole)
    except ValidationError as invalid:
        if not wrong:  # `wrong` can name a missing variable, which must not be reported twice
            errors = field_errors(invalid, whole)
            wrong += sorted(f"{'.'.join(map(str, error.loc))} {error.msg}".strip() for error in errors)
    return None
