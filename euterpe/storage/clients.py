"""The clients of object stores: they act on the requester's keys or on none, and never on the operator's."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store
from pydantic import SecretStr

from euterpe.domain.credentials import Side, StorageCredentials
from euterpe.domain.retry import RetryClass
from euterpe.storage.errors import StorageError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

Client = S3Store | GCSStore | AzureStore

_KINDS: Mapping[str, type[S3Store] | type[GCSStore] | type[AzureStore]] = {
    "s3": S3Store,
    "gs": GCSStore,
    "az": AzureStore,
}
# Our name of each part of the credentials, and obstore's.
_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "access_key_id": "access_key_id",
        "secret_access_key": "secret_access_key",
        "session_token": "session_token",
        "region": "region",
        "endpoint": "endpoint",
    },
    "gs": {
        "service_account_json": "service_account_key",
        "access_token": "bearer_token",
        "endpoint": "base_url",
    },
    "az": {
        "account_name": "account_name",
        "sas_token": "sas_key",
        "account_key": "account_key",
        "endpoint": "endpoint",
    },
}

_AMBIENT = ("AWS_", "GOOGLE_", "AZURE_")

# A download is one request however long it takes, and is resumed by us; a part of an upload is sent again by
# the client, which keeps it. What waits for a part's answer also waits for the part to be sent: 16 MiB in a
# minute need 2 Mbit/s. A store that hangs holds an attempt, deaf to its end, for two such requests and no
# more; one that fails at once is asked five times.
CLIENT: dict[Side, "ClientConfig"] = {
    "source": {"connect_timeout": "10s", "read_timeout": "30s", "timeout": "7d"},
    "output": {"connect_timeout": "10s", "timeout": "60s"},
}
RETRIES: dict[Side, "RetryConfig"] = {
    "source": {"max_retries": 0},
    "output": {"max_retries": 4, "retry_timeout": timedelta(seconds=90)},
}


def forget_ambient_keys() -> None:
    """Takes the cloud variables out of this process: obstore reads them all when it builds a client, and
    they would fill whatever the requester left out, with the operator's identity."""
    for name in [name for name in os.environ if name.startswith(_AMBIENT)]:
        del os.environ[name]


def open_client(scheme: str, bucket: str, credentials: StorageCredentials | None, side: Side) -> Client:
    """Without credentials its requests are not signed: it looks for none, here or at an instance."""
    where = f"{scheme}://{bucket}"
    if credentials is not None and credentials.type != scheme:
        problem = f"{where}: credentials of type {credentials.type} do not fit it"
        raise StorageError(f"{side}_forbidden", problem, side=side, retry_class=RetryClass.CREDENTIALS)
    if scheme == "az" and credentials is None:
        problem = f"{where}: needs credentials, for only they name the storage account"
        raise StorageError(f"{side}_forbidden", problem, side=side, retry_class=RetryClass.CREDENTIALS)
    try:
        return _build(scheme, bucket, credentials, side)
    except (BaseError, ValueError):
        problem = f"{where}: these credentials are malformed"  # the cause may quote them
    raise StorageError(f"{side}_forbidden", problem, side=side, retry_class=RetryClass.CREDENTIALS)


def _build(scheme: str, bucket: str, credentials: StorageCredentials | None, side: Side) -> Client:
    config: Any = _settings(credentials) if credentials else {"skip_signature": True}
    endpoint = credentials.endpoint if credentials else None
    client_options: ClientConfig = {
        **CLIENT[side],
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
    }
    return _KINDS[scheme](bucket, config=config, client_options=client_options, retry_config=RETRIES[side])


def _settings(credentials: StorageCredentials) -> dict[str, str]:
    given = {setting: getattr(credentials, field) for field, setting in _SETTINGS[credentials.type].items()}
    return {
        setting: value.get_secret_value() if isinstance(value, SecretStr) else value
        for setting, value in given.items()
        if value is not None
    }
