"""Open clients of object stores, with the requester's credentials or without any.

The credentials of the operator are never used.
"""

from collections.abc import Mapping

from euterpe.domain.credentials import (
    AzCredentials,
    GsCredentials,
    S3Credentials,
    Side,
    StorageCredentials,
)
from euterpe.net.egress import Egress
from euterpe.storage.errors import SideCode, StorageError
from euterpe.storage.objects.client import ObjectClient
from euterpe.storage.objects.request import Anonymous, Signer
from euterpe.storage.objects.signers import (
    AccountKey,
    BearerToken,
    S3Signer,
    ServiceAccount,
    SharedAccessSignature,
)
from euterpe.storage.transfer import DEFAULT_RETRY, TransferRetry

_REGION = "us-east-1"
# Idle timeout: a request fails when the store sends nothing for this long.
IDLE_S = 30.0
_ENDPOINTS: Mapping[str, str] = {
    "s3": f"https://s3.{_REGION}.amazonaws.com",
    "gs": "https://storage.googleapis.com",
}


def open_client(
    egress: Egress,
    scheme: str,
    bucket: str,
    credentials: StorageCredentials | None,
    side: Side,
    *,
    idle_s: float = IDLE_S,
    retry: TransferRetry = DEFAULT_RETRY,
) -> ObjectClient:
    """Return a client for one bucket. Without credentials, the client does not sign its requests."""
    where = f"{scheme}://{bucket}"
    if credentials is not None and credentials.type != scheme:
        raise _unusable(f"{where}: credentials of type {credentials.type} do not fit it", side)
    if scheme == "az" and credentials is None:
        raise _unusable(f"{where}: needs credentials, because only they name the storage account", side)
    try:
        signer = Anonymous() if credentials is None else _signer(credentials)
    except ValueError:
        signer = None
    if signer is None:  # do not raise inside `except`: the exception that is handled there may quote the keys
        raise _unusable(f"{where}: these credentials are malformed", side)
    base = _ENDPOINTS[scheme] if credentials is None else _endpoint(credentials)
    return ObjectClient(egress, base.rstrip("/"), bucket, signer, side, idle_s, retry)


def _unusable(problem: str, side: Side) -> StorageError:
    return StorageError(SideCode.FORBIDDEN.for_side(side), problem, side=side)


def _endpoint(credentials: StorageCredentials) -> str:
    if credentials.endpoint is not None:
        return credentials.endpoint
    match credentials:
        case S3Credentials():
            return f"https://s3.{credentials.region or _REGION}.amazonaws.com"
        case AzCredentials():
            return f"https://{credentials.account_name}.blob.core.windows.net"
        case GsCredentials():
            return _ENDPOINTS["gs"]


def _signer(credentials: StorageCredentials) -> Signer:
    """Return the signer for these credentials. Raise ValueError when the keys are missing or malformed."""
    match credentials:
        case S3Credentials(session_token=token):
            return S3Signer(
                credentials.access_key_id.get_secret_value(),
                credentials.secret_access_key.get_secret_value(),
                None if token is None else token.get_secret_value(),
                credentials.region or _REGION,
            )
        case GsCredentials(service_account_json=key_file) if key_file is not None:
            return ServiceAccount(key_file.get_secret_value())
        case GsCredentials(access_token=token) if token is not None:
            return BearerToken(token.get_secret_value())
        case AzCredentials(sas_token=sas) if sas is not None:
            return SharedAccessSignature(sas.get_secret_value())
        case AzCredentials(account_key=key) if key is not None:
            return AccountKey.decode(credentials.account_name, key.get_secret_value())
        case _:
            raise ValueError("no keys")
